//! What is told of a simulation: numbers for programs, and whether anything was wrong. `table` is the
//! same for people.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use crate::coordinator::INTERRUPTED;
use crate::report::{Distribution, Ending};
use crate::reported::Reported;
use crate::sim::args::Path;
use crate::sim::meter::Reading;
use crate::sim::plan::Plan;
use crate::sim::stages::Findings;
use crate::sim::tally::Tally;

/// A finished simulation, in the order in which it is read.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) ending: Ending,
    pub(crate) path: Path,
    pub(crate) sessions: u32,
    pub(crate) gateways: u32,
    pub(crate) heartbeat_ms: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) watch: u32,
    pub(crate) churn_per_sec: f64,
    /// From the first who joined until the store knew the last.
    pub(crate) join_secs: f64,
    pub(crate) watch_secs: f64,
    /// What follows was measured for so long.
    pub(crate) seconds: f64,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) redis: Cost,
    /// The engines and what drives them.
    pub(crate) process: Cost,
    /// What the process took of one core when it played nobody: not the engines'.
    pub(crate) tool_cpu_percent: f64,
    pub(crate) commands_sent_per_heartbeat: f64,
    /// Those that scripts ran included.
    pub(crate) commands_run_per_heartbeat: f64,
    pub(crate) presence: Presence,
    pub(crate) lateness: Distribution,
    pub(crate) troubles: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Heartbeats {
    pub(crate) planned: u64,
    /// More than planned, as a session that was asked by a Ping answers as well.
    pub(crate) given: u64,
    pub(crate) per_sec: f64,
}

/// What a process took.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    /// Of one core.
    pub(crate) cpu_percent: f64,
    pub(crate) cpu_us_per_heartbeat: f64,
    /// How much it grew until all had joined and watched.
    pub(crate) bytes_per_user: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Presence {
    /// Users who left or came back.
    pub(crate) moves: u64,
    /// Changes that gateways heard, all together: each hears each.
    pub(crate) transitions_heard: u64,
    pub(crate) told: u64,
    /// Times that a session was told offline of somebody who was online. Promised to be none.
    pub(crate) false_offlines: u64,
    /// Users read as offline in the end. Promised to be none.
    pub(crate) read_offline: u64,
    /// Sessions that an engine ended since they were not heard.
    pub(crate) silent_deaths: u64,
    /// Users that the store had lost.
    pub(crate) rejoins: u64,
    pub(crate) store_errors: u64,
}

impl Report {
    pub(crate) fn of(plan: &Plan, tally: &Tally, tool_cpu: f64, found: &Findings) -> Self {
        let Findings { empty, begin, end, heartbeats, counters, .. } = *found;
        let seconds = end.at.duration_since(begin.at).as_secs_f64();
        let per_beat = |amount: f64| amount / heartbeats.max(1) as f64;
        let cost = |cpu_secs: fn(&Reading) -> f64, bytes: fn(&Reading) -> u64| {
            let used = cpu_secs(&end) - cpu_secs(&begin);
            Cost {
                cpu_percent: 100.0 * used / seconds,
                cpu_us_per_heartbeat: per_beat(1e6 * used),
                bytes_per_user: (bytes(&begin) as f64 - bytes(&empty) as f64)
                    / f64::from(plan.sessions),
            }
        };
        Self {
            ending: found.ending,
            path: plan.path,
            sessions: plan.sessions,
            gateways: plan.gateways,
            heartbeat_ms: plan.config.heartbeat.as_millis() as u64,
            ttl_ms: plan.config.ttl.as_millis() as u64,
            watch: plan.watch,
            churn_per_sec: plan.churn,
            join_secs: found.join_time.as_secs_f64(),
            watch_secs: found.watch_time.as_secs_f64(),
            seconds,
            heartbeats: Heartbeats {
                planned: (plan.beats_per_sec() * seconds).round() as u64,
                given: heartbeats,
                per_sec: heartbeats as f64 / seconds,
            },
            redis: cost(|at| at.redis.cpu_secs, |at| at.redis.memory),
            process: cost(|at| at.own.cpu_secs, |at| at.own.rss),
            tool_cpu_percent: 100.0 * tool_cpu,
            commands_sent_per_heartbeat: per_beat((end.redis.sent - begin.redis.sent) as f64),
            commands_run_per_heartbeat: per_beat((end.redis.run - begin.redis.run) as f64),
            presence: Presence {
                moves: tally.moves.get(),
                transitions_heard: counters.transitions,
                told: tally.told.get(),
                false_offlines: tally.false_offlines.get(),
                read_offline: found.read_offline,
                silent_deaths: counters.silent_deaths,
                rejoins: counters.rejoins,
                store_errors: counters.store_errors,
            },
            lateness: tally.lateness.distribution(),
            troubles: tally.troubles.snapshot(),
        }
    }
}

