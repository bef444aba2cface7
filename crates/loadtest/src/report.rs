//! What is told of a run: numbers for programs, and whether anything went wrong. `table` is the
//! same for people.

mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::process::Usage;
use crate::run::Run;
use crate::tally::{Latency, Tally};

/// The name of the latency that is this process's own.
const LATENESS: &str = "own lateness";

/// A finished run, in the order in which it is read.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) ending: Ending,
    pub(crate) url: String,
    pub(crate) seconds: f64,
    pub(crate) connections: Connections,
    pub(crate) presence: Presence,
    pub(crate) pings: u64,
    pub(crate) pongs: u64,
    pub(crate) latencies: Vec<Quantiles>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) closes: BTreeMap<String, u64>,
    pub(crate) own: Footprint,
    pub(crate) server: Option<Footprint>,
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Complete,
    Interrupted,
    /// Every connection had failed or ended.
    NobodyLeft,
}

#[derive(Debug, Serialize)]
pub(crate) struct Connections {
    pub(crate) planned: u64,
    pub(crate) started: u64,
    pub(crate) connected: u64,
    /// Still on their way when the run stopped.
    pub(crate) connecting: u64,
    pub(crate) failed: u64,
    pub(crate) dropped: u64,
    pub(crate) open: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Presence {
    pub(crate) snapshot_states: u64,
    pub(crate) pushed_online: u64,
    pub(crate) pushed_offline: u64,
    /// Pushes that a client drops, as it has a newer state.
    pub(crate) pushed_not_newer: u64,
    /// Users shown offline who were connected from here all the time. Promised to be none.
    pub(crate) flickers: u64,
    /// Pairs of a watcher and a watched user.
    pub(crate) watches: u64,
    /// Those of them in which the watcher sees the user online.
    pub(crate) seen_online: u64,
}

/// A latency's distribution, in ms.
#[derive(Debug, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
}

/// What a process took for the run.
#[derive(Debug, Serialize)]
pub(crate) struct Footprint {
    pub(crate) rss_before: u64,
    pub(crate) rss_after: u64,
    /// The growth shared by the open connections; none when there are none.
    pub(crate) bytes_per_connection: Option<i64>,
    pub(crate) cpu_secs: f64,
}

impl Footprint {
    pub(crate) fn between(before: Usage, after: Usage, tally: &Tally) -> Self {
        let grown = after.rss.cast_signed() - before.rss.cast_signed();
        Self {
            rss_before: before.rss,
            rss_after: after.rss,
            bytes_per_connection: grown.checked_div(tally.open().cast_signed()),
            cpu_secs: after.cpu_secs - before.cpu_secs,
        }
    }
}

impl Quantiles {
    fn of(name: &'static str, latency: &Latency) -> Self {
        Self {
            name,
            count: latency.count(),
            p50_ms: latency.quantile_ms(0.5),
            p90_ms: latency.quantile_ms(0.9),
            p99_ms: latency.quantile_ms(0.99),
            p999_ms: latency.quantile_ms(0.999),
            max_ms: latency.quantile_ms(1.0),
        }
    }
}

impl Report {
    pub(crate) fn of(run: &Run, ending: Ending, own: Footprint, server: Option<Footprint>) -> Self {
        let tally = &run.tally;
        Self {
            ending,
            url: run.plan.url.to_string(),
            seconds: run.epoch.elapsed().as_secs_f64(),
            connections: Connections::of(run),
            presence: Presence::of(run),
            pings: tally.pings.get(),
            pongs: tally.pongs.get(),
            latencies: vec![
                Quantiles::of("connect", &tally.connect),
                Quantiles::of("snapshot", &tally.snapshot),
                Quantiles::of("ping", &tally.ping),
                Quantiles::of("online push", &tally.push),
                Quantiles::of(LATENESS, &tally.lateness),
            ],
            errors: tally.errors.snapshot(),
            closes: tally.closes.snapshot(),
            own,
            server,
        }
    }

    /// Whether every connection that was started came up and stayed. Those still on their way when
    /// somebody stopped the run are no failures.
    pub(crate) fn is_clean(&self) -> bool {
        let Connections { failed, dropped, connecting, .. } = self.connections;
        let unfinished = if self.ending == Ending::Interrupted { 0 } else { connecting };
        failed + dropped + unfinished == 0
    }
}

impl Connections {
    fn of(run: &Run) -> Self {
        let tally = &run.tally;
        Self {
            planned: run.plan.schedule.connections.into(),
            started: tally.started.get(),
            connected: tally.connected.get(),
            connecting: tally.connecting(),
            failed: tally.failed.get(),
            dropped: tally.dropped.get(),
            open: tally.open(),
        }
    }
}

impl Presence {
    fn of(run: &Run) -> Self {
        let tally = &run.tally;
        Self {
            snapshot_states: tally.snapshot_states.get(),
            pushed_online: tally.pushed_online.get(),
            pushed_offline: tally.pushed_offline.get(),
            pushed_not_newer: tally.pushed_not_newer.get(),
            flickers: tally.flickers.get(),
            watches: tally.open() * u64::from(run.plan.schedule.watch),
            seen_online: tally.seen_online.get(),
        }
    }
}
