//! One WebSocket, from its first frame to its last: one task, which never waits for the store or for another connection.
//!
//! ```text
//! opening --hello--> serving --> closing --> gone
//!    \----no hello, bad token------/
//! ```
//!
//! Opening and closing live in boxes of their own, so that a session that is served carries no trace of them.

mod closing;
#[cfg(feature = "echo")]
pub(crate) mod echo;
mod incoming;
mod limiter;
mod opening;
mod outgoing;
mod renewal;
mod watching;
mod wire;

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use presence::{Request, Session, Work};
use presence_protocol::{
    ClientMessage, CloseReason, ErrorCode, ErrorMessage, Format, Hello, UserId, decode_client,
};

use crate::admission::Seat;
use crate::app::SharedApp;
use crate::auth::Permission;
use crate::metrics::CloseLabel;
use incoming::Message;
use limiter::{Limiter, Verdict};
pub(crate) use opening::Newcomer;
use opening::Opened;
use watching::Wish;
pub(crate) use wire::Wire;

/// How a socket comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// We close, and say why.
    Close(CloseReason),
    /// The peer closed, or is gone.
    Peer,
}

/// What a session's task acts on.
enum Event {
    Message(Message),
    Work(Work),
    End(End),
}

/// Holds one socket from its upgrade to its end.
///
/// Async blocks instead of async functions, here and below: they use what they capture in place, where a function's future
/// holds its arguments twice.
#[expect(clippy::manual_async_fn, reason = "its future would hold its arguments twice")]
pub(crate) fn run(
    mut wire: Wire,
    seat: Seat,
    newcomer: Box<Newcomer>,
) -> impl Future<Output = ()> + Send {
    async move {
        let end = live(&mut wire, &seat.app, newcomer).await;
        let label = match end {
            End::Close(reason) => CloseLabel::from(reason),
            End::Peer => CloseLabel::PEER,
        };
        seat.app.metrics.closes.get_or_create(&label).inc();
        Box::pin(closing::close(&mut wire, end)).await;
    }
}

fn live<'a>(
    wire: &'a mut Wire,
    app: &'a SharedApp,
    newcomer: Box<Newcomer>,
) -> impl Future<Output = End> + Send + 'a {
    let opening = Box::pin(async move {
        let opened = opening::open(wire, app, *newcomer).await?;
        Ok(Connection::new(wire, app, opened))
    });
    async move {
        // Bound first: within a match the result would live on, beside the connection that was moved out of it.
        let mut connection = match opening.await {
            Ok(connection) => connection,
            Err(end) => return end,
        };
        connection.serve().await
    }
}

/// A socket with its session.
struct Connection<'a> {
    wire: &'a mut Wire,
    app: &'a SharedApp,
    session: Session,
    /// In a box: the task is rounded up to 128 bytes, and would be just over.
    rights: Box<Rights>,
    /// Whose turn it is, so that neither a flood from the client nor one to it starves the other.
    reads_first: bool,
}

/// What the client may do.
struct Rights {
    may_watch: Permission,
    /// When the token was issued, in seconds since the Unix epoch; 0 when it does not say.
    issued_at_s: u64,
    limiter: Limiter,
    /// Whom it watches by grants alone: they outlive a fresh token.
    #[expect(clippy::box_collection, reason = "most have none, and shall have no room for it")]
    granted: Option<Box<HashSet<UserId>>>,
}

impl Rights {
    /// As many at most as may be watched: beyond that a watch is refused.
    fn note_granted(&mut self, users: Vec<UserId>, max: usize) {
        if users.is_empty() {
            return;
        }
        let granted = self.granted.get_or_insert_default();
        for user in users {
            if granted.len() < max {
                granted.insert(user);
            }
        }
    }

    fn forget_granted(&mut self, users: &[UserId]) {
        let Some(granted) = &mut self.granted else { return };
        for user in users {
            granted.remove(user);
        }
    }
}

impl<'a> Connection<'a> {
    fn new(wire: &'a mut Wire, app: &'a SharedApp, opened: Opened) -> Self {
        let Opened { session, may_watch, issued_at_s } = opened;
        let limiter = Limiter::default();
        let rights = Box::new(Rights { may_watch, issued_at_s, limiter, granted: None });
        Self { wire, app, session, rights, reads_first: false }
    }

