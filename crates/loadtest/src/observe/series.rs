//! Memory and CPU over time, and what follows from them. Pure.

use crate::report::{Footprint, Second, ServerSecond};

/// A sum that only grows, as its owner tells it, and begins at nothing when its owner starts again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growing {
    last: f64,
    grown: f64,
}

impl Growing {
    pub(super) fn from(now: f64) -> Self {
        Self { last: now, grown: 0.0 }
    }

    pub(super) fn note(&mut self, now: f64) {
        self.grown += if now >= self.last { now - self.last } else { now };
        self.last = now;
    }

    pub(super) fn grown(self) -> f64 {
        self.grown
    }
}

/// Servers of one kind at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at_s: f64,
    rss: u64,
    /// CPU time since the first look.
    cpu_secs: f64,
}

/// Servers of one kind, moment by moment.
#[derive(Debug)]
pub(super) struct Series {
    rss_before: u64,
    moments: Vec<Moment>,
}

impl Series {
    pub(super) fn from(rss_before: u64) -> Self {
        Self { rss_before, moments: Vec::new() }
    }

    /// `cpu_secs` is since the first look.
    pub(super) fn note(&mut self, at_s: f64, rss: u64, cpu_secs: f64) {
        self.moments.push(Moment { at_s, rss, cpu_secs });
    }

    /// The whole run. The growth is shared where the most connections were open, and of such moments at
    /// the one with the most memory.
    pub(super) fn footprint(&self, timeline: &[Second]) -> Footprint {
        let (rss_after, cpu_secs) =
            self.moments.last().map_or((self.rss_before, 0.0), |last| (last.rss, last.cpu_secs));
        let with_open = self.moments.iter().map(|moment| (open_at(timeline, moment), moment.rss));
        let (open, rss_then) = with_open.max().unwrap_or((0, self.rss_before));
        let rss_peak = self.moments.iter().map(|moment| moment.rss).max().unwrap_or(rss_then);
        let grown = rss_then.cast_signed() - self.rss_before.cast_signed();
        Footprint {
            rss_before: self.rss_before,
            rss_peak,
            rss_after,
            bytes_per_connection: grown.checked_div(open.cast_signed()),
            cpu_secs,
        }
    }

    pub(super) fn seconds(&self) -> Vec<ServerSecond> {
        let start = Moment { at_s: 0.0, rss: self.rss_before, cpu_secs: 0.0 };
        let before = [start].into_iter().chain(self.moments.iter().copied());
        let pairs = before.zip(&self.moments);
        let pairs = pairs.filter(|(before, moment)| moment.at_s > before.at_s);
        let seconds = pairs.map(|(before, moment)| ServerSecond {
            at_s: moment.at_s.round() as u32,
            rss: moment.rss,
            cores: ((moment.cpu_secs - before.cpu_secs) / (moment.at_s - before.at_s)).max(0.0),
        });
        let mut seconds: Vec<_> = seconds.collect();
        // The last look comes whenever the run ends, often within the second of the one before.
        seconds.dedup_by_key(|second| second.at_s);
        seconds
    }
}

/// How many connections were open then; none before the first second and after the last.
fn open_at(timeline: &[Second], moment: &Moment) -> u64 {
    let at_s = moment.at_s.round() as u32;
    let found = timeline.binary_search_by_key(&at_s, |second| second.at_s);
    found.map_or(0, |place| timeline[place].open)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn second(at_s: u32, open: u64) -> Second {
        Second { at_s, open, grew: BTreeMap::new(), timings: BTreeMap::new() }
    }

    #[test]
    fn the_peak_is_the_most_memory_and_the_most_connections_share_the_growth_until_then() {
        let mut series = Series::from(1_000);
        series.note(1.02, 3_000, 0.5);
        series.note(2.01, 9_000, 1.0);
        series.note(2.98, 8_000, 2.0);
        series.note(3.99, 20_000, 2.5);
        let timeline = [second(1, 10), second(2, 50), second(3, 50), second(4, 20)];
        let found = series.footprint(&timeline);
        assert_eq!((found.rss_peak, found.rss_after), (20_000, 20_000));
        assert_eq!(found.bytes_per_connection, Some(160));
        assert!((found.cpu_secs - 2.5).abs() < 1e-9);
    }

    #[test]
    fn nobody_shares_anything_when_nobody_was_there() {
        let found = Series::from(1_000).footprint(&[]);
        assert_eq!((found.rss_after, found.bytes_per_connection), (1_000, None));
    }

    #[test]
    fn cores_are_cpu_time_by_time_and_a_second_comes_once() {
        let mut series = Series::from(0);
        series.note(1.0, 1, 0.5);
        series.note(2.0, 2, 2.5);
        series.note(2.25, 3, 2.5);
        let seconds = series.seconds();
        let cores: Vec<_> = seconds.iter().map(|second| (second.at_s, second.cores)).collect();
        assert_eq!(cores, [(1, 0.5), (2, 2.0)]);
    }

    #[test]
    fn a_sum_whose_owner_started_again_goes_on() {
        let mut growing = Growing::from(100.0);
        for now in [150.0, 20.0, 30.0] {
            growing.note(now);
        }
        assert!((growing.grown() - 80.0).abs() < 1e-9);
    }
}
