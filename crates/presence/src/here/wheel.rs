//! The wheel: one timer for all sessions. It asks for a Ping when a client was silent for a heartbeat and some, and ends
//! the session when it was silent for the TTL, to within [`STEP`].
//!
//! A hashed wheel: each session waits in one slot, and is looked at when its slot comes round. A heartbeat only stores a
//! number; nothing is moved until the next look. Cost: four bytes a session, and one look in each [`silence_max`].

#[cfg(test)]
mod model;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::CloseReason;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::clock::Tick;
use crate::config::Config;
use crate::engine::Core;
use crate::here::vouch::vouch_interval;
use crate::session::outbox::{ConnId, Outbox};
use crate::store::Cause;

/// How far apart two looks into the wheel are.
pub(crate) const STEP: Duration = Duration::from_millis(50);
const STEP_MS: u64 = STEP.as_millis() as u64;
const SLOTS: u64 = 1024;

/// A time between two steps that is longer than this is one in which clients could not be heard.
const STALL: Duration = Duration::from_secs(1);

/// For how long a client may be silent before it is pinged. Its own heartbeats come a little early or late: to ping it after
/// exactly one would make two heartbeats of every other one.
pub(crate) fn silence_max(config: &Config) -> Duration {
    config.heartbeat * 5 / 4
}

/// The sessions by the step at which they are looked at next.
pub(crate) struct Wheel {
    slots: Box<[Mutex<Vec<ConnId>>]>,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Mutex::default()).collect() }
    }

    /// Looks at a session at the first step that is not before `at`, at the latest one turn of the wheel from `now`.
    pub(crate) fn visit_at(&self, conn: ConnId, outbox: &Outbox, now: Tick, at: Tick) {
        let latest = now.0 / STEP_MS + SLOTS - 1;
        let step = at.0.div_ceil(STEP_MS).clamp(now.0 / STEP_MS + 1, latest);
        outbox.set_next_visit(step);
        self.slots[(step % SLOTS) as usize].lock().push(conn);
    }

    /// Looks at a session at the next step: something about its deadlines changed.
    pub(crate) fn look_again(&self, conn: ConnId, outbox: &Outbox, now: Tick) {
        self.visit_at(conn, outbox, now, now);
    }

    fn take(&self, step: u64) -> Vec<ConnId> {
        std::mem::take(&mut *self.slots[(step % SLOTS) as usize].lock())
    }
}

/// Turns the wheel for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut seen = core.clock.now();
    loop {
        core.strain.note_timer(ticks.tick().await.elapsed());
        let stall = core.clock.now().since(seen);
        if stall > STALL {
            forgive(&core, stall);
        }
        let now = core.clock.now();
        for step in seen.0 / STEP_MS + 1..=now.0 / STEP_MS {
            for conn in core.wheel.take(step) {
                visit(&core, conn, step, now);
            }
        }
        core.rounds.go_if_due(&core.outboxes, &core.strain, now);
        seen = now;
    }
}

/// Deadlines move by the time in which nobody could be heard. After a long one, others may have taken this gateway for
/// dead, and its users with it.
fn forgive(core: &Arc<Core>, stall: Duration) {
    warn!(stalled_ms = stall.as_millis(), "this process was stopped: deadlines move by as much");
    core.clock.forgive(stall);
    // Who came or was heard since the process goes on did so just now, and not in the time to come, for which the next look
    // may have been planned.
    let now = core.clock.now();
    for (conn, outbox) in core.outboxes.numbered() {
        if outbox.heard() > now {
            outbox.hear(now);
            core.wheel.look_again(conn, &outbox, now);
        }
    }
    if stall > core.config.ttl.saturating_sub(vouch_interval(&core.config)) {
        core.assert_all_again();
    }
}

fn visit(core: &Core, conn: ConnId, step: u64, now: Tick) {
    let Some(outbox) = core.outboxes.get(conn).filter(|outbox| outbox.next_visit() == step) else {
        return;
    };
    let heard = outbox.heard();
    let silent = now.since(heard);
    let silence_max = silence_max(&core.config);
    if silent >= core.config.ttl {
        core.metrics.silent_deaths.inc();
        core.leave(&outbox, conn, Cause::Silent);
        outbox.close(CloseReason::NoHeartbeat);
        return;
    }
    if outbox.expires() <= now {
        outbox.close(CloseReason::TokenExpired);
        return;
    }
    let next = if silent >= silence_max {
        core.metrics.pings_sent.inc();
        outbox.ask_ping();
        now.after(silence_max).min(heard.after(core.config.ttl))
    } else {
        heard.after(silence_max)
    };
    core.wheel.visit_at(conn, &outbox, now, next.min(outbox.expires()));
}
