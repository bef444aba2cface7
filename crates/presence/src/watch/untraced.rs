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
    /// Gateways that have yet to find out that the store lost everything, and until when their users may live.
    missing: RwLock<HashMap<String, Instant>>,
}

impl Untraced {
    /// Who left before it could be asserted is still owed its grace.
    pub(super) fn new(grace: Duration) -> Self {
        Self { hold: HOLD_MIN.max(ASSERT_TIME_MAX + grace), missing: RwLock::default() }
    }

    pub(super) fn expect(&self, missing: HashMap<String, Instant>) {
        if !missing.is_empty() || !self.missing.read().is_empty() {
            *self.missing.write() = missing;
        }
    }

    /// Until when a user is shown online who was last seen in this view, and is gone since now.
    pub(super) fn hold_until(&self, seen: Option<&View>, now: Instant) -> Instant {
        self.missing_until(seen).map_or(now + self.hold, |until| until.max(now + self.hold))
    }

    /// Until when a gateway may still assert the user: none when all have.
    pub(super) fn missing_until(&self, seen: Option<&View>) -> Option<Instant> {
        let missing = self.missing.read();
        let on = seen.into_iter().flat_map(|view| &view.gateways);
        on.filter_map(|gateway| missing.get(gateway)).max().copied()
    }
}
