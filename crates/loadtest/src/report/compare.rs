//! What changed between two runs: figure by figure, with what got worse by more than noise marked.
//!
//! It judges numbers only. Whether the two runs may be compared at all, with their scenarios and
//! machines, is for the reader, who is told first where they differ.

mod figures;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{REPORT_VERSION, Report};

/// What changed from `before` to `after`, in lines.
pub(crate) fn compare(before: &Path, after: &Path) -> Result<String> {
    let before = read(before).with_context(|| before.display().to_string())?;
    let after = read(after).with_context(|| after.display().to_string())?;
    Ok(table::table(&before, &after))
}

/// Reads a report; one of another version is refused before its parts are looked at.
pub(crate) fn read(path: &Path) -> Result<Report> {
    /// All that every version has.
    #[derive(Deserialize)]
    struct Any {
        version: u32,
    }
    let json = fs::read(path).context("cannot be read")?;
    let Any { version } = serde_json::from_slice(&json).context(
        "is no report: these are written by presence-loadtest run --json, and local --json",
    )?;
    ensure!(
        version == REPORT_VERSION,
        "is a report of version {version}, and this program reads version {REPORT_VERSION}: use \
         the presence-loadtest that wrote it"
    );
    serde_json::from_slice(&json).context("is a damaged report")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::sample;
    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, content).unwrap();
        file
    }

    fn refusal(content: &str) -> String {
        let file = file(content);
        format!("{:#}", compare(file.path(), file.path()).unwrap_err())
    }

    #[test]
    fn a_report_that_was_written_is_read_again() {
        let file = file(&serde_json::to_string(&sample::report()).unwrap());
        let table = compare(file.path(), file.path()).unwrap();
        assert!(table.contains("Nothing changed by more than noise"), "{table}");
    }

    #[test]
    fn another_version_is_refused_whatever_else_it_holds() {
        let refusal = refusal(&json!({ "version": 7, "name": 3 }).to_string());
        assert!(refusal.contains("version 7") && refusal.contains("version 1"), "{refusal}");
    }

    #[test]
    fn what_is_no_report_is_refused_with_its_name() {
        for content in ["", "{}", r#"{"promises": 3}"#] {
            let refusal = refusal(content);
            assert!(refusal.contains("/tmp") && refusal.contains("no report"), "{refusal}");
        }
        assert!(refusal(r#"{"version": 1}"#).contains("damaged"));
    }
}
