//! The report for people: plain text, so that it can be pasted anywhere.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::names::{COMMANDS, GATEWAYS};
use super::written::counted;
use super::{CONNECTING, Distribution, Ending, Footprint, OPEN, PLANNED, Report};
use crate::measures::Count;

impl Report {
    /// Writes it in lines.
    pub(super) fn write_lines(&self, text: &mut String) -> fmt::Result {
        self.write_head(text)?;
        self.write_verdict(text)?;
        self.write_connections(text)?;
        self.write_presence(text)?;
        self.write_timings(text)?;
        write_kinds(text, "errors", &self.errors)?;
        write_kinds(text, "close codes", &self.closes)?;
        writeln!(text)?;
        let bytes = |count: Count| mib(self.count(count.name()));
        let (read, sent) = (bytes(Count::BytesIn), bytes(Count::BytesOut));
        writeln!(text, "{:<14}{read:.1} MiB read, {sent:.1} MiB sent", "traffic")?;
        self.write_footprint(text, &counted(self.workers.into(), "worker"), &self.tester)?;
        for server in &self.servers {
            let whose = match server.kind.as_str() {
                GATEWAYS => counted(server.processes.into(), "gateway"),
                other => format!("{} {other}", server.processes),
            };
            match &server.footprint {
                Some(footprint) => self.write_footprint(text, &whose, footprint)?,
                None => writeln!(text, "{whose:<14}did not tell of memory and CPU")?,
            }
            if let Some(commands) = server.figures.get(COMMANDS) {
                writeln!(text, "{:<14}{commands:.0} commands", "")?;
            }
        }
        Ok(())
    }

    fn write_footprint(
        &self,
        text: &mut String,
        whose: &str,
        footprint: &Footprint,
    ) -> fmt::Result {
        write!(
            text,
            "{whose:<14}{:.1} MiB before, {:.1} MiB at the peak",
            mib(footprint.rss_before),
            mib(footprint.rss_peak),
        )?;
        if let Some(bytes) = footprint.bytes_per_connection {
            write!(text, ", {bytes} bytes per connection")?;
        }
        write!(text, ", {:.2} s of CPU", footprint.cpu_secs)?;
        if let Some(us) = footprint.cpu_us_per_connection(self) {
            write!(text, ", {us:.0} µs per connection")?;
        }
        writeln!(text)
    }

    fn write_head(&self, text: &mut String) -> fmt::Result {
        let ending = match self.ending {
            Ending::Complete => "complete",
            Ending::Interrupted => "stopped early",
            Ending::NobodyLeft => "ended early: no connection was left",
            Ending::WorkerLost => "ended early: a worker was lost",
        };
        let (name, gateways, seconds) = (&self.name, self.gateways(), self.seconds);
        writeln!(text, "\n{name}, {gateways}: {ending}, after {seconds:.1} s\n")
    }

    fn write_verdict(&self, text: &mut String) -> fmt::Result {
        let verdict = self.verdict();
        writeln!(text, "{}", verdict.headline)?;
        for remark in &verdict.remarks {
            writeln!(text, "  {remark}")?;
        }
        writeln!(text)
    }

    fn write_connections(&self, text: &mut String) -> fmt::Result {
        let count = |count: Count| self.count(count.name());
        writeln!(
            text,
            "connections   {} planned, {} started, {} connected, {} open, {} connecting, \
             {} failed, {} dropped",
            self.count(PLANNED),
            count(Count::Started),
            count(Count::Connected),
            self.count(OPEN),
            self.count(CONNECTING),
            count(Count::Failed),
            count(Count::Dropped),
        )?;
        write_some(
            text,
            "acts",
            &[
                (count(Count::Retried), "tried again"),
                (count(Count::SentAway), "sent away by gateways"),
                (count(Count::ClosedOnPurpose), "closed"),
                (count(Count::ReturnedInGrace), "back within grace"),
                (count(Count::SignedOut), "signed out"),
                (count(Count::FellSilent), "fell silent"),
                (count(Count::Froze), "froze"),
                (count(Count::Thawed), "went on"),
                (count(Count::FrozenOut), "were closed meanwhile"),
                (count(Count::ActsSkipped), "found nobody connected"),
            ],
        )?;
        write_some(
            text,
            "heartbeats",
            &[
                (count(Count::Pings), "pings"),
                (count(Count::Pongs), "pongs"),
                (count(Count::PongsSent), "pings of the gateway answered"),
                (count(Count::HeartbeatsSent), "messages"),
            ],
        )
    }

    fn write_presence(&self, text: &mut String) -> fmt::Result {
        let count = |count: Count| self.count(count.name());
        writeln!(
            text,
            "presence      {} states in snapshots, {} pushed online, {} pushed offline",
            count(Count::SnapshotStates),
            count(Count::PushedOnline),
            count(Count::PushedOffline),
        )?;
        let silent = (count(Count::SilentTold), count(Count::SilentUntold));
        if silent != (0, 0) {
            writeln!(text, "silent        {} watchers told, {} not", silent.0, silent.1)?;
        }
        writeln!(
            text,
            "faults        {} shown offline falsely, {} flaps shown, {} shown offline early, \
             {} backward, {} changes lost",
            count(Count::FalseOffline),
            count(Count::FlapsShown),
            count(Count::EarlyOffline),
            count(Count::Backward),
            count(Count::LostChanges),
        )?;
        match count(Count::Views) {
            0 => Ok(()),
            views => writeln!(
                text,
                "views         {} of {views} watched users are seen online",
                count(Count::ViewsOnline),
            ),
        }
    }

    fn write_timings(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "\n{:<16}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "latency, ms", "count", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for timing in self.timings.iter().filter(|timing| timing.count > 0) {
            let Distribution { name, count, p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } = timing;
            write!(text, "{name:<16}{count:>10}")?;
            for value in [p50_ms, p90_ms, p99_ms, p999_ms, max_ms] {
                write!(text, "{value:>10.2}")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }
}

/// A line of those counts that are any; no line when none is.
fn write_some(text: &mut String, title: &str, counts: &[(u64, &str)]) -> fmt::Result {
    let some: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if some.is_empty() {
        return Ok(());
    }
    writeln!(text, "{title:<14}{}", some.join(", "))
}

pub(crate) fn write_kinds(
    text: &mut String,
    title: &str,
    kinds: &BTreeMap<String, u64>,
) -> fmt::Result {
    if kinds.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n{title}")?;
    for (kind, count) in kinds {
        writeln!(text, "{count:>10}  {kind}")?;
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

#[cfg(test)]
mod tests;
