//! What is done to connections on purpose, and what happens to them.

use presence_protocol::{ClientMessage, encode_client};

use crate::failure::{Failure, close_label};
use crate::ledger::Truth;
use crate::measures::Count;
use crate::scenario::Gap;
use crate::worker::connection::Stage;
use crate::worker::judge::{Due, is_settled};
use crate::worker::moments::Deed;
use crate::worker::reactor::{Later, Worker};

/// Tries to hit one of those connected, before they are looked for one by one.
const PICKS: u32 = 64;

/// Who thaws this close to the end of its TTL may be taken for dead.
const CLOSE_US: u64 = 100_000;

impl Worker {
    /// Does what was due.
    pub(super) fn do_deed(&mut self, deed: Deed, due_us: u64) {
        if let Deed::Storm { share, within_us } = deed {
            return self.storm(share, within_us, due_us);
        }
        let Some(index) = self.pick() else { return self.count(Count::ActsSkipped) };
        match deed {
            Deed::Close { back_after } => {
                let gap_us = back_after.roll(&mut self.rng);
                self.close(index);
                self.do_later(due_us + gap_us, index, Later::Return);
            }
            Deed::SignOut { back_after } => {
                let gap_us = back_after.roll(&mut self.rng);
                self.do_later(due_us + gap_us, index, Later::Return);
                self.sign_out(index);
            }
            Deed::FallSilent => self.fall_silent(index),
            Deed::Freeze { lasts } => {
                let lasts_us = lasts.roll(&mut self.rng);
                self.freeze(index);
                self.do_later(due_us + lasts_us, index, Later::Thaw);
            }
            Deed::Storm { .. } => unreachable!("it was done above"),
        }
    }

    fn storm(&mut self, share: f64, within_us: u64, due_us: u64) {
        for index in 0..self.connections.len() as u32 {
            if self.connection(index).stage == Stage::Live && self.rng.f64() < share {
                let gap_us = self.rng.u64(0..=within_us);
                self.close(index);
                self.do_later(due_us + gap_us, index, Later::Return);
            }
        }
    }

    /// One of those connected, at random.
    fn pick(&mut self) -> Option<u32> {
        let count = self.connections.len();
        let is_live = |place: &usize| self.connections[*place].stage == Stage::Live;
        let picked = (0..PICKS).map(|_| self.rng.usize(..count)).find(is_live);
        let picked = picked.or_else(|| {
            let from = self.rng.usize(..count);
            (from..count).chain(0..from).find(is_live)
        });
        picked.map(|place| place as u32)
    }

    fn close(&mut self, index: u32) {
        self.note(index, Truth::Closed { at: self.clock.now_us() });
        self.count(Count::ClosedOnPurpose);
        let connection = self.connection(index);
        connection.release();
        connection.stage = Stage::Away;
    }

    fn sign_out(&mut self, index: u32) {
        self.note(index, Truth::Bye { at: self.clock.now_us() });
        self.count(Count::SignedOut);
        self.connection(index).stage = Stage::Leaving;
        let bye = encode_client(self.world.format, &ClientMessage::Bye);
        if let Err(failure) = self.send_message(index, &bye) {
            self.lose(index, &failure);
        }
    }

    fn fall_silent(&mut self, index: u32) {
        let registry = &self.registry;
        let connection = &mut self.connections[index as usize];
        connection.stage = Stage::Silent;
        connection.partial = None;
        // One that still gets events is only woken for nothing.
        let _ = connection.socket.as_mut().map(|socket| registry.deregister(socket.tcp()));
        let at = connection.alive_us;
        self.note(index, Truth::Silent { at });
        self.count(Count::FellSilent);
    }

    fn freeze(&mut self, index: u32) {
        let connection = self.connection(index);
        connection.stage = Stage::Frozen;
        let at = connection.alive_us;
        self.note(index, Truth::Silent { at });
        self.count(Count::Froze);
    }

    /// Goes on after a freeze, or comes back when the gateway has ended it meanwhile.
    pub(super) fn thaw(&mut self, index: u32) {
        let now_us = self.clock.now_us();
        let alive_us = self.connection(index).alive_us;
        // What was told of the socket meanwhile is not told again. It is read twice for the end of
        // the stream, behind what was there.
        for turn in [Self::flush, Self::read, Self::read] {
            if self.connection(index).stage != Stage::Frozen {
                return;
            }
            turn(self, index, now_us);
        }
        let connection = self.connection(index);
        if connection.stage != Stage::Frozen {
            return;
        }
        connection.stage = Stage::Live;
        connection.listens_us = now_us;
        let hello_us = connection.hello_us;
        let is_in_time = now_us + CLOSE_US < alive_us + self.rules.ttl_us;
        let since = if is_in_time { hello_us } else { now_us };
        self.note(index, Truth::Online { since, welcome_after_ms: 0, after_offline: false });
        self.count(Count::Thawed);
        if let Err(failure) = self.ping(index, now_us) {
            self.lose(index, &failure);
        }
    }

