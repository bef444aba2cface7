//! The socket of a session: reads messages, and writes one frame at a time.
//!
//! What is written leaves before more is taken, so that all that is buffered for a slow client is one frame.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Sink, Stream};
use presence_protocol::{CloseReason, Format};
use tokio::time::{Sleep, sleep};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};
use tracing::debug;

use super::{End, Socket};

/// A socket, and whether it takes what is written.
pub(super) struct Wire<'a> {
    socket: &'a mut Socket,
    format: Format,
    timeout: Duration,
    /// Something was written and has not left yet.
    unflushed: bool,
    /// While the socket takes nothing: when it is given up. A timer that exists only then.
    given_up: Option<Pin<Box<Sleep>>>,
}

impl<'a> Wire<'a> {
    pub(super) fn new(socket: &'a mut Socket, format: Format, timeout: Duration) -> Self {
        Self { socket, format, timeout, unflushed: false, given_up: None }
    }

    /// Whether something has yet to leave.
    pub(super) fn is_busy(&self) -> bool {
        self.unflushed
    }

    /// Lets go what was written; gives the socket up when it takes nothing for too long.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        if !self.unflushed {
            return Ok(());
        }
        match Pin::new(&mut *self.socket).poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                self.unflushed = false;
                self.given_up = None;
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(end_of(&error)),
            Poll::Pending => self.wait_for_peer(cx),
        }
    }

    fn wait_for_peer(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        let timeout = self.timeout;
        let given_up = self.given_up.get_or_insert_with(|| Box::pin(sleep(timeout)));
        match given_up.as_mut().poll(cx) {
            Poll::Ready(()) => Err(End::Close(CloseReason::TooSlow)),
            Poll::Pending => Ok(()),
        }
    }

    /// The next message, or how the socket ended.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, End>> {
        Poll::Ready(match ready!(Pin::new(&mut *self.socket).poll_next(cx)) {
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(end_of(&error)),
            None => Err(End::Peer),
        })
    }

    /// Writes a message of the protocol.
    pub(super) fn send(&mut self, frame: Bytes) -> Result<(), End> {
        self.write(as_message(self.format, frame)?)
    }

    /// Writes a Ping.
    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.write(Message::Ping(Bytes::new()))
    }

    /// A Ping was read: the socket has queued the Pong itself, and it leaves with the next flush.
    pub(super) fn pong_was_queued(&mut self) {
        self.unflushed = true;
    }

    fn write(&mut self, message: Message) -> Result<(), End> {
        self.unflushed = true;
        Pin::new(&mut *self.socket).start_send(message).map_err(|error| end_of(&error))
    }
}

/// A frame of the format's kind.
pub(super) fn as_message(format: Format, frame: Bytes) -> Result<Message, End> {
    match format {
        Format::MsgPack => Ok(Message::Binary(frame)),
        Format::Json => Utf8Bytes::try_from(frame)
            .map(Message::Text)
            .map_err(|_| End::Close(CloseReason::GoingAway)),
    }
}

/// What a failed read or write says about the peer.
pub(super) fn end_of(error: &Error) -> End {
    use ProtocolError::{ResetWithoutClosingHandshake, SendAfterClosing};
    debug!(%error, "a socket failed");
    match error {
        Error::Capacity(_) => End::Close(CloseReason::TooLarge),
        Error::Utf8(_) => End::Close(CloseReason::NotUtf8),
        Error::Protocol(ResetWithoutClosingHandshake | SendAfterClosing) => End::Peer,
        Error::Protocol(_) => End::Close(CloseReason::ProtocolError),
        _ => End::Peer,
    }
}