impl Reported for Report {
    fn write(&self, text: &mut String) -> fmt::Result {
        self.write_lines(text)
    }

    /// Whether nobody who was online was shown or read offline, and no session was ended or refused.
    fn is_clean(&self) -> bool {
        let Presence { false_offlines, read_offline, silent_deaths, .. } = self.presence;
        false_offlines + read_offline + silent_deaths == 0 && self.troubles.is_empty()
    }

    fn exit_code(&self) -> ExitCode {
        match (self.is_clean(), self.ending) {
            // Nobody shall take it for one that was done.
            (true, Ending::Interrupted) => INTERRUPTED.into(),
            (true, _) => ExitCode::SUCCESS,
            (false, _) => ExitCode::FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sim::tally::Lateness;

    use super::*;

    fn report() -> Report {
        let cost = |cpu_percent| Cost {
            cpu_percent,
            cpu_us_per_heartbeat: cpu_percent / 10.0,
            bytes_per_user: 321.4,
        };
        Report {
            ending: Ending::Complete,
            path: Path::Engine,
            sessions: 1_000_000,
            gateways: 2,
            heartbeat_ms: 10_000,
            ttl_ms: 30_000,
            watch: 0,
            churn_per_sec: 10.0,
            join_secs: 20.0,
            watch_secs: 0.0,
            seconds: 60.0,
            heartbeats: Heartbeats { planned: 6_000_000, given: 5_999_990, per_sec: 99_999.8 },
            redis: cost(21.5),
            process: cost(34.25),
            tool_cpu_percent: 4.25,
            commands_sent_per_heartbeat: 0.0014,
            commands_run_per_heartbeat: 0.46,
            presence: Presence {
                moves: 1_200,
                transitions_heard: 2_400,
                told: 0,
                false_offlines: 0,
                read_offline: 0,
                silent_deaths: 0,
                rejoins: 0,
                store_errors: 0,
            },
            lateness: Lateness::default().distribution(),
            troubles: BTreeMap::new(),
        }
    }

    #[test]
    fn a_simulation_is_clean_when_nobody_was_taken_for_offline_and_nothing_was_refused() {
        assert!(report().is_clean());
        let breaks: [fn(&mut Report); 4] = [
            |report| report.presence.false_offlines = 1,
            |report| report.presence.read_offline = 1,
            |report| report.presence.silent_deaths = 1,
            |report| report.troubles = BTreeMap::from([("closed: no_heartbeat".to_owned(), 1)]),
        ];
        for (number, breaks) in breaks.into_iter().enumerate() {
            let mut report = report();
            breaks(&mut report);
            assert!(!report.is_clean(), "{number}");
            assert!(report.table().contains("SOMEBODY"), "{number}");
        }
    }

    #[test]
    fn the_table_holds_the_numbers() {
        let table = report().table();
        for part in [
            "sessions 1000000, gateways 2, a heartbeat every 10s, TTL 30s, through the engine",
            "in 20.0 s, 50000 a second",
            "100000 a second for 60.0 s: 5999990 of 6000000 planned",
            "21.5               2.150           321",
            "34.2               3.425           321",
            "less the tool           30.0               3.000",
            "0.00140 sent for a heartbeat, 0.4600 run",
            "1200 comings and goings, 2400 heard by all gateways together",
            "Nobody who was online was shown offline.",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
    }
}
