//! A made-up report of a small run in which nothing went wrong, for tests.

use std::collections::BTreeMap;

use super::{
    Brief, Distribution, Ending, Footprint, PLANNED, PhaseSpan, REPORT_VERSION, Report, Second,
    Server, ServerSecond, names,
};

const SECONDS: u32 = 20;

const CONNECTIONS: u64 = 1000;

const COUNTS: [(&str, u64); 20] = [
    (PLANNED, CONNECTIONS),
    (names::STARTED, CONNECTIONS),
    (names::CONNECTED, CONNECTIONS),
    (names::CAME_UP, CONNECTIONS),
    (names::FAILED, 0),
    (names::LOST, 0),
    (names::DROPPED, 0),
    (names::RETURNED_IN_GRACE, 10),
    (names::SILENT_TOLD, 5),
    (names::PINGS, 2000),
    ("pongs", 2000),
    (names::SNAPSHOT_STATES, 20_000),
    (names::PUSHED_ONLINE, 19_000),
    (names::PUSHED_OFFLINE, 200),
    (names::VIEWS, 20_000),
    (names::BACKWARD, 0),
    (names::EARLY_OFFLINE, 0),
    (names::FALSE_OFFLINE, 0),
    (names::FLAPS_SHOWN, 0),
    (names::LOST_CHANGES, 0),
];

pub(crate) fn report() -> Report {
    let timings =
        [names::CONNECT, names::PING, names::ONLINE_PUSH, "offline, closed", names::TESTER_LATE];
    Report {
        version: REPORT_VERSION,
        name: "morning".to_owned(),
        scenario: "name = \"morning\"\nseed = 1\n".to_owned(),
        started_at_ms: 1_796_000_000_000,
        seconds: SECONDS.into(),
        ending: Ending::Complete,
        urls: vec!["ws://127.0.0.1:8080/ws".to_owned()],
        workers: 1,
        phases: vec![phase("ramp", 0.0, 10.0), phase("hold", 10.0, 20.0)],
        counts: COUNTS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        timings: timings.iter().map(|name| distribution(name)).collect(),
        errors: BTreeMap::new(),
        closes: BTreeMap::new(),
        timeline: (1..=SECONDS).map(second).collect(),
        tester: footprint(),
        servers: vec![server(names::GATEWAYS), server(names::REDIS)],
    }
}

/// One of its timings, to be changed.
pub(crate) fn timing<'a>(report: &'a mut Report, name: &str) -> &'a mut Distribution {
    report.timings.iter_mut().find(|timing| timing.name == name).expect("it is in the sample")
}

fn phase(name: &str, from_s: f64, to_s: f64) -> PhaseSpan {
    PhaseSpan { name: name.to_owned(), from_s, to_s }
}

fn distribution(name: &str) -> Distribution {
    Distribution {
        name: name.to_owned(),
        meaning: format!("What is measured of {name}."),
        count: 20_000,
        p50_ms: 1.0,
        p90_ms: 2.0,
        p99_ms: 4.0,
        p999_ms: 8.0,
        max_ms: 16.0,
        curve: vec![(0.0, 0.5), (50.0, 1.0), (90.0, 2.0), (99.0, 4.0), (99.9, 8.0), (100.0, 16.0)],
    }
}

fn second(at_s: u32) -> Second {
    let connected = if at_s <= 10 { CONNECTIONS / 10 } else { 0 };
    let brief = Brief { count: 100, p50_ms: 1.0, p99_ms: 4.0, max_ms: 9.0 };
    Second {
        at_s,
        open: CONNECTIONS.min(u64::from(at_s) * CONNECTIONS / 10),
        grew: BTreeMap::from([(names::CONNECTED.to_owned(), connected), ("pings".to_owned(), 100)]),
        timings: BTreeMap::from([(names::PING.to_owned(), brief)]),
    }
}

fn server(kind: &str) -> Server {
    Server {
        kind: kind.to_owned(),
        processes: 1,
        footprint: Some(footprint()),
        figures: BTreeMap::from([("commands".to_owned(), 12_345.0)]),
        timeline: (1..=SECONDS)
            .map(|at_s| ServerSecond { at_s, rss: 10_000_000, cores: 0.25 })
            .collect(),
    }
}

fn footprint() -> Footprint {
    Footprint {
        rss_before: 10 << 20,
        rss_peak: 13 << 20,
        rss_after: 12 << 20,
        bytes_per_connection: Some(3145),
        cpu_secs: 4.0,
    }
}
