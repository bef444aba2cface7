//! What a run counts and times: plain data that a worker fills, and that is merged by addition.
//!
//! Nothing here decides what an event means, which is `ledger`'s and `judge`'s business.

mod names;

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub(crate) use crate::measures::names::{Count, Timing};

/// Three digits of each value, which is in µs.
const DIGITS: u8 = 3;

/// An hour is a failure of any kind of number.
const VALUE_MAX_US: u64 = 3_600_000_000;

/// Counts, distributions, and how often each of a few kinds of thing happened.
#[derive(Debug)]
pub(crate) struct Measures {
    counts: [u64; Count::ALL.len()],
    timings: [Histogram<u64>; Timing::ALL.len()],
    /// Why connections failed or ended, and what messages were refused.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Close codes received.
    pub(crate) closes: BTreeMap<String, u64>,
}

/// Measures on the wire: what did not happen is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Growth {
    counts: Vec<(u8, u64)>,
    /// Pairs of a value and how often it was seen.
    timings: Vec<(u8, Vec<(u64, u64)>)>,
    errors: BTreeMap<String, u64>,
    closes: BTreeMap<String, u64>,
}

impl Default for Measures {
    fn default() -> Self {
        let histogram = |_| Histogram::new(DIGITS).expect("this many digits are allowed");
        Self {
            counts: [0; Count::ALL.len()],
            timings: std::array::from_fn(histogram),
            errors: BTreeMap::new(),
            closes: BTreeMap::new(),
        }
    }
}

impl Measures {
    pub(crate) fn count(&mut self, count: Count) {
        self.add(count, 1);
    }

    pub(crate) fn add(&mut self, count: Count, more: u64) {
        self.counts[count as usize] += more;
    }

    pub(crate) fn get(&self, count: Count) -> u64 {
        self.counts[count as usize]
    }

    pub(crate) fn time(&mut self, timing: Timing, us: u64) {
        record(&mut self.timings[timing as usize], us, 1);
    }

    pub(crate) fn timing(&self, timing: Timing) -> &Histogram<u64> {
        &self.timings[timing as usize]
    }

    pub(crate) fn error(&mut self, kind: String) {
        *self.errors.entry(kind).or_default() += 1;
    }

    pub(crate) fn close(&mut self, kind: String) {
        *self.closes.entry(kind).or_default() += 1;
    }

    /// Connections signed in now, if these are the measures of the whole run.
    pub(crate) fn open(&self) -> u64 {
        self.get(Count::Connected).saturating_sub(self.ended())
    }

    /// Connections that were signed in and are no more, whoever ended them.
    pub(crate) fn ended(&self) -> u64 {
        let ends = [
            Count::Dropped,
            Count::SentAway,
            Count::ClosedOnPurpose,
            Count::SignedOut,
            Count::FellSilent,
            Count::FrozenOut,
        ];
        ends.into_iter().map(|count| self.get(count)).sum()
    }

    /// Connections on their way now.
    pub(crate) fn connecting(&self) -> u64 {
        let ends = [Count::Connected, Count::Failed, Count::Retried];
        let ended: u64 = ends.into_iter().map(|count| self.get(count)).sum();
        self.get(Count::Started).saturating_sub(ended)
    }

    /// Takes out everything, and begins at nothing.
    pub(crate) fn take(&mut self) -> Growth {
        let counts = std::mem::replace(&mut self.counts, [0; Count::ALL.len()]);
        let counts = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        let mut timings = Vec::new();
        for (place, histogram) in (0..).zip(&mut self.timings) {
            if !histogram.is_empty() {
                let seen = histogram.iter_recorded();
                let pairs = seen.map(|at| (at.value_iterated_to(), at.count_at_value())).collect();
                timings.push((place, pairs));
                histogram.reset();
            }
        }
        Growth {
            counts,
            timings,
            errors: std::mem::take(&mut self.errors),
            closes: std::mem::take(&mut self.closes),
        }
    }

    /// Adds what somebody took out. What this version does not know is left out.
    pub(crate) fn merge(&mut self, growth: &Growth) {
        for &(place, count) in &growth.counts {
            if let Some(sum) = self.counts.get_mut(usize::from(place)) {
                *sum += count;
            }
        }
        for (place, pairs) in &growth.timings {
            if let Some(histogram) = self.timings.get_mut(usize::from(*place)) {
                for &(value, count) in pairs {
                    record(histogram, value, count);
                }
            }
        }
        for (kind, count) in &growth.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        for (kind, count) in &growth.closes {
            *self.closes.entry(kind.clone()).or_default() += count;
        }
    }
}

fn record(histogram: &mut Histogram<u64>, us: u64, count: u64) {
    let recorded = histogram.record_n(us.min(VALUE_MAX_US), count);
    recorded.expect("a histogram made without bounds grows");
}

/// As µs, which is what everything here is in.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_and_merged_adds_up() {
        let mut worker = Measures::default();
        let mut whole = Measures::default();
        for round in 1..=3u64 {
            worker.add(Count::Pings, round);
            worker.time(Timing::Ping, round * 1_000);
            worker.time(Timing::Ping, 90_000_000);
            worker.error("no welcome in time".to_owned());
            let growth = worker.take();
            let bytes = rmp_serde::to_vec(&growth).unwrap();
            assert_eq!(rmp_serde::from_slice::<Growth>(&bytes).unwrap(), growth);
            whole.merge(&growth);
        }
        assert_eq!(worker.take(), Growth::default());
        assert_eq!(whole.get(Count::Pings), 6);
        assert_eq!(whole.timing(Timing::Ping).len(), 6);
        assert!(whole.timing(Timing::Ping).max() >= 90_000_000);
        assert_eq!(whole.errors["no welcome in time"], 3);
    }

    #[test]
    fn open_are_those_who_came_and_did_not_leave() {
        let mut measures = Measures::default();
        measures.add(Count::Started, 10);
        measures.add(Count::Connected, 7);
        measures.count(Count::Failed);
        measures.count(Count::SignedOut);
        measures.count(Count::Dropped);
        assert_eq!((measures.open(), measures.connecting()), (5, 2));
    }
}
