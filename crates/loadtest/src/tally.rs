//! What happened so far: counters and latencies, written by every connection, read by the reports.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Longer latencies count as this one: two minutes is a failure of any kind of number.
const LATENCY_MAX_US: u64 = 120_000_000;

/// A number that many tasks add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Latencies in µs, to three digits.
#[derive(Debug)]
pub(crate) struct Latency(Mutex<Histogram<u64>>);

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
        Self(Mutex::new(histogram.expect("these bounds are valid")))
    }
}

impl Latency {
    pub(crate) fn record(&self, latency: Duration) {
        self.record_us(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn record_us(&self, latency_us: u64) {
        self.0.lock().saturating_record(latency_us);
    }

    /// A value at a quantile, such as 0.99, in ms.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.lock().value_at_quantile(quantile) as f64 / 1000.0
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.lock().len()
    }
}

/// How often each of a few kinds of thing happened.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<BTreeMap<String, u64>>);

impl Kinds {
    pub(crate) fn add(&self, kind: String) {
        *self.0.lock().entry(kind).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}

/// Everything that is counted in a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Connections started.
    pub(crate) started: Count,
    /// Connections that got their `welcome`.
    pub(crate) connected: Count,
    /// Connections that never did.
    pub(crate) failed: Count,
    /// Connections that ended after it.
    pub(crate) dropped: Count,
    pub(crate) pings: Count,
    pub(crate) pongs: Count,
    pub(crate) snapshot_states: Count,
    pub(crate) pushed_online: Count,
    pub(crate) pushed_offline: Count,
    /// Pushes that were older than what was known, or of nobody watched.
    pub(crate) pushed_not_newer: Count,
    /// Users shown offline although they were signed in from this process all the time.
    pub(crate) flickers: Count,
    /// Pairs of a watcher and a watched user whom it sees online now.
    pub(crate) seen_online: Count,
    /// Why connections failed or ended, and what messages were refused.
    pub(crate) errors: Kinds,
    /// Close codes received.
    pub(crate) closes: Kinds,
    /// From the start of TCP to the `welcome`.
    pub(crate) connect: Latency,
    /// From a `watch` to its `snapshot`.
    pub(crate) snapshot: Latency,
    /// From a Ping to its Pong.
    pub(crate) ping: Latency,
    /// From a user's `hello` to a watcher's `presence` that says online.
    pub(crate) push: Latency,
    /// How late this process was itself: from when a connection or a Ping was due to its start.
    pub(crate) lateness: Latency,
}

impl Tally {
    /// Connections that are on their way.
    pub(crate) fn connecting(&self) -> u64 {
        self.started.get().saturating_sub(self.connected.get() + self.failed.get())
    }

    /// Connections that are signed in now.
    pub(crate) fn open(&self) -> u64 {
        self.connected.get().saturating_sub(self.dropped.get())
    }
}
