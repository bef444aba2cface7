//! The key figures of a page: what a reader wants to know first, and only what was measured.

use std::fmt::Write as _;

use super::markup::escape;
use crate::report::{Report, Server, names, written};

/// A figure, what it is, and what it has to be read with.
struct Tile {
    title: String,
    figure: String,
    note: String,
}

/// All tiles, as a list of terms.
pub(super) fn tiles(report: &Report) -> String {
    let latencies = [
        (names::CONNECT, "To connect"),
        (names::PING, "To answer a ping"),
        (names::ONLINE_PUSH, "Until contacts see online"),
    ];
    let latencies = latencies.iter().filter_map(|(name, title)| latency(report, name, title));
    let servers = report.servers.iter().flat_map(|server| of_server(report, server));
    let tiles = load(report).into_iter().chain(latencies).chain(latest_offline(report));
    let mut html = "<dl class=\"tiles\">\n".to_owned();
    for Tile { title, figure, note } in tiles.chain(servers) {
        let [title, figure, note] = [title, figure, note].map(|text| escape(&text));
        // A string takes any text, so writing to one does not fail.
        let _ = writeln!(
            html,
            "<div><dt>{title}</dt><dd class=\"figure\">{figure}</dd><dd class=\"note\">{note}</dd></div>"
        );
    }
    html + "</dl>"
}

/// What the run put on the servers.
fn load(report: &Report) -> Vec<Tile> {
    let open_most = report.timeline.iter().map(|second| second.open).max().unwrap_or(0);
    let connects = busiest_second(report, &[names::CONNECTED]);
    let heartbeats = busiest_second(report, &names::SIGNS_OF_LIFE);
    let tile = |title: &str, number: u64, note: String| {
        (number > 0).then(|| Tile { title: title.to_owned(), figure: written::count(number), note })
    };
    let started = format!("{} started", written::count(report.count(names::STARTED)));
    let sent = names::SIGNS_OF_LIFE.iter().map(|name| report.count(name)).sum();
    let sent = format!("{} in all", written::count(sent));
    let tiles = [
        tile("Connections at once", open_most, started),
        tile("Connects a second", connects, "in the busiest second".to_owned()),
        tile("Heartbeats a second", heartbeats, format!("in the busiest; {sent}")),
    ];
    tiles.into_iter().flatten().collect()
}

/// The most that several counts together grew in a second.
fn busiest_second(report: &Report, names: &[&str]) -> u64 {
    let grew = report.timeline.iter().map(|second| {
        let grew = names.iter().filter_map(|name| second.grew.get(*name));
        grew.sum::<u64>()
    });
    grew.max().unwrap_or(0)
}

fn latency(report: &Report, name: &str, title: &str) -> Option<Tile> {
    let timing = report.timing(name)?;
    let figure = written::ms(timing.p99_ms);
    let note = format!("99 of 100 within this; half within {}", written::ms(timing.p50_ms));
    Some(Tile { title: title.to_owned(), figure, note })
}

fn latest_offline(report: &Report) -> Option<Tile> {
    let late = report.timings.iter().filter(|timing| timing.count > 0);
    let late = late.filter(|timing| names::OFFLINE.contains(&timing.name.as_str()));
    let latest = late.map(|timing| timing.max_ms).reduce(f64::max)?;
    let note = "after its ideal moment, at worst; 1 s is promised".to_owned();
    Some(Tile { title: "Offline shown".to_owned(), figure: written::ms(latest), note })
}

fn of_server(report: &Report, server: &Server) -> Vec<Tile> {
    let whose = match server.kind.as_str() {
        names::GATEWAYS => "all gateways",
        names::REDIS => "Redis",
        other => other,
    };
    let Some(footprint) = &server.footprint else { return Vec::new() };
    let memory = footprint.bytes_per_connection.map(|bytes| Tile {
        title: format!("Memory a connection, {whose}"),
        figure: written::bytes(bytes as f64),
        note: format!("{} at the peak", written::bytes(footprint.rss_peak as f64)),
    });
    let busiest = server.timeline.iter().map(|moment| moment.cores).fold(0.0, f64::max);
    let cores = (footprint.cpu_secs > 0.0 && report.seconds > 0.0).then(|| Tile {
        title: format!("Cores, {whose}"),
        figure: written::number(footprint.cpu_secs / report.seconds),
        note: format!("on average; {} at most", written::number(busiest)),
    });
    memory.into_iter().chain(cores).collect()
}
