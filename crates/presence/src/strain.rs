//! Strain: how far this process is behind its own clock, and how much longer its pauses are for it.
//!
//! What is done at one time costs less than the same done piece by piece, for this process and for all that hear of it.
//! So whoever is short of CPU time gathers for longer, and puts off what is not urgent: an overload makes less work, not
//! more, and ends by itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Pauses are twice as long when timers fire so much too late, three times at twice that, and so on.
const LAG_UNIT: Duration = Duration::from_millis(5);

/// No pause is longer than so many times itself.
const STRETCH_MAX: f64 = 8.0;

/// A timer that is later than this, as after a stop of the process, counts as so late.
const SAMPLE_MAX: Duration = Duration::from_millis(200);

/// Each sample counts for so much of the average: of the wheel's steps, that is one over a second.
const WEIGHT: u64 = 16;

/// How late timers fire, on average.
#[derive(Debug, Default)]
pub(crate) struct Strain {
    lag_us: AtomicU64,
}

impl Strain {
    /// A timer fired so late. To be called by one task only.
    pub(crate) fn note(&self, late: Duration) {
        let sample = late.min(SAMPLE_MAX).as_micros() as u64;
        let lag = self.lag_us.load(Relaxed);
        self.lag_us.store(lag - lag / WEIGHT + sample / WEIGHT, Relaxed);
    }

    /// How late timers fire, on average over the last second or so.
    pub(crate) fn lag(&self) -> Duration {
        Duration::from_micros(self.lag_us.load(Relaxed))
    }

    /// How long a pause is to be that is this long at ease.
    pub(crate) fn stretch(&self, pause: Duration) -> Duration {
        let factor = 1.0 + self.lag().div_duration_f64(LAG_UNIT);
        pause.mul_f64(factor.min(STRETCH_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn after(samples: usize, late: Duration) -> Strain {
        let strain = Strain::default();
        (0..samples).for_each(|_| strain.note(late));
        strain
    }

    #[test]
    fn pauses_grow_with_the_lag_up_to_a_bound() {
        assert_eq!(Strain::default().stretch(PAUSE), PAUSE);
        let behind = after(100, 2 * LAG_UNIT).stretch(PAUSE);
        assert!(behind > PAUSE.mul_f64(2.9) && behind <= 3 * PAUSE, "{behind:?}");
        assert_eq!(after(100, Duration::from_secs(60)).stretch(PAUSE), PAUSE.mul_f64(STRETCH_MAX));
    }

    #[test]
    fn a_stop_of_the_process_is_soon_forgotten() {
        let strain = after(1, Duration::from_secs(60));
        assert!(strain.stretch(PAUSE) > 3 * PAUSE);
        (0..40).for_each(|_| strain.note(Duration::ZERO));
        assert!(strain.stretch(PAUSE) < PAUSE.mul_f64(1.3));
    }
}
