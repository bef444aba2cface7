//! The two clocks of a connection: when to give a sign of life, and since when there was none.

use std::time::Duration;

use fastrand::Rng;
use presence_protocol::Welcome;
use tokio::time::Instant;

use crate::options::Heartbeat;

/// No gateway asks for more; one that did would make its clients spin.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// Pings go out up to a fifth early, at random, so that clients do not beat in step.
const EARLY_MAX: f64 = 0.2;

pub(crate) struct Pulse {
    interval: Duration,
    ttl: Duration,
    heard: Instant,
    ping_at: Option<Instant>,
    rng: Rng,
}

/// What time it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Nothing yet.
    Rest,
    /// A Ping.
    Ping,
    /// The gateway was silent for its own TTL.
    Dead,
}

impl Pulse {
    pub(crate) fn new(welcome: &Welcome, heartbeat: Heartbeat, now: Instant, rng: Rng) -> Self {
        let interval = Duration::from_millis(welcome.heartbeat_ms).max(INTERVAL_MIN);
        let ttl = Duration::from_millis(welcome.ttl_ms).max(2 * interval);
        let mut pulse = Self { interval, ttl, heard: now, ping_at: None, rng };
        if heartbeat == Heartbeat::Ping {
            pulse.schedule_ping(now);
        }
        pulse
    }

    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When to look again.
    pub(crate) fn deadline(&self) -> Instant {
        let dead_at = self.heard + self.ttl;
        self.ping_at.map_or(dead_at, |ping_at| ping_at.min(dead_at))
    }

    pub(crate) fn beat(&mut self, now: Instant) -> Beat {
        if now >= self.heard + self.ttl {
            return Beat::Dead;
        }
        if self.ping_at.is_some_and(|ping_at| now >= ping_at) {
            self.schedule_ping(now);
            return Beat::Ping;
        }
        Beat::Rest
    }

    /// Whether a connection that began at `began` lasted long enough to count as a good one.
    pub(crate) fn was_good(&self, began: Instant) -> bool {
        self.heard >= began + self.interval
    }

    fn schedule_ping(&mut self, now: Instant) {
        let share = 1.0 - EARLY_MAX * self.rng.f64();
        self.ping_at = Some(now + self.interval.mul_f64(share));
    }
}
