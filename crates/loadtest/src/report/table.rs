//! The report for people: plain text, so that it can be pasted anywhere.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::{Ending, Footprint, Quantiles, Report};

/// When the tester itself was this late, its other numbers are not the server's alone.
const LATENESS_WORTH_A_WORD_MS: f64 = 20.0;

impl Report {
    /// The whole report in lines.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes any text");
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        self.write_connections(text)?;
        self.write_latencies(text)?;
        write_kinds(text, "errors", &self.errors)?;
        write_kinds(text, "close codes", &self.closes)?;
        writeln!(text)?;
        write_footprint(text, "this tester", &self.own)?;
        if let Some(server) = &self.server {
            write_footprint(text, "the server", server)?;
        }
        Ok(())
    }

    fn write_connections(&self, text: &mut String) -> fmt::Result {
        let ending = match self.ending {
            Ending::Complete => "complete",
            Ending::Interrupted => "stopped early",
            Ending::NobodyLeft => "ended early: no connection was left",
        };
        let connections = &self.connections;
        let presence = &self.presence;
        writeln!(text, "\n{}: {ending}, after {:.1} s\n", self.url, self.seconds)?;
        writeln!(
            text,
            "connections   {} planned, {} started, {} connected, {} open, {} connecting, \
             {} failed, {} dropped",
            connections.planned,
            connections.started,
            connections.connected,
            connections.open,
            connections.connecting,
            connections.failed,
            connections.dropped,
        )?;
        writeln!(text, "heartbeats    {} pings, {} pongs", self.pings, self.pongs)?;
        writeln!(
            text,
            "presence      {} states in snapshots, {} pushed online, {} pushed offline, \
             {} not newer",
            presence.snapshot_states,
            presence.pushed_online,
            presence.pushed_offline,
            presence.pushed_not_newer,
        )?;
        writeln!(
            text,
            "views         {} of {} watched users are seen online, {} flickers",
            presence.seen_online, presence.watches, presence.flickers,
        )
    }

    fn write_latencies(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "\n{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "latency, ms", "count", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for Quantiles { name, count, p50_ms, p90_ms, p99_ms, p999_ms, max_ms } in &self.latencies {
            write!(text, "{name:<14}{count:>10}")?;
            for value in [p50_ms, p90_ms, p99_ms, p999_ms, max_ms] {
                write!(text, "{value:>10.2}")?;
            }
            writeln!(text)?;
        }
        if self.lateness_p99_ms() > LATENESS_WORTH_A_WORD_MS {
            writeln!(
                text,
                "This tester was late itself: its latencies are not the server's alone."
            )?;
        }
        Ok(())
    }

    fn lateness_p99_ms(&self) -> f64 {
        let lateness = self.latencies.iter().find(|latency| latency.name == super::LATENESS);
        lateness.map_or(0.0, |lateness| lateness.p99_ms)
    }
}

fn write_kinds(text: &mut String, title: &str, kinds: &BTreeMap<String, u64>) -> fmt::Result {
    if kinds.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n{title}")?;
    for (kind, count) in kinds {
        writeln!(text, "{count:>10}  {kind}")?;
    }
    Ok(())
}

fn write_footprint(text: &mut String, whose: &str, footprint: &Footprint) -> fmt::Result {
    let mib = |bytes: u64| bytes as f64 / 1024.0 / 1024.0;
    write!(
        text,
        "{whose:<14}{:.1} MiB before, {:.1} MiB after",
        mib(footprint.rss_before),
        mib(footprint.rss_after),
    )?;
    if let Some(bytes) = footprint.bytes_per_connection {
        write!(text, ", {bytes} bytes per connection")?;
    }
    writeln!(text, ", {:.2} s of CPU", footprint.cpu_secs)
}

#[cfg(test)]
mod tests {
    use crate::report::{Connections, Presence};
    use crate::tally::Latency;

    use super::*;

    fn report(ending: Ending, failed: u64, connecting: u64) -> Report {
        let ping = Latency::default();
        (1..=1000).for_each(|ms| ping.record_us(ms * 1000));
        let footprint = || Footprint {
            rss_before: 1 << 20,
            rss_after: 3 << 20,
            bytes_per_connection: Some(2097),
            cpu_secs: 1.5,
        };
        Report {
            ending,
            url: "ws://127.0.0.1:8080/ws".to_owned(),
            seconds: 12.34,
            connections: Connections {
                planned: 1000,
                started: 1000,
                connected: 1000 - failed - connecting,
                connecting,
                failed,
                dropped: 0,
                open: 1000 - failed - connecting,
            },
            presence: Presence {
                snapshot_states: 20_000,
                pushed_online: 10_000,
                pushed_offline: 0,
                pushed_not_newer: 0,
                flickers: 0,
                watches: 20_000,
                seen_online: 20_000,
            },
            pings: 1000,
            pongs: 1000,
            latencies: vec![Quantiles::of("ping", &ping)],
            errors: BTreeMap::from([("no welcome in time".to_owned(), failed)]),
            closes: BTreeMap::new(),
            own: footprint(),
            server: Some(footprint()),
        }
    }

    #[test]
    fn the_table_holds_the_numbers() {
        let table = report(Ending::Complete, 3, 0).table();
        for part in [
            "complete, after 12.3 s",
            "3 failed",
            "20000 of 20000 watched users",
            "500.22",
            "990.21",
            "         3  no welcome in time",
            "2097 bytes per connection, 1.50 s of CPU",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        assert!(!table.contains("close codes"), "{table}");
    }

    #[test]
    fn a_run_is_clean_when_every_connection_came_up_and_stayed() {
        assert!(report(Ending::Complete, 0, 0).is_clean());
        assert!(!report(Ending::Complete, 1, 0).is_clean());
        assert!(!report(Ending::Complete, 0, 1).is_clean());
        assert!(report(Ending::Interrupted, 0, 1).is_clean());
    }

    #[test]
    fn the_json_report_is_one_object_with_the_same_numbers() {
        let json = serde_json::to_value(report(Ending::Interrupted, 0, 0)).unwrap();
        assert_eq!(json["ending"], "interrupted");
        assert_eq!(json["connections"]["open"], 1000);
        assert_eq!(json["latencies"][0]["name"], "ping");
        assert_eq!(json["server"]["bytes_per_connection"], 2097);
    }
}
