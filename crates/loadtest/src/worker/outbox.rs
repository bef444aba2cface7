//! What is sent: written at once, and kept only when the socket does not take it.

use std::io::{ErrorKind, Write};

use presence_protocol::{ClientMessage, Format, encode_client};

use crate::failure::Failure;
use crate::measures::{Count, Timing};
use crate::scenario::Beat;
use crate::worker::connection::Stage;
use crate::worker::frames::{self, Kind};
use crate::worker::reactor::Worker;
use crate::worker::socket::Socket;

impl Worker {
    /// Sends a message in the frame of its format.
    pub(super) fn send_message(&mut self, index: u32, message: &[u8]) -> Result<(), Failure> {
        let kind = match self.world.format {
            Format::Json => Kind::Text,
            Format::MsgPack => Kind::Binary,
        };
        self.send(index, kind, message)
    }

    pub(super) fn send(&mut self, index: u32, kind: Kind, payload: &[u8]) -> Result<(), Failure> {
        let mask = self.rng.u32(..).to_be_bytes();
        self.outbox.clear();
        frames::put(&mut self.outbox, kind, payload, mask);
        self.write_outbox(index)
    }

    /// Gives a sign of life that was due.
    pub(super) fn beat(&mut self, index: u32, due_us: u64) {
        let now_us = self.clock.now_us();
        self.look_for_pong(index, now_us);
        let connection = self.connection(index);
        // One that is stuck gives no other sign of life until the socket takes the last one.
        if connection.stage != Stage::Live || connection.is_stuck() {
            return;
        }
        self.measures.time(Timing::TesterLate, now_us.saturating_sub(due_us));
        let sent = match self.world.scenario.heartbeat.kind {
            Beat::Message => {
                self.count(Count::HeartbeatsSent);
                let heartbeat = encode_client(self.world.format, &ClientMessage::Heartbeat);
                self.send_message(index, &heartbeat)
            }
            Beat::Ping | Beat::Pong => self.ping(index, due_us),
        };
        if let Err(failure) = sent {
            self.lose(index, &failure);
        }
    }

    /// Sends a Ping that was due; its Pong is waited for.
    pub(super) fn ping(&mut self, index: u32, due_us: u64) -> Result<(), Failure> {
        self.count(Count::Pings);
        let now_us = self.clock.now_us();
        self.connection(index).pinged(now_us);
        self.send(index, Kind::Ping, &due_us.to_be_bytes())
    }

    /// Counts a Ping whose Pong should be there for long, and is not among what is still to be read.
    pub(super) fn look_for_pong(&mut self, index: u32, now_us: u64) {
        let misses = |worker: &mut Self| {
            let connection = worker.connection(index);
            connection.stage == Stage::Live && connection.misses_pong(now_us)
        };
        if misses(self) {
            self.read(index, now_us);
        }
        if misses(self) {
            self.connection(index).ponged();
            self.count(Count::UnansweredPings);
        }
    }

    /// Writes what is in the outbox, after what waits.
    pub(super) fn write_outbox(&mut self, index: u32) -> Result<(), Failure> {
        let now_us = self.clock.now_us();
        self.measures.add(Count::BytesOut, self.outbox.len() as u64);
        let connection = &mut self.connections[index as usize];
        if connection.is_stuck() {
            let partial = connection.partial.get_or_insert_default();
            partial.outgoing.extend_from_slice(&self.outbox);
            return Ok(());
        }
        let Some(socket) = &mut connection.socket else { return Err(Failure::Ended) };
        connection.alive_us = now_us;
        let written = write_some(socket, &self.outbox)?;
        if written < self.outbox.len() {
            let partial = connection.partial.get_or_insert_default();
            partial.outgoing.extend_from_slice(&self.outbox[written..]);
        }
        Ok(())
    }

    /// The socket may take more.
    pub(super) fn flush(&mut self, index: u32, now_us: u64) {
        let connection = &mut self.connections[index as usize];
        let Some(socket) = &mut connection.socket else { return };
        let waiting = connection.partial.as_mut().map(|partial| &mut partial.outgoing);
        match flush_some(socket, waiting) {
            Ok(has_sent) => {
                if has_sent {
                    connection.alive_us = now_us;
                }
                connection.tidy();
            }
            Err(failure) => self.lose(index, &failure),
        }
    }
}

/// Sends what the socket took before, and of what waits as much as it takes now. Tells whether either got on.
fn flush_some(socket: &mut Socket, waiting: Option<&mut Vec<u8>>) -> Result<bool, Failure> {
    let was_full = socket.is_full();
    match socket.flush() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
        flushed => flushed?,
    }
    let Some(waiting) = waiting else { return Ok(was_full) };
    let written = write_some(socket, waiting)?;
    waiting.drain(..written);
    Ok(was_full || written > 0)
}

/// As much as the socket takes now.
fn write_some(socket: &mut Socket, bytes: &[u8]) -> Result<usize, Failure> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(0) if socket.is_full() => break,
            Ok(0) => return Err(Failure::Ended),
            Ok(more) => written += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}
