//! A monotonic clock in whole milliseconds since the engine started: small enough to keep in an atomic per session.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Tick {
        Tick(self.started.elapsed().as_millis() as u64)
    }
}

/// The wall clock, in ms since the Unix epoch: only for what is shown while the store's own clock is out of reach.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
