//! Heartbeats without a timer per connection: one task knows when each is due and wakes it.
//!
//! The task keeps a heap of (due time, connection), 16 bytes each, and looks at it every [`TICK`].
//! A connection that is not signed in is passed over until its next turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use futures::task::AtomicWaker;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::schedule::Schedule;

/// How late a heartbeat may be: nothing, beside an interval of seconds.
const TICK: Duration = Duration::from_millis(10);

/// Intervals vary by this share either way, so that connections drift apart.
const JITTER: f64 = 0.1;

/// Nothing is due. Due times are in µs and start at 1.
const NOT_DUE: u64 = 0;

/// Where each connection finds out that its heartbeat is due.
pub(crate) struct Beats {
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    due_us: AtomicU64,
    waker: AtomicWaker,
}

impl Beats {
    pub(crate) fn new(connections: u32) -> Self {
        Self { slots: (0..connections).map(|_| Slot::default()).collect() }
    }

    /// Forgets a heartbeat that was due before the connection was signed in.
    pub(crate) fn begin(&self, index: u32) {
        self.slots[index as usize].due_us.store(NOT_DUE, Ordering::Relaxed);
    }

    /// When the heartbeat was due, once it is, in µs since the start of the run.
    pub(crate) fn poll_due(&self, index: u32, cx: &mut Context<'_>) -> Poll<u64> {
        let slot = &self.slots[index as usize];
        slot.waker.register(cx.waker());
        match slot.due_us.swap(NOT_DUE, Ordering::AcqRel) {
            NOT_DUE => Poll::Pending,
            due_us => Poll::Ready(due_us),
        }
    }

    fn set_due(&self, index: u32, due_us: u64) {
        let slot = &self.slots[index as usize];
        slot.due_us.store(due_us, Ordering::Release);
        slot.waker.wake();
    }
}

/// Wakes connections for as long as the run lasts.
pub(crate) async fn run(beats: &Beats, schedule: Schedule, heartbeat: Duration, epoch: Instant) {
    let mut plan = BeatPlan::new(schedule, heartbeat);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let now_us = epoch.elapsed().as_micros() as u64;
        while let Some((index, due_us)) = plan.pop_due(now_us) {
            beats.set_due(index, due_us);
        }
    }
}

/// Who is due when.
struct BeatPlan {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    heartbeat_us: f64,
    rng: Rng,
}

impl BeatPlan {
    /// The first heartbeats come at random within an interval from each connection's start.
    fn new(schedule: Schedule, heartbeat: Duration) -> Self {
        let heartbeat_us = heartbeat.as_micros() as f64;
        let mut rng = Rng::with_seed(schedule.seed);
        let first = |index| {
            let start_us = schedule.start(index).as_micros() as u64;
            Reverse((1 + start_us + (heartbeat_us * rng.f64()) as u64, index))
        };
        let heap = (0..schedule.connections).map(first).collect();
        Self { heap, heartbeat_us, rng }
    }

    /// The next that is due, which is then due again an interval later.
    fn pop_due(&mut self, now_us: u64) -> Option<(u32, u64)> {
        let mut top = self.heap.peek_mut().filter(|top| top.0.0 <= now_us)?;
        let (due_us, index) = top.0;
        let share = 1.0 + JITTER * (2.0 * self.rng.f64() - 1.0);
        *top = Reverse((due_us + (self.heartbeat_us * share) as u64, index));
        Some((index, due_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_secs(10);

    #[test]
    fn everybody_beats_once_an_interval_on_average_and_not_in_step() {
        let mut plan = BeatPlan::new(Schedule::new(1_000, 1e9, 0, 1), HEARTBEAT);
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
        let schedule = Schedule::new(100, 10.0, 0, 1);
        let mut plan = BeatPlan::new(schedule, HEARTBEAT);
        while let Some((index, due_us)) = plan.pop_due(5_000_000) {
            assert!(u128::from(due_us) > schedule.start(index).as_micros());
        }
    }
}
