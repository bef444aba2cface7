//! The engine's clock: whole milliseconds for which this process has run, small enough to keep in an atomic per session.
//!
//! It stands still while the process is stopped, or starved for longer than a moment: clients could not be heard
//! meanwhile, and are not to blame.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since the engine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(pub(crate) u64);

impl Tick {
    /// This much later.
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0 + duration.as_millis() as u64)
    }

    /// How long after `earlier` this is; zero when it is before.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Where ticks come from.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    stalled_ms: AtomicU64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), stalled_ms: AtomicU64::new(0) }
    }

    pub(crate) fn now(&self) -> Tick {
        let stalled = self.stalled_ms.load(Ordering::Relaxed);
        Tick((self.started.elapsed().as_millis() as u64).saturating_sub(stalled))
    }

    /// As [`Clock::now`], but for the time in which the process was stopped: for what is told of the past.
    pub(crate) fn real(&self) -> Tick {
        Tick(self.started.elapsed().as_millis() as u64)
    }

    /// Takes out a time in which the process did not run.
    pub(crate) fn forgive(&self, stall: Duration) {
        self.stalled_ms.fetch_add(stall.as_millis() as u64, Ordering::Relaxed);
    }
}

/// The wall clock, in ms since the Unix epoch: only for what is shown while the store's own clock is out of reach.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ticks_are_the_time_that_passed_less_what_was_forgiven_and_never_go_back() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (clock, mut lived) = (Clock::start(), Duration::ZERO);
            for _ in 0..random.usize(1..60) {
                let (seen, time) = (clock.now(), Duration::from_millis(random.u64(..5000)));
                tokio::time::advance(time).await;
                if random.bool() {
                    clock.forgive(time);
                } else {
                    lived += time;
                }
                assert_eq!(clock.now().since(Tick(0)), lived, "seed {seed}");
                assert_eq!(seen.since(Tick(0)) + clock.now().since(seen), lived, "seed {seed}");
                assert_eq!(seen.after(clock.now().since(seen)), clock.now(), "seed {seed}");
            }
        }
    }
}
