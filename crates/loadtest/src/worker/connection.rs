//! One connection, in as few bytes as it can be kept in: there are as many as a process may have
//! open files.
//!
//! What it has in buffers exists only while a frame or a write is not whole.

use crate::ledger::Truth;
use crate::worker::socket::Socket;
use crate::worker::views::Views;

/// A Pong that takes longer is missed.
const PONG_LIMIT_US: u64 = 2_000_000;

/// For so long after a thaw a gateway may still close a connection whose time was over.
const THAWED_US: u64 = 1_000_000;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not begun, or away and to come back.
    Away,
    Connecting,
    Upgrading,
    /// The `hello` was sent.
    Greeting,
    Live,
    /// The `bye` was sent.
    Leaving,
    /// Nothing is sent or read for a while.
    Frozen,
    /// Nothing is sent or read for good.
    Silent,
    /// Failed, or ended by the other side; for good.
    Gone,
}

pub(super) struct Connection {
    pub(super) socket: Option<Socket>,
    pub(super) stage: Stage,
    /// Bytes that wait for more of the same frame, or for a socket that takes them.
    pub(super) partial: Option<Box<Partial>>,
    /// What is true of the user as far as this connection goes; see [`Truth::pack`].
    truth: u64,
    /// Attempts that failed since it was last there.
    pub(super) failures: u8,
    /// Whose turn it is among the gateways.
    pub(super) turn: u8,
    /// Whether a gateway ended it, or told it to go elsewhere.
    pub(super) is_sent_away: bool,
    /// Whether it was welcomed at some time.
    pub(super) was_up: bool,
    /// Whether its `watch` was refused, so that its views say nothing.
    pub(super) is_refused: bool,
    /// When the first Ping was sent that no Pong came after, in ms; 0 without one.
    pinged_ms: u32,
    /// Since when it is to be there.
    pub(super) wanted_us: u64,
    /// When it was due.
    pub(super) due_us: u64,
    /// When its `hello` was sent.
    pub(super) hello_us: u64,
    /// Since when it is to know all whom it watches: its `watch` was sent then, or it thawed.
    pub(super) listens_us: u64,
    /// When it last gave a sign of life.
    pub(super) alive_us: u64,
    pub(super) views: Views,
}

#[derive(Default)]
pub(super) struct Partial {
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
}

impl Connection {
    pub(super) fn new(views: Views) -> Self {
        Self {
            socket: None,
            stage: Stage::Away,
            partial: None,
            failures: 0,
            turn: 0,
            is_sent_away: false,
            was_up: false,
            is_refused: false,
            pinged_ms: 0,
            wanted_us: 0,
            truth: Truth::Never.pack(),
            due_us: 0,
            hello_us: 0,
            listens_us: 0,
            alive_us: 0,
            views,
        }
    }

    pub(super) fn truth(&self) -> Truth {
        Truth::unpack(self.truth)
    }

    pub(super) fn set_truth(&mut self, truth: Truth) {
        self.truth = truth.pack();
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::Upgrading | Stage::Greeting)
    }

    /// Whether bytes wait for the socket to take them.
    pub(super) fn is_stuck(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| !partial.outgoing.is_empty())
            || self.socket.as_ref().is_some_and(Socket::is_full)
    }

    /// A Ping is sent.
    pub(super) fn pinged(&mut self, now_us: u64) {
        if self.pinged_ms == 0 {
            self.pinged_ms = (now_us / 1_000) as u32;
        }
    }

    /// A Pong came, or none is waited for any more.
    pub(super) fn ponged(&mut self) {
        self.pinged_ms = 0;
    }

    /// Whether a Ping was sent so long ago that its Pong should be there.
    pub(super) fn misses_pong(&self, now_us: u64) -> bool {
        self.pinged_ms > 0 && now_us > u64::from(self.pinged_ms) * 1_000 + PONG_LIMIT_US
    }

    /// Whether it has only just gone on after so long a freeze that the gateway may have taken it for dead.
    pub(super) fn has_thawed_late(&self, now_us: u64) -> bool {
        matches!(self.truth(), Truth::Online { since, .. } if since == self.listens_us)
            && now_us <= self.listens_us + THAWED_US
    }

    /// Lets go of the socket and of what belonged to it.
    pub(super) fn release(&mut self) {
        self.socket = None;
        self.partial = None;
        self.ponged();
    }

    /// Lets go of buffers that are empty.
    pub(super) fn tidy(&mut self) {
        let is_empty =
            |partial: &mut Box<Partial>| partial.incoming.is_empty() && partial.outgoing.is_empty();
        self.partial.take_if(is_empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is promised for a connection with twenty contacts.
    const BYTES_MAX: usize = 1_500;

    #[test]
    fn an_idle_connection_takes_few_bytes() {
        let mut connection = Connection::new(Views::new((0..20).collect()));
        connection.partial = Some(Box::default());
        connection.tidy();
        assert!(connection.partial.is_none());
        let beat = crate::worker::beats::BYTES_EACH;
        let bytes = size_of::<Connection>() + connection.views.heap_len() + beat;
        assert!(size_of::<Connection>() <= 128, "{}", size_of::<Connection>());
        assert!(bytes < BYTES_MAX / 3, "{bytes}");
    }

    #[test]
    fn a_ping_is_missed_when_no_pong_came_for_long() {
        let mut connection = Connection::new(Views::new(Vec::new()));
        let at = 5_000_000;
        connection.pinged(at);
        connection.pinged(at + 1_000_000);
        assert!(!connection.misses_pong(at + PONG_LIMIT_US));
        assert!(connection.misses_pong(at + PONG_LIMIT_US + 1));
        connection.ponged();
        assert!(!connection.misses_pong(u64::MAX));
        connection.pinged(at);
        connection.release();
        assert!(!connection.misses_pong(u64::MAX), "its socket is gone");
    }

    #[test]
    fn only_who_has_just_thawed_and_is_taken_for_new_has_thawed_late() {
        let mut connection = Connection::new(Views::new(Vec::new()));
        let thawed = 50_000_000;
        connection.listens_us = thawed;
        for (since, is_late) in [(thawed, true), (thawed - 1, false)] {
            let truth = Truth::Online { since, welcome_after_ms: 0, after_offline: false };
            connection.set_truth(truth);
            assert_eq!(connection.has_thawed_late(thawed + THAWED_US), is_late);
            assert!(!connection.has_thawed_late(thawed + THAWED_US + 1));
        }
    }
}
