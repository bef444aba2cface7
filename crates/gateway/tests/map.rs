//! The code map of docs/architecture.md names every module of the domain and of the gateway, and none that is gone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../docs/architecture.md");

/// The folders of the domain whose modules are named as well.
const STATIONS: [&str; 6] = ["session", "here", "store", "relay", "reading", "backend"];

/// What a folder holds, without the ends of the names.
fn files(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let stems = paths.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
    stems.filter(|stem| !["lib", "main"].contains(&stem.as_str())).collect()
}

/// The rows of the map of a folder, as the cells before the last bar.
fn rows(folder: &str) -> Vec<Vec<&'static str>> {
    let (_, map) = PAGE.split_once(&format!("### `{folder}`")).expect("a map of the folder");
    let lines = map.lines().skip_while(|line| !line.starts_with("| --- |")).skip(1);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').collect()).collect()
}

/// The words in backquotes.
fn names(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The modules that the map of a crate names first in a row, those in folders apart.
fn modules(folder: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    rows(folder).iter().flat_map(|row| names(row[0])).partition(|name| !name.contains('/'))
}

/// What the row of a module says of it.
fn told_of(folder: &str, module: &str) -> BTreeSet<String> {
    let row = rows(folder).into_iter().find(|row| names(row[0]).contains(module));
    names(row.unwrap_or_else(|| panic!("no row of {module}"))[1])
}

#[test]
fn every_module_has_its_place_in_the_map() {
    for folder in ["crates/presence/src", "crates/gateway/src"] {
        assert_eq!(modules(folder).0, files(folder), "{folder}");
    }
    let folder = "crates/presence/src";
    let in_station = |station: &str| {
        let names = files(&format!("{folder}/{station}")).into_iter();
        names.map(|name| format!("{station}/{name}")).collect::<Vec<_>>()
    };
    let mut expected: BTreeSet<_> = STATIONS.into_iter().flat_map(in_station).collect();
    expected.insert("store/redis/lua".to_owned());
    assert_eq!(modules(folder).1, expected);
    for module in ["store/redis", "store/redis/lua"] {
        let mut files = files(&format!("{folder}/{module}"));
        files.remove("lua");
        assert_eq!(told_of(folder, module), files, "{module}");
    }
}
