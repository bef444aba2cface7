//! One connection, in as few bytes as it can be kept in: there are as many as a process may have
//! open files.
//!
//! What it has in buffers exists only while a frame or a write is not whole.

use crate::ledger::Truth;
use crate::worker::socket::Socket;
use crate::worker::views::Views;

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

    /// Lets go of the socket and of what belonged to it.
    pub(super) fn release(&mut self) {
        self.socket = None;
        self.partial = None;
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
        assert!(size_of::<Connection>() <= 120, "{}", size_of::<Connection>());
        assert!(bytes < BYTES_MAX / 3, "{bytes}");
    }
}
