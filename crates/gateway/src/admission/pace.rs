//! How fast connections are accepted: an even pace, with a little in hand.

use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

/// A core takes some 4,000 connections a second and does nothing else then: the rest is for the sockets there are.
const RATE_OF_A_CORE: u32 = 2_500;

/// So much of a second's worth may come at once.
const IN_HAND: Duration = Duration::from_millis(50);

/// An even pace.
pub(crate) struct Pace {
    /// Between two; nothing when there is no limit.
    step: Duration,
    /// When the one after the last is due.
    next: Instant,
}

impl Pace {
    /// So many a second, where 0 is any number and none what the cores of this machine allow.
    pub(crate) fn new(rate: Option<u32>) -> Self {
        let cores = || available_parallelism().map_or(1, |cores| cores.get() as u32);
        let rate = rate.unwrap_or_else(|| RATE_OF_A_CORE.saturating_mul(cores()));
        let step = Duration::from_secs(1).checked_div(rate).unwrap_or_default();
        Self { step, next: Instant::now() }
    }

    /// Takes the next turn. Answers how long to wait for it.
    pub(crate) fn take(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let due = self.next;
        self.next = due.max(now) + self.step;
        let wait = due.saturating_duration_since(now + IN_HAND);
        (!wait.is_zero()).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    async fn taken_within(pace: &mut Pace, time: Duration) -> u32 {
        let end = Instant::now() + time;
        let mut taken = 0;
        loop {
            if let Some(wait) = pace.take() {
                sleep(wait).await;
            }
            if Instant::now() >= end {
                return taken;
            }
            taken += 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_little_comes_at_once_and_the_rest_at_the_rate() {
        let mut pace = Pace::new(Some(1_000));
        let at_once = std::iter::repeat_with(|| pace.take()).take_while(Option::is_none).count();
        assert!((45..=55).contains(&at_once), "{at_once}");
        let taken = taken_within(&mut pace, Duration::from_secs(10)).await;
        assert!((9_500..=10_100).contains(&taken), "{taken}");
        // What was not used is not saved up.
        sleep(Duration::from_mins(1)).await;
        let at_once = std::iter::repeat_with(|| pace.take()).take_while(Option::is_none).count();
        assert!((45..=55).contains(&at_once), "{at_once}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_any_number() {
        let mut pace = Pace::new(Some(0));
        assert!((0..100_000).all(|_| pace.take().is_none()));
        let mut by_cores = Pace::new(None);
        assert!((0..1_000_000).any(|_| by_cores.take().is_some()));
    }
}
