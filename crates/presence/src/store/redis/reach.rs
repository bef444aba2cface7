//! Whether Redis could be reached lately. Decides for how long a lapse is forgiven, and notices a recovery.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::store::StoreError;

/// For how long after trouble a user who lapsed meanwhile is not shown offline: living gateways need a moment to
/// vouch again for those whom they could not vouch for.
pub(super) const FORGIVE: Duration = Duration::from_secs(5);

/// A connection over which no call was answered for so long is replaced.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// What calls and reconnects tell of the way to Redis.
pub(super) struct Reach {
    started: Instant,
    /// When there was trouble last, in ms since `started`; `u64::MAX` for never.
    trouble_ms: AtomicU64,
    /// When a call was answered last, or a connection made.
    answered_ms: AtomicU64,
    /// Whether the latest call that says anything about it failed as unreachable.
    down: AtomicBool,
    recovered: Notify,
}

impl Reach {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            trouble_ms: AtomicU64::new(u64::MAX),
            answered_ms: AtomicU64::new(0),
            down: AtomicBool::new(false),
            recovered: Notify::new(),
        }
    }

    /// Learns from the result of a call, and hands it through.
    pub(super) fn note<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let unreachable = matches!(result, Err(StoreError::Unreachable(_)));
        // Also one that refuses, as a full Redis does, keeps gateways from vouching.
        if result.is_err() {
            self.trouble();
        }
        if unreachable {
            self.down.store(true, Relaxed);
        } else {
            // An answer, of whatever kind.
            self.answered_ms.store(self.elapsed_ms(), Relaxed);
            if self.down.load(Relaxed) && self.down.swap(false, Relaxed) {
                self.recovered.notify_one();
            }
        }
        result
    }

    /// The connection was lost and is back. Everybody is told of that, so the next success is no news.
    pub(super) fn reconnected(&self) {
        self.trouble();
        self.answered_ms.store(self.elapsed_ms(), Relaxed);
        self.down.store(false, Relaxed);
    }

    /// Waits for the first answer after calls that failed as unreachable.
    pub(super) async fn recovered(&self) {
        self.recovered.notified().await;
    }

    /// Whether the connection is to be replaced, since nothing was answered for so long. A new one is given as much time.
    pub(super) fn gives_up(&self) -> bool {
        let now_ms = self.elapsed_ms();
        let silent_ms = now_ms.saturating_sub(self.answered_ms.load(Relaxed));
        let gives_up = Duration::from_millis(silent_ms) > GIVE_UP_AFTER;
        if gives_up {
            self.answered_ms.store(now_ms, Relaxed);
        }
        gives_up
    }

    /// For how long from now a lapse is forgiven; zero in quiet times.
    pub(super) fn forgive(&self) -> Duration {
        let trouble_ms = self.trouble_ms.load(Relaxed);
        let quiet = self.elapsed_ms().checked_sub(trouble_ms);
        match quiet.map(Duration::from_millis) {
            Some(quiet) if quiet < FORGIVE => FORGIVE,
            _ => Duration::ZERO,
        }
    }

    fn trouble(&self) {
        self.trouble_ms.store(self.elapsed_ms(), Relaxed);
    }

    fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> Result<(), StoreError> {
        Err(StoreError::Unreachable("gone".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_lapse_is_forgiven_for_a_while_after_trouble_only() {
        let reach = Reach::new();
        assert_eq!(reach.forgive(), Duration::ZERO);
        let _ = reach.note(unreachable());
        assert_eq!(reach.forgive(), FORGIVE);
        tokio::time::advance(FORGIVE).await;
        assert_eq!(reach.forgive(), Duration::ZERO);
        reach.reconnected();
        assert_eq!(reach.forgive(), FORGIVE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_trouble_and_no_loss_of_the_way() {
        let reach = Reach::new();
        let _ = reach.note::<()>(Err(StoreError::Refused("it is full".to_owned())));
        assert_eq!(reach.forgive(), FORGIVE);
        let _ = reach.note(Ok(()));
        let recovered = tokio::time::timeout(Duration::from_secs(1), reach.recovered()).await;
        assert!(recovered.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_answers_is_given_up_once_and_the_next_has_its_time() {
        let reach = Reach::new();
        let moment = Duration::from_millis(1);
        tokio::time::advance(GIVE_UP_AFTER).await;
        let _ = reach.note(Ok(()));
        tokio::time::advance(GIVE_UP_AFTER).await;
        let _ = reach.note(unreachable());
        assert!(!reach.gives_up());
        tokio::time::advance(moment).await;
        assert!(reach.gives_up());
        tokio::time::advance(GIVE_UP_AFTER).await;
        assert!(!reach.gives_up());
        tokio::time::advance(moment).await;
        assert!(reach.gives_up());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_after_failures_is_a_recovery_and_the_second_is_none() {
        let reach = Reach::new();
        let _ = reach.note(Ok(()));
        let _ = reach.note(unreachable());
        let _ = reach.note(Ok(()));
        reach.recovered().await;
        let _ = reach.note(Ok(()));
        let second = tokio::time::timeout(Duration::from_secs(1), reach.recovered()).await;
        assert!(second.is_err());
    }
}
