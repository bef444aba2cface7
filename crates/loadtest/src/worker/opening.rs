//! From nothing to a signed-in connection: TCP, the upgrade, `hello`, `welcome`, and then `watch`.

use mio::net::TcpStream;
use mio::{Interest, Token};
use presence_protocol::{ClientMessage, RequestId, Welcome, encode_client};
use std::time::Duration;
use tokio_tungstenite::tungstenite::http::StatusCode;

use crate::failure::Failure;
use crate::ledger::Truth;
use crate::measures::{Count, Timing, micros};
use crate::worker::connection::Stage;
use crate::worker::judge::Rules;
use crate::worker::reactor::{Later, Worker};
use crate::worker::socket::Socket;

/// More than any server answers an upgrade with.
const HEADERS_MAX: usize = 32;

/// Whether somebody may be watched, if it could not be told, may be asked again after so long.
pub(super) const ASK_AGAIN_US: u64 = 1_000_000;

/// How far an answer to the upgrade has come.
pub(super) enum Upgrade {
    Partial,
    /// It was accepted; the rest is of frames.
    Done {
        len: usize,
    },
}

impl Worker {
    /// Begins a connection that was due; a socket that is still there is closed.
    pub(super) fn open(&mut self, index: u32, due_us: u64) {
        let now_us = self.clock.now_us();
        let deadline_us = now_us + self.world.connect_timeout_us;
        self.count(Count::Started);
        self.measures.time(Timing::TesterLate, now_us.saturating_sub(due_us));
        let connection = self.connection(index);
        connection.release();
        connection.stage = Stage::Connecting;
        connection.due_us = due_us;
        if connection.failures == 0 && !connection.is_sent_away {
            connection.wanted_us = due_us;
        }
        connection.views.forget();
        self.opening.push_back((deadline_us, index, due_us));
        if let Err(failure) = self.begin(index) {
            self.lose(index, &failure);
        }
    }