    async fn serve(&mut self) -> End {
        loop {
            let done = match poll_fn(|cx| self.poll_event(cx)).await {
                Event::Message(message) => self.receive(message),
                Event::Work(work) => self.work(work).map(|()| None),
                Event::End(end) => Err(end),
            };
            let renewed = match done {
                Ok(None) => continue,
                // In a box, so that no session holds the room for it while it has none.
                Ok(Some(hello)) => Box::pin(self.renew(hello)).await,
                Err(end) => return end,
            };
            if let Err(end) = renewed {
                return end;
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if let Err(end) = self.wire.flush(cx, self.app.settings.write_timeout) {
            return Poll::Ready(Event::End(end));
        }
        self.reads_first = !self.reads_first;
        if self.reads_first {
            if let Poll::Ready(event) = self.poll_message(cx) {
                return Poll::Ready(event);
            }
            return self.poll_work(cx);
        }
        if let Poll::Ready(event) = self.poll_work(cx) {
            return Poll::Ready(event);
        }
        self.poll_message(cx)
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let len_max = self.app.settings.max_frame_bytes;
        self.wire.poll_message(cx, len_max).map(|read| read.map_or_else(Event::End, Event::Message))
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.wire.is_busy() {
            return Poll::Pending;
        }
        self.session.poll_work(cx).map(Event::Work)
    }

    fn work(&mut self, work: Work) -> Result<(), End> {
        match work {
            Work::Frame(frame) => self.wire.send(frame),
            Work::Ping => self.wire.ping(),
            Work::Recheck => self.recheck(),
            Work::Close(reason) => Err(End::Close(reason)),
        }
    }

    /// Handles a message. A `hello` is handed back, since its token may have to wait for a key.
    fn receive(&mut self, message: Message) -> Result<Option<Box<Hello>>, End> {
        self.session.heard();
        let admitted = match self.rights.limiter.admit(self.app.settings.message_rate) {
            Verdict::Admitted => true,
            Verdict::Refused => false,
            Verdict::GivenUp => return Err(End::Close(CloseReason::RateLimited)),
        };
        let format = self.wire.format();
        let payload = match (message, format) {
            (Message::Text(payload), Format::Json)
            | (Message::Binary(payload), Format::MsgPack) => payload,
            (Message::Text(_) | Message::Binary(_), _) => {
                return Err(End::Close(CloseReason::WrongFrameKind));
            }
            (Message::Ping(payload), _) => return self.wire.pong(payload).map(|()| None),
            (Message::Pong | Message::Fragment, _) => return Ok(None),
            (Message::Close(answer), _) => {
                self.wire.answer_close(answer)?;
                return Err(End::Peer);
            }
        };
        if !admitted {
            let rate = self.app.settings.message_rate;
            let message = format!("at most {rate} frames a second; this one was not handled");
            self.session.refuse(refusal(ErrorCode::RateLimited, message));
            return Ok(None);
        }
        match decode_client(format, &payload) {
            Ok(message) => self.act(message),
            Err(error) => {
                self.session.refuse(error.into());
                Ok(None)
            }
        }
    }

    fn act(&mut self, message: ClientMessage) -> Result<Option<Box<Hello>>, End> {
        self.rights.limiter.charge(self.app.settings.message_rate, &message);
        match message {
            ClientMessage::Watch { users, id, grant } => {
                self.wish(Wish::Watch, users, id, grant.as_ref());
            }
            ClientMessage::Query { users, id, grant } => {
                self.wish(Wish::Query, users, id, grant.as_ref());
            }
            ClientMessage::Unwatch { users } => {
                self.rights.forget_granted(&users);
                self.session.request(Request::Unwatch { users });
            }
            ClientMessage::Heartbeat => {}
            ClientMessage::Status(status) => self.session.set_status(status),
            ClientMessage::Hello(hello) => return Ok(Some(Box::new(hello))),
            ClientMessage::Bye => {
                self.session.bye();
                return Err(End::Close(CloseReason::Bye));
            }
        }
        Ok(None)
    }
}

fn refusal(code: ErrorCode, message: String) -> ErrorMessage {
    ErrorMessage { code, message, id: None, users: Vec::new() }
}
