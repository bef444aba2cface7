//! The report for people: plain text, so that it can be pasted anywhere.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::{Cost, Report};
use crate::report::{Ending, LATENESS_WORTH_A_WORD_MS, write_kinds};
use crate::reported::Reported;
use crate::sim::args::Path;

impl Report {
    /// Writes it in lines.
    pub(super) fn write_lines(&self, text: &mut String) -> fmt::Result {
        self.write_what(text)?;
        self.write_costs(text)?;
        if self.path == Path::Engine {
            self.write_presence(text)?;
        }
        let late = &self.lateness;
        writeln!(
            text,
            "own lateness  p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            late.p50_ms, late.p99_ms, late.max_ms
        )?;
        if late.p99_ms > LATENESS_WORTH_A_WORD_MS {
            writeln!(text, "The driver was late itself: the machine has too little to give.")?;
        }
        if self.ending == Ending::Interrupted {
            writeln!(text, "It was stopped early.")?;
        }
        write_kinds(text, "troubles", &self.troubles)?;
        if self.path == Path::SetEx {
            return Ok(());
        }
        let verdict = if self.is_clean() {
            "Nobody who was online was shown offline."
        } else {
            "SOMEBODY WHO WAS ONLINE WAS SHOWN OFFLINE, OR A SESSION WAS ENDED OR REFUSED."
        };
        writeln!(text, "\n{verdict}")
    }

    fn write_what(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "\nsessions {}, gateways {}, a heartbeat every {:?}, TTL {:?}, {}\n",
            self.sessions,
            self.gateways,
            Duration::from_millis(self.heartbeat_ms),
            Duration::from_millis(self.ttl_ms),
            match self.path {
                Path::Engine => "through the engine",
                Path::SetEx => "each its own SET key EX ttl",
            },
        )?;
        writeln!(
            text,
            "joined        in {:.1} s, {:.0} a second",
            self.join_secs,
            f64::from(self.sessions) / self.join_secs
        )?;
        if self.watch > 0 {
            let (watch, secs) = (self.watch, self.watch_secs);
            writeln!(text, "watching      {watch} users each, answered in {secs:.1} s")?;
        }
        let beats = &self.heartbeats;
        writeln!(
            text,
            "heartbeats    {:.0} a second for {:.1} s: {} of {} planned",
            beats.per_sec, self.seconds, beats.given, beats.planned
        )
    }

    fn write_costs(&self, text: &mut String) -> fmt::Result {
        writeln!(
            text,
            "\n{:<14}{:>14}{:>20}{:>14}",
            "", "% of a core", "µs a heartbeat", "bytes a user"
        )?;
        for (whose, cost) in [("Redis", &self.redis), ("this process", &self.process)] {
            let Cost { cpu_percent, cpu_us_per_heartbeat, bytes_per_user } = cost;
            writeln!(
                text,
                "{whose:<14}{cpu_percent:>14.1}{cpu_us_per_heartbeat:>20.3}{bytes_per_user:>14.0}"
            )?;
        }
        let cpu_percent = self.process.cpu_percent - self.tool_cpu_percent;
        let cpu_us_per_heartbeat = 1e4 * cpu_percent / self.heartbeats.per_sec;
        writeln!(text, "less the tool {cpu_percent:>14.1}{cpu_us_per_heartbeat:>20.3}\n")?;
        writeln!(
            text,
            "commands      {:.5} sent for a heartbeat, {:.4} run with those of scripts",
            self.commands_sent_per_heartbeat, self.commands_run_per_heartbeat
        )
    }

    fn write_presence(&self, text: &mut String) -> fmt::Result {
        let presence = &self.presence;
        writeln!(
            text,
            "presence      {} comings and goings, {} heard by all gateways together, {} states told",
            presence.moves, presence.transitions_heard, presence.told
        )?;
        writeln!(
            text,
            "wrong         {} false offlines told, {} users read offline in the end, \
             {} sessions ended by silence",
            presence.false_offlines, presence.read_offline, presence.silent_deaths
        )?;
        writeln!(
            text,
            "the store     {} failed calls, {} users it had lost",
            presence.store_errors, presence.rejoins
        )
    }
}