    fn begin(&mut self, index: u32) -> Result<(), Failure> {
        let turn = self.connection(index).turn;
        let stream = std::net::TcpStream::from(self.world.begin(index, turn)?);
        let mut stream = TcpStream::from_std(stream);
        let both = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut stream, Token(index as usize), both)?;
        let tls = self.world.begin_tls(index, turn)?;
        self.connection(index).socket = Some(Socket::new(stream, tls));
        Ok(())
    }

    /// TCP is there, or is not to be.
    pub(super) fn on_connected(&mut self, index: u32) {
        let Some(socket) = &mut self.connection(index).socket else { return };
        let stream = socket.tcp();
        let connected = match stream.take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(Failure::from(error)),
        };
        if connected.is_ok() && stream.peer_addr().is_err() {
            return;
        }
        self.connection(index).stage = Stage::Upgrading;
        let asked = connected.and_then(|()| {
            self.outbox.clear();
            let turn = self.connections[index as usize].turn;
            self.outbox.extend_from_slice(self.world.request(index, turn));
            self.write_outbox(index)
        });
        match asked {
            // A handshake is there to be sent before.
            Ok(()) => self.flush(index, self.clock.now_us()),
            Err(failure) => self.lose(index, &failure),
        }
    }

    /// Reads the answer to the upgrade.
    pub(super) fn check_upgrade(&self, bytes: &[u8]) -> Result<Upgrade, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(bytes);
        let no_http = |error: httparse::Error| Failure::Garbage(format!("HTTP: {error}"));
        let httparse::Status::Complete(len) = parsed.map_err(no_http)? else {
            return Ok(Upgrade::Partial);
        };
        let status = StatusCode::from_u16(answer.code.unwrap_or_default());
        let status = status.map_err(|_| Failure::Garbage("HTTP: no status".to_owned()))?;
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Upgrade(status));
        }
        let is_header = |name: &str, value: &str| {
            let mut headers = answer.headers.iter();
            headers.any(|header| {
                header.name.eq_ignore_ascii_case(name) && header.value == value.as_bytes()
            })
        };
        let subprotocol = self.world.format.subprotocol();
        if !is_header("Sec-WebSocket-Accept", &self.world.accept) {
            return Err(Failure::WebSocket("a wrong Sec-WebSocket-Accept".to_owned()));
        }
        if !is_header("Sec-WebSocket-Protocol", subprotocol) {
            return Err(Failure::WebSocket("a wrong sub-protocol".to_owned()));
        }
        Ok(Upgrade::Done { len })
    }

    /// Says who is there.
    pub(super) fn greet(&mut self, index: u32) -> Result<(), Failure> {
        let hello = self.world.hello(index)?;
        let now_us = self.clock.now_us();
        let connection = self.connection(index);
        connection.stage = Stage::Greeting;
        connection.hello_us = now_us;
        self.note_joining(index, now_us);
        self.send_message(index, &hello)
    }

    /// It is signed in.
    pub(super) fn on_welcome(&mut self, index: u32, welcome: &Welcome) -> Result<(), Failure> {
        if self.connection(index).stage != Stage::Greeting {
            return Ok(());
        }
        if !self.world.is_user(index, &welcome.user) {
            return Err(Failure::SomebodyElse);
        }
        let may = welcome.max_watch;
        if self.connection(index).views.users().len() as u64 > may {
            let asked = self.world.scenario.contacts.watched_max();
            return Err(Failure::WatchesTooMany { may, asked });
        }
        let us = |ms| micros(Duration::from_millis(ms));
        self.rules = Rules { ttl_us: us(welcome.ttl_ms), grace_us: us(welcome.grace_ms) };
        let now_us = self.clock.now_us();
        let connection = self.connection(index);
        connection.stage = Stage::Live;
        connection.listens_us = now_us;
        let wanted_us = connection.wanted_us;
        let timing = if connection.is_sent_away { Timing::Return } else { Timing::Connect };
        (connection.failures, connection.is_sent_away) = (0, false);
        if !std::mem::replace(&mut connection.was_up, true) {
            self.count(Count::CameUp);
        }
        self.count(Count::Connected);
        self.measures.time(timing, now_us.saturating_sub(wanted_us));
        self.note_welcomed(index, now_us);
        self.watch(index)
    }

    /// Asks again for a `watch` that was refused for now.
    pub(super) fn watch_again(&mut self, index: u32, now_us: u64) {
        let connection = self.connection(index);
        match connection.stage {
            Stage::Live if connection.is_refused => {
                connection.listens_us = now_us;
                if let Err(failure) = self.watch(index) {
                    self.lose(index, &failure);
                }
            }
            Stage::Frozen => self.do_later(now_us + ASK_AGAIN_US, index, Later::Watch),
            _ => {}
        }
    }

    fn watch(&mut self, index: u32) -> Result<(), Failure> {
        self.connection(index).is_refused = false;
        let views = &self.connections[index as usize].views;
        if views.users().is_empty() {
            return Ok(());
        }
        let users = views.users().iter().map(|user| self.world.user_id(*user)).collect();
        let id = Some(RequestId::Number(self.clock.now_us()));
        let watch = ClientMessage::Watch { users, id, grant: None };
        self.send_message(index, &encode_client(self.world.format, &watch))
    }

    /// Fails those that take too long.
    pub(super) fn give_up_openings(&mut self, now_us: u64) {
        while let Some(&(deadline_us, index, due_us)) = self.opening.front()
            && deadline_us <= now_us
        {
            self.opening.pop_front();
            let connection = self.connection(index);
            if connection.is_opening() && connection.due_us == due_us {
                self.lose(index, &Failure::TimedOut);
            }
        }
        // Those that are through are not kept in mind until their deadline.
        while let Some(&(_, index, due_us)) = self.opening.front() {
            let connection = &self.connections[index as usize];
            if connection.is_opening() && connection.due_us == due_us {
                break;
            }
            self.opening.pop_front();
        }
    }

    /// Before the `hello` is sent, so that no push can be faster than its note.
    fn note_joining(&mut self, index: u32, now_us: u64) {
        let before = self.standing(index);
        if !before.is_online() {
            let after_offline = self.rules.must_have_been_told(before, now_us);
            self.write_truth(index, Truth::Joining { since: now_us, after_offline });
        }
    }
}
