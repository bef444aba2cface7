//! What is counted of asking the app's backend.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The bounds of the histogram, in seconds.
const TIME_BOUNDS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Counters and gauges.
#[derive(Debug, Clone)]
pub(crate) struct ConsentMetrics {
    pub(super) cached: Gauge,
    pub(super) waiting: Gauge,
    pairs: Family<PairLabel, Counter>,
    calls: Family<CallLabel, Counter>,
    time: Histogram,
}

/// Who answered whether a user may watch another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Cache,
    Backend,
    /// The backend did not answer in time.
    Nobody,
    /// Too many waited for the backend already.
    Unasked,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    Unreachable,
    TooSlow,
    TooLarge,
    /// Another status than 200.
    Refused,
    /// Not the JSON that was asked for.
    Nonsense,
}

impl Source {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Backend => "backend",
            Self::Nobody => "nobody",
            Self::Unasked => "unasked",
        }
    }
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unreachable => "unreachable",
            Self::TooSlow => "too_slow",
            Self::TooLarge => "too_large",
            Self::Refused => "refused",
            Self::Nonsense => "nonsense",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PairLabel {
    by: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabel {
    result: &'static str,
}

impl Default for ConsentMetrics {
    fn default() -> Self {
        Self {
            cached: Gauge::default(),
            waiting: Gauge::default(),
            pairs: Family::default(),
            calls: Family::default(),
            time: Histogram::new(TIME_BOUNDS),
        }
    }
}

impl ConsentMetrics {
    /// Makes them, and names them in the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        registry.register(
            "watch_callback_cached",
            "Answers of the app's backend that are kept",
            m.cached.clone(),
        );
        registry.register(
            "watch_callback_waiting",
            "Pairs of users that wait for an answer of the app's backend",
            m.waiting.clone(),
        );
        registry.register(
            "watch_callback_pairs",
            "Whether a user may watch another, by who answered",
            m.pairs.clone(),
        );
        registry.register(
            "watch_callback_calls",
            "Calls of the app's backend, by how they ended",
            m.calls.clone(),
        );
        registry.register_with_unit(
            "watch_callback_time",
            "How long calls of the app's backend took",
            Unit::Seconds,
            m.time.clone(),
        );
        m
    }

    pub(super) fn count(&self, by: Source, pairs: usize) {
        self.pairs.get_or_create(&PairLabel { by: by.as_str() }).inc_by(pairs as u64);
    }

    pub(super) fn called(&self, result: Outcome, time: Duration) {
        self.calls.get_or_create(&CallLabel { result: result.as_str() }).inc();
        self.time.observe(time.as_secs_f64());
    }
}