    /// Leaves a gateway that asked for it, which may have ended the connection before.
    pub(super) fn move_on(&mut self, index: u32, due_us: u64) {
        let now_us = self.clock.now_us();
        let connection = &mut self.connections[index as usize];
        if connection.stage != Stage::Live || !connection.is_sent_away {
            return;
        }
        connection.wanted_us = now_us;
        connection.turn = self.world.turn_after(connection.turn, &mut self.rng);
        self.note(index, Truth::Cut { at: now_us });
        self.count(Count::SentAway);
        self.open(index, due_us);
    }

    /// As clients do: after a while that is longer each time, and elsewhere.
    fn come_back(&mut self, index: u32, stage: Stage, back_off: Gap) {
        let now_us = self.clock.now_us();
        if matches!(stage, Stage::Live | Stage::Greeting) {
            self.note(index, Truth::Cut { at: now_us });
        }
        self.count(if stage == Stage::Live { Count::SentAway } else { Count::Retried });
        let connection = &mut self.connections[index as usize];
        if stage == Stage::Live {
            (connection.wanted_us, connection.is_sent_away) = (now_us, true);
        }
        connection.stage = Stage::Away;
        connection.turn = self.world.turn_after(connection.turn, &mut self.rng);
        let wait_us = back_off.back_off(connection.failures, &mut self.rng);
        connection.failures = connection.failures.saturating_add(1);
        self.do_later(now_us + wait_us, index, Later::Return);
    }

    /// Whether a gateway may take a connection for dead, as it was frozen for so long.
    fn is_frozen_out(&self, index: u32, now_us: u64) -> bool {
        let connection = &self.connections[index as usize];
        match connection.stage {
            Stage::Frozen => self.rules.is_ttl_over(connection.alive_us, now_us),
            Stage::Live => connection.has_thawed_late(now_us),
            _ => false,
        }
    }

    /// The connection failed, or the other side ended it.
    pub(super) fn lose(&mut self, index: u32, failure: &Failure) {
        let now_us = self.clock.now_us();
        if let Failure::Closed(code) = failure {
            self.measures.close(close_label(*code));
        }
        if failure.is_no_heartbeat() && self.is_frozen_out(index, now_us) {
            if self.connection(index).stage == Stage::Live {
                self.note(index, Truth::Cut { at: now_us });
            }
            self.count(Count::FrozenOut);
            return self.open(index, now_us);
        }
        let connection = self.connection(index);
        let stage = match connection.stage {
            Stage::Frozen => Stage::Live,
            stage => stage,
        };
        connection.release();
        let is_wanted = connection.is_opening() || stage == Stage::Live;
        let is_drained = failure.is_drain() || (stage == Stage::Live && connection.is_sent_away);
        if let Some(back_off) = self.world.scenario.reconnect
            && is_wanted
        {
            self.come_back(index, stage, back_off);
            if !is_drained {
                self.measures.error(failure.to_string());
                self.measures.add(Count::Lost, u64::from(stage == Stage::Live));
            }
            return;
        }
        match stage {
            // As it was asked to.
            Stage::Leaving => {
                self.connection(index).stage = Stage::Away;
                return;
            }
            Stage::Away | Stage::Frozen | Stage::Silent | Stage::Gone => return,
            Stage::Connecting | Stage::Upgrading => self.count(Count::Failed),
            Stage::Greeting => {
                self.count(Count::Failed);
                self.note(index, Truth::Cut { at: now_us });
            }
            Stage::Live => {
                self.count(Count::Dropped);
                self.note(index, Truth::Cut { at: now_us });
            }
        }
        self.connection(index).stage = Stage::Gone;
        self.measures.error(failure.to_string());
    }

    /// At the end: every view against the truth.
    pub(super) fn compare_views(&mut self) {
        let now_us = self.clock.now_us();
        for index in 0..self.connections.len() as u32 {
            self.look_for_pong(index, now_us);
            let connection = self.connection(index);
            if connection.stage != Stage::Live || connection.is_refused {
                continue;
            }
            let views: Vec<(u32, bool)> = connection.views.iter().collect();
            let listens_us = connection.listens_us;
            for (user, is_seen_online) in views {
                let truth = self.truth_of(user);
                self.count(Count::Views);
                self.measures.add(Count::ViewsOnline, u64::from(is_seen_online));
                let is_lost = match self.rules.due(truth, now_us) {
                    Due::Online => !is_seen_online && is_settled(listens_us, now_us),
                    Due::Offline => is_seen_online,
                    Due::Either => false,
                };
                if is_lost {
                    self.count(Count::LostChanges);
                    if is_seen_online && truth != Truth::Never {
                        self.count(Count::OfflineUntold);
                    }
                    if matches!(truth, Truth::Silent { .. }) {
                        self.count(Count::SilentUntold);
                    }
                }
            }
        }
    }
}
