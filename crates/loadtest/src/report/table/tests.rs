//! The table of a made-up report.

use super::*;
use crate::reported::Reported;

fn report(ending: Ending, failed: u64, connecting: u64) -> Report {
    let counts = [
        (PLANNED, 1000),
        (OPEN, 1000 - failed - connecting),
        (CONNECTING, connecting),
        (Count::Connected.name(), 1000 - failed - connecting),
        (Count::CameUp.name(), 1000 - failed - connecting),
        (Count::Failed.name(), failed),
        (Count::Started.name(), 1000),
        (Count::Pings.name(), 1000),
        (Count::Pongs.name(), 1000),
        (Count::Views.name(), 20_000),
        (Count::ViewsOnline.name(), 19_000),
    ];
    let timing = |name: &str, count| Distribution {
        name: name.to_owned(),
        meaning: String::new(),
        count,
        p50_ms: 500.22,
        p90_ms: 900.1,
        p99_ms: 990.21,
        p999_ms: 999.0,
        max_ms: 1000.0,
        curve: vec![(100.0, 1000.0)],
    };
    Report {
        version: crate::report::REPORT_VERSION,
        name: "morning".to_owned(),
        scenario: String::new(),
        started_at_ms: 0,
        seconds: 12.34,
        ending,
        urls: vec!["ws://127.0.0.1:8080/ws".to_owned()],
        workers: 2,
        phases: Vec::new(),
        counts: counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        timings: vec![timing("ping", 1000), timing("offline, bye", 0)],
        errors: BTreeMap::from([("no welcome in time".to_owned(), failed)]),
        closes: BTreeMap::new(),
        timeline: Vec::new(),
        tester: Footprint {
            rss_before: 1 << 20,
            rss_peak: 3 << 20,
            rss_after: 2 << 20,
            bytes_per_connection: Some(2097),
            cpu_secs: 1.5,
        },
        servers: Vec::new(),
    }
}

#[test]
fn the_table_holds_the_numbers() {
    let table = report(Ending::Complete, 3, 0).table();
    for part in [
        "morning, ws://127.0.0.1:8080/ws: complete, after 12.3 s",
        "Every promise was kept, but 3 connections failed to connect.",
        "3 failed",
        "19000 of 20000 watched users",
        "500.22",
        "990.21",
        "         3  no welcome in time",
        "2 workers",
        "2097 bytes per connection, 1.50 s of CPU, ",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    for part in ["close codes", "acts", "silent", "offline, bye"] {
        assert!(!table.contains(part), "{part} is in\n{table}");
    }
}

#[test]
fn a_run_is_clean_when_every_connection_came_up_and_stayed() {
    assert!(report(Ending::Complete, 0, 0).is_clean());
    assert!(!report(Ending::Complete, 1, 0).is_clean());
    assert!(!report(Ending::Complete, 0, 1).is_clean());
    assert!(!report(Ending::WorkerLost, 0, 0).is_clean());
    assert!(report(Ending::Interrupted, 0, 0).is_clean());
    assert!(!report(Ending::Interrupted, 0, 1).is_clean());
}

#[test]
fn the_json_report_is_one_object_and_reads_back() {
    let json = serde_json::to_string(&report(Ending::Interrupted, 0, 0)).unwrap();
    let read: Report = serde_json::from_str(&json).unwrap();
    assert_eq!(read.ending, Ending::Interrupted);
    assert_eq!(read.count(OPEN), 1000);
    assert_eq!(read.timings[0].name, "ping");
    assert_eq!(read.tester.bytes_per_connection, Some(2097));
}
