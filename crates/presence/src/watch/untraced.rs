//! Users of whom the store has lost every trace, though they were seen online: until when they may live all the same.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

use crate::store::view::View;

/// Within this time after the store is back, gateways have asserted their sessions.
const ASSERT_TIME_MAX: Duration = Duration::from_millis(1500);

/// For at least so long a user who is gone without a trace is still shown online.
const HOLD_MIN: Duration = Duration::from_secs(3);

/// Until when those may live of whom there is no trace.
pub(super) struct Untraced {
    hold: Duration,
    loss: RwLock<Loss>,
}

/// What is known of the last time that the store lost everything.
#[derive(Default)]
struct Loss {
    /// When it began anew.
    born: Option<Instant>,
    /// Gateways that have yet to find out, and until when their users may live.
    missing: HashMap<String, Instant>,
}

impl Untraced {
    /// Who left before it could be asserted is still owed its grace.
    pub(super) fn new(grace: Duration) -> Self {
        Self { hold: HOLD_MIN.max(ASSERT_TIME_MAX + grace), loss: RwLock::default() }
    }

    pub(super) fn expect(&self, born: Option<Instant>, missing: HashMap<String, Instant>) {
        *self.loss.write() = Loss { born, missing };
    }

    /// Until when a user is shown online who was last seen in this view, and of whom a store born at this version has no
    /// trace. Who was seen before that counts from then.
    pub(super) fn hold_until(
        &self,
        seen: Option<&View>,
        born_version: u64,
        now: Instant,
    ) -> Instant {
        let loss = self.loss.read();
        let is_lost = seen.is_some_and(|seen| seen.version < born_version);
        let from = loss.born.filter(|_| is_lost).unwrap_or(now);
        let on = seen.into_iter().flat_map(|view| &view.gateways);
        let missing = on.filter_map(|gateway| loss.missing.get(gateway)).max();
        missing.map_or(from + self.hold, |until| (from + self.hold).max(*until))
    }

    /// Whether a gateway may still assert users of whom nothing is known here.
    pub(super) fn is_any_missing(&self, now: Instant) -> bool {
        self.loss.read().missing.values().any(|until| *until > now)
    }

    /// Whether a gateway may still assert a user who was last seen in this view.
    pub(super) fn is_missing(&self, seen: Option<&View>, now: Instant) -> bool {
        let loss = self.loss.read();
        let mut on = seen.into_iter().flat_map(|view| &view.gateways);
        on.any(|gateway| loss.missing.get(gateway).is_some_and(|until| *until > now))
    }
}
