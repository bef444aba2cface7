//! The numbers that every part of presence agrees on. Reads no environment: the gateway fills it in.

use std::time::Duration;

/// Times and limits of one presence engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// How often a client shows a sign of life; one that is silent for longer is pinged.
    pub heartbeat: Duration,
    /// How long a session counts as alive after its last heartbeat. At least twice `heartbeat`.
    pub ttl: Duration,
    /// How long an offline is held back, so that a quick reconnect shows nothing.
    pub grace: Duration,
    /// How long "last seen" is kept after a user went offline.
    pub last_seen: Duration,
    /// How long orders of the app's backend are remembered: that tokens of a user count no more.
    pub orders_kept: Duration,
    /// The longest watch list of one session.
    pub watch_len_max: usize,
    /// How many bytes of answers may wait for a client that does not read.
    pub unsent_bytes_max: usize,
    /// How many sessions a user may have here.
    pub sessions: SessionLimit,
    /// The pause between slow background sweeps, which compare all watched users with the store: 250 a second, where there
    /// are more than one batch of them.
    pub sweep: Duration,
}

/// How many sessions a user may have on one gateway, and what becomes of one more. No gateway knows of the others' sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimit {
    /// The most; at least 1.
    pub max: usize,
    /// What becomes of one more.
    pub over: Over,
}

/// What becomes of a session too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It comes in, and the user's oldest session is closed for it.
    OldestGivesWay,
    /// It does not come in.
    NewestIsRefused,
}

impl Config {
    /// How often a gateway renews its lease, give or take a tenth: the others know to within that when it died.
    pub fn renewal(&self) -> Duration {
        (self.ttl / 20).clamp(Duration::from_millis(50), Duration::from_millis(500))
    }

    /// How long a lease is good for: some renewals may be late or lost.
    pub fn lease(&self) -> Duration {
        6 * self.renewal()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            ttl: Duration::from_secs(30),
            grace: Duration::from_secs(3),
            last_seen: Duration::from_hours(30 * 24),
            orders_kept: Duration::from_hours(24),
            watch_len_max: 1000,
            unsent_bytes_max: 1 << 20,
            sessions: SessionLimit { max: 100, over: Over::OldestGivesWay },
            sweep: Duration::from_mins(1),
        }
    }
}
