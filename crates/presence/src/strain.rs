//! Strain: how far this process is behind its own clock, how long the store takes to answer, and how much longer pauses are
//! for it.
//!
//! What is done at one time costs less than the same done piece by piece, for this process and for all that hear of it.
//! So whoever is short of CPU time gathers for longer, and puts off what is not urgent: an overload makes less work, not
//! more, and ends by itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::here::wheel::STEP;

/// Pauses are twice as long when timers fire, or answers come, so much too late, three times at twice that, and so on.
const UNIT: Duration = Duration::from_millis(2);

/// No pause is longer than so many times itself.
const STRETCH_MAX: f64 = 16.0;

/// Timers count whole milliseconds: at ease they are late by up to one.
const TIMER_TIME: Duration = Duration::from_millis(1);

/// Pushes are gathered for so long for each unit of strain, and not at all when that is less than a step of the wheel.
const GATHER: Duration = Duration::from_millis(15);

/// The store usually answers within this time.
const ANSWER_TIME: Duration = Duration::from_millis(5);

/// What is later than this, as after a stop of the process, counts as so late.
const SAMPLE_MAX: Duration = Duration::from_millis(200);

/// How late timers fire, on average, and the store answers, at least. One that is late alone says nothing: the process was
/// stopped, or the store has just come back.
#[derive(Debug, Default)]
pub(crate) struct Strain {
    timers: Average,
    store: LeastOfTwo,
}

impl Strain {
    /// A step of the wheel came so late.
    pub(crate) fn note_timer(&self, late: Duration) {
        self.timers.note(late.saturating_sub(TIMER_TIME));
    }

    /// The store took so long to renew the lease, or to fail to.
    pub(crate) fn note_answer(&self, took: Duration) {
        self.store.note(took.saturating_sub(ANSWER_TIME));
    }

    /// How late timers fire, on average over the last second or so.
    pub(crate) fn lag(&self) -> Duration {
        self.timers.get()
    }

    /// For how long pushes are to be gathered; zero at ease.
    pub(crate) fn gather_time(&self) -> Duration {
        let time = self.stretch(GATHER).saturating_sub(GATHER);
        if time < STEP { Duration::ZERO } else { time }
    }

    /// How long a pause is to be that is this long at ease.
    pub(crate) fn stretch(&self, pause: Duration) -> Duration {
        let late = self.timers.get() + self.store.get();
        pause.mul_f64((1.0 + late.div_duration_f64(UNIT)).min(STRETCH_MAX))
    }
}

/// The lesser of the last two samples. One task writes it.
#[derive(Debug, Default)]
struct LeastOfTwo {
    latest_us: AtomicU64,
    least_us: AtomicU64,
}

impl LeastOfTwo {
    fn note(&self, late: Duration) {
        let sample = late.min(SAMPLE_MAX).as_micros() as u64;
        let least = self.latest_us.swap(sample, Relaxed).min(sample);
        self.least_us.store(least, Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.least_us.load(Relaxed))
    }
}

/// An average in which each sample counts for a sixteenth. One task writes it.
#[derive(Debug, Default)]
struct Average {
    samples: LeastOfTwo,
    us: AtomicU64,
}

impl Average {
    const WEIGHT: u64 = 16;

    fn note(&self, late: Duration) {
        self.samples.note(late);
        let sample = self.samples.get().as_micros() as u64;
        let us = self.us.load(Relaxed);
        self.us.store(us - us / Self::WEIGHT + sample / Self::WEIGHT, Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.us.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn after(samples: usize, late: Duration) -> Strain {
        let strain = Strain::default();
        (0..samples).for_each(|_| strain.note_timer(late));
        strain
    }

    #[test]
    fn pauses_grow_with_the_lag_up_to_a_bound() {
        assert_eq!(Strain::default().stretch(PAUSE), PAUSE);
        let behind = after(100, TIMER_TIME + 2 * UNIT).stretch(PAUSE);
        assert!(behind > PAUSE.mul_f64(2.9) && behind <= 3 * PAUSE, "{behind:?}");
        assert_eq!(after(100, Duration::from_mins(1)).stretch(PAUSE), PAUSE.mul_f64(STRETCH_MAX));
    }

    #[test]
    fn a_store_that_answers_late_counts_and_one_that_is_only_far_away_does_not() {
        let strain = Strain::default();
        (0..20).for_each(|_| strain.note_answer(Duration::from_millis(4)));
        assert_eq!(strain.stretch(PAUSE), PAUSE);
        (0..20).for_each(|_| strain.note_answer(Duration::from_secs(1)));
        assert_eq!(strain.stretch(PAUSE), PAUSE.mul_f64(STRETCH_MAX));
    }

    #[test]
    fn a_stop_of_the_process_and_the_return_of_a_store_are_no_strain() {
        let strain = after(1, Duration::from_mins(1));
        strain.note_timer(Duration::ZERO);
        (0..20).for_each(|_| strain.note_answer(Duration::from_secs(1)));
        strain.note_answer(Duration::from_millis(1));
        assert_eq!(strain.stretch(PAUSE), PAUSE);
    }
}
