//! A session: one accepted socket of a user, as the socket's task sees it. No call here waits.

pub(crate) mod desk;
pub(crate) mod outbox;
pub(crate) mod rounds;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use presence_protocol::{
    CloseReason, ErrorMessage, GatewayMessage, SessionId, Status, UserId, Welcome, encode_gateway,
    presence_frame,
};
use thiserror::Error;

use crate::engine::Core;
use crate::store::Cause;
use crate::watch::UserRef;
use desk::Turn;
pub use desk::{Asked, Deciding, Decision, Judge, Request};
use outbox::{ConnId, Due, Outbox};

/// One user's session. Dropping it means that its socket closed without a `bye`.
pub struct Session {
    core: Arc<Core>,
    outbox: Arc<Outbox>,
    conn: ConnId,
}

/// A user has as many sessions on this gateway as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the user has as many sessions here as may be")]
pub struct TooManySessions;

/// What a session's task is to do next for its client.
#[derive(Debug)]
pub enum Work {
    /// Send this frame: text for JSON, binary for `MessagePack`.
    Frame(Bytes),
    /// Send a WebSocket Ping: the client was silent for a heartbeat.
    Ping,
    /// The app's backend ordered something of this user: whether the session may go on, and whom it may watch, is to be
    /// looked at again.
    Recheck,
    /// Send a close frame with this reason, and end.
    Close(CloseReason),
}

impl Session {
    pub(crate) fn new(core: Arc<Core>, outbox: Arc<Outbox>, conn: ConnId) -> Self {
        Self { core, outbox, conn }
    }

    /// Whose session it is.
    pub fn user(&self) -> &UserId {
        &self.outbox.user
    }

    /// Which of this gateway's sessions it is, counted from its start.
    pub fn number(&self) -> u64 {
        self.outbox.origin.number
    }

    /// The client showed a sign of life.
    pub fn heard(&self) {
        self.core.metrics.heartbeats.inc();
        self.outbox.hear(self.core.clock.now());
    }

    /// The frame that tells the client that it is in, and online. [`Session::poll_work`] hands it out first of all, when the
    /// store knows of the session; it answers a fresh token as well.
    pub fn welcome(&self) -> Bytes {
        let config = &self.core.config;
        let welcome = Welcome {
            user: self.outbox.user.clone(),
            session: SessionId::new(self.outbox.session_id(self.core.store.gateway())),
            heartbeat_ms: config.heartbeat.as_millis() as u64,
            ttl_ms: config.ttl.as_millis() as u64,
            grace_ms: config.grace.as_millis() as u64,
            max_watch: config.watch_len_max as u64,
        };
        self.encode(&GatewayMessage::Welcome(welcome))
    }

    /// Puts a frame in line with the answers that [`Session::poll_work`] hands out.
    pub fn send(&self, frame: Bytes) {
        desk::answer(&self.core, &self.outbox, &[], || frame);
    }

    /// Asks for users' states. The answer comes by [`Session::poll_work`], in the order of the requests.
    pub fn request(&self, request: Request) {
        self.take(Turn::Request(request));
    }

    /// Asks for what is decided first: `deciding` is polled when all requests before it are answered, and those that come
    /// after it wait.
    pub fn request_decided(&self, asked: Asked, deciding: Deciding) {
        self.take(Turn::Decide(asked, deciding));
    }

    /// Has the whole watch list judged anew, when all requests before are answered.
    pub fn review(&self, judge: Judge) {
        self.take(Turn::Review(judge));
    }

    fn take(&self, turn: Turn) {
        desk::take(&self.core, &self.outbox, self.conn, turn);
    }

    /// Says how this session wants its user shown.
    pub fn set_status(&self, status: Status) {
        self.core.set_status(&self.outbox, self.conn, status);
    }

    /// A message of the client could not be taken: it is told why.
    pub fn refuse(&self, error: ErrorMessage) {
        desk::refuse_with(&self.core, &self.outbox, error);
    }

    /// What is to be done next for the client. Polled by one task only.
    pub fn poll_work(&self, cx: &mut Context<'_>) -> Poll<Work> {
        let encode = |users: &[UserRef]| self.encode_users(users);
        self.outbox.poll_due(cx, encode).map(|due| match due {
            Due::Frame(frame) => Work::Frame(frame),
            Due::Ping => Work::Ping,
            Due::Recheck => Work::Recheck,
            Due::Close(reason) => Work::Close(reason),
            Due::Welcome => Work::Frame(self.welcome()),
            Due::Health => {
                let since = self.core.health.degraded_since();
                Work::Frame(self.encode(&GatewayMessage::Degraded { since }))
            }
            Due::Draining => {
                let reconnect_after_ms =
                    self.core.draining.reconnect_after_ms(self.core.config.ttl);
                Work::Frame(self.encode(&GatewayMessage::Draining { reconnect_after_ms }))
            }
        })
    }

    /// The token that let the client in expires after this time: the session closes then, unless a fresh one comes.
    pub fn expire_after(&self, time: Duration) {
        let now = self.core.clock.now();
        self.outbox.set_expiry(now.after(time));
        self.core.wheel.look_again(self.conn, &self.outbox, now);
    }

    /// The user signs out here: this session leaves at once, with no grace.
    pub fn bye(&self) {
        self.core.leave(&self.outbox, self.conn, Cause::Bye);
    }

    fn encode(&self, message: &GatewayMessage) -> Bytes {
        encode_gateway(self.outbox.format, message)
    }

    /// A frame with the latest states of these users; none when nothing is known of any.
    fn encode_users(&self, users: &[UserRef]) -> Option<Bytes> {
        let format = self.outbox.format;
        if let [user] = users {
            return self.core.table.frame(*user, format);
        }
        let states = self.core.table.states(users, format);
        (!states.is_empty()).then(|| presence_frame(&states))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.leave(&self.outbox, self.conn, Cause::Closed);
        self.core.outboxes.remove(self.conn);
    }
}
