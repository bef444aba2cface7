//! When each connection gives its next sign of life: one heap for all, and no timer for any. Pure.
//!
//! A connection that is not signed in is passed over until its next turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;

/// Due times are so far apart, so that several share a wake-up here and in the gateway: nothing,
/// beside seconds.
const TICK_US: u64 = 20_000;

/// Intervals vary by this share either way, so that connections drift apart.
const JITTER: f64 = 0.1;

/// What a connection takes here.
#[cfg(test)]
pub(super) const BYTES_EACH: usize = size_of::<Reverse<(u64, u32)>>();

/// Who is due when.
pub(super) struct Beats {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    interval_us: f64,
    phase_us: u64,
    rng: Rng,
}

impl Beats {
    /// Nobody ever beats.
    pub(super) fn none() -> Self {
        Self { heap: BinaryHeap::new(), interval_us: 0.0, phase_us: 0, rng: Rng::with_seed(0) }
    }

    /// The first ones come at random within an interval from each connection's start.
    pub(super) fn new(
        starts_us: impl Iterator<Item = u64>,
        interval_us: u64,
        mut rng: Rng,
    ) -> Self {
        // Workers do not tick in step.
        let phase_us = rng.u64(..TICK_US);
        let first = |(index, start_us)| {
            let due_us = start_us + rng.u64(..interval_us);
            Reverse((to_tick(due_us, phase_us), index))
        };
        let heap = (0..).zip(starts_us).map(first).collect();
        Self { heap, interval_us: interval_us as f64, phase_us, rng }
    }

    pub(super) fn next_due_us(&self) -> Option<u64> {
        self.heap.peek().map(|next| next.0.0)
    }

    /// The next that is due, which is then due again an interval later.
    pub(super) fn pop_due(&mut self, now_us: u64) -> Option<(u32, u64)> {
        let mut top = self.heap.peek_mut().filter(|top| top.0.0 <= now_us)?;
        let (due_us, index) = top.0;
        let share = 1.0 + JITTER * (2.0 * self.rng.f64() - 1.0);
        *top = Reverse((to_tick(due_us + (self.interval_us * share) as u64, self.phase_us), index));
        Some((index, due_us))
    }
}

/// The next tick that is not before.
fn to_tick(us: u64, phase_us: u64) -> u64 {
    us.saturating_sub(phase_us).next_multiple_of(TICK_US) + phase_us
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_US: u64 = 10_000_000;

    #[test]
    fn everybody_beats_once_an_interval_on_average_and_not_in_step() {
        let starts = std::iter::repeat_n(0, 1_000);
        let mut plan = Beats::new(starts, INTERVAL_US, Rng::with_seed(1));
        let mut beats = vec![0u32; 1_000];
        let mut busiest_second = 0;
        for second in 1..=100 {
            let mut in_this_second = 0;
            while let Some((index, _)) = plan.pop_due(second * 1_000_000) {
                beats[index as usize] += 1;
                in_this_second += 1;
            }
            busiest_second = busiest_second.max(in_this_second);
        }
        let total: u32 = beats.iter().sum();
        assert!((9_800..=10_200).contains(&total), "{total}");
        assert!(beats.iter().all(|beats| (8..=12).contains(beats)), "{beats:?}");
        assert!(busiest_second < 160, "{busiest_second} of 100 on average");
    }

    #[test]
    fn nobody_beats_before_its_connection_starts() {
        let start = |index: u32| u64::from(index) * 100_000;
        let mut plan = Beats::new((0..100).map(start), INTERVAL_US, Rng::with_seed(1));
        while let Some((index, due_us)) = plan.pop_due(5_000_000) {
            assert!(due_us >= start(index));
        }
    }
}
