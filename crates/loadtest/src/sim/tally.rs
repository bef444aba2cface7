//! What happened so far in a simulation, written by its loop, read by progress and report.

use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

use crate::measures::{Timing, micros};
use crate::report::Distribution;
use crate::tally::{Count, Kinds};

/// Later than this counts as this: a loop that is two minutes late drives nothing any more.
const LATENESS_MAX_US: u64 = 120_000_000;

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Keys that were set at first, without an engine.
    pub(crate) keys_set: Count,
    /// Heartbeats that came due and were given.
    pub(crate) beats: Count,
    /// Watches that were answered or refused.
    pub(crate) watching: Count,
    /// Comings and goings after everybody had joined.
    pub(crate) moves: Count,
    /// States told to sessions.
    pub(crate) told: Count,
    /// Those of them that said offline of somebody who was online.
    pub(crate) false_offlines: Count,
    /// Why sessions were closed, and what was refused: promised to be none.
    pub(crate) troubles: Kinds,
    /// How much later than planned the loop turned.
    pub(crate) lateness: Lateness,
}

/// How late a loop was, in µs, to three digits.
#[derive(Debug)]
pub(crate) struct Lateness(Mutex<Histogram<u64>>);

impl Default for Lateness {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENESS_MAX_US, 3);
        Self(Mutex::new(histogram.expect("these bounds are valid")))
    }
}

impl Lateness {
    pub(crate) fn record(&self, late: Duration) {
        self.0.lock().saturating_record(micros(late));
    }

    /// Forgets what was recorded so far.
    pub(crate) fn clear(&self) {
        self.0.lock().reset();
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.0.lock().value_at_quantile(0.99) as f64 / 1_000.0
    }

    pub(crate) fn distribution(&self) -> Distribution {
        Distribution::of(Timing::TesterLate, &self.0.lock())
    }
}
