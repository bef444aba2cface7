//! Asking for fresh keys before their time: between whoever meets a token whose key is not known, and the one task that
//! fetches keys.
//!
//! However many ask, keys are fetched once, and at most once in [`EARLY_PAUSE`] for their sake: anybody can make up a
//! name.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// So long after keys were fetched early, they are not fetched early again.
pub(in crate::auth) const EARLY_PAUSE: Duration = Duration::from_secs(10);

/// What is known of the keys of a URL.
#[derive(Debug)]
pub(in crate::auth) struct Freshness {
    state: Mutex<State>,
    asked: Notify,
    fetched: watch::Sender<()>,
}

/// Whether the keys that we have are those that are published, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Reach {
    /// The last attempt to fetch them succeeded.
    Good,
    /// It failed, or there was none yet.
    Lost,
}

/// What came of asking for fresh keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::auth) enum Asked {
    /// An attempt is over, whatever it brought.
    Answered,
    /// Somebody asked a moment ago, so nothing is fetched now.
    TooSoon,
    /// The attempt takes longer than anybody waits.
    Unanswered,
}

#[derive(Debug)]
struct State {
    /// Keys are being fetched, or are about to be.
    under_way: bool,
    /// When the keys were last asked for early.
    asked_at: Option<Instant>,
    reach: Reach,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { under_way: false, asked_at: None, reach: Reach::Lost }),
            asked: Notify::new(),
            fetched: watch::Sender::new(()),
        }
    }
}

impl Freshness {
    /// Whether the last attempt succeeded.
    pub(in crate::auth) fn reach(&self) -> Reach {
        self.state().reach
    }

    /// Asks for fresh keys and waits until the attempt is over, at most so long.
    pub(in crate::auth) async fn refreshed_within(&self, limit: Duration) -> Asked {
        // Before asking, so that no answer is missed.
        let mut fetched = self.fetched.subscribe();
        if !self.ask() {
            return Asked::TooSoon;
        }
        match timeout(limit, fetched.changed()).await {
            Ok(_) => Asked::Answered,
            Err(_late) => Asked::Unanswered,
        }
    }

    fn ask(&self) -> bool {
        let mut state = self.state();
        if !state.under_way {
            if state.asked_at.is_some_and(|at| at.elapsed() < EARLY_PAUSE) {
                return false;
            }
            state.asked_at = Some(Instant::now());
            state.under_way = true;
            self.asked.notify_one();
        }
        true
    }

    /// For the task that fetches: comes back when somebody asked.
    pub(in crate::auth) async fn asked(&self) {
        // A permit may be left of a question that was answered by a fetch in its time.
        while !self.state().under_way {
            self.asked.notified().await;
        }
    }

    /// Keys are fetched from now on.
    pub(in crate::auth) fn begin(&self) {
        self.state().under_way = true;
    }

    /// An attempt is over, and its keys are in their place.
    pub(in crate::auth) fn finish(&self, reach: Reach) {
        let mut state = self.state();
        state.under_way = false;
        state.reach = reach;
        self.fetched.send_replace(());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
