//! The socket of a session: reads messages, and writes one frame at a time.
//!
//! Frames of the protocol are written past the WebSocket library, straight from where they were encoded: its write buffer
//! copies each frame, grows to the largest it ever held, and never shrinks. A frame for ten thousand watchers exists once,
//! and an idle socket holds nothing. The library still writes its own: Pings, Pongs and close frames.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::{Sink, Stream};
use presence_protocol::{CloseReason, Format};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tracing::debug;

use super::{End, Socket};

/// The longest head of a frame that is not masked.
const HEAD_LEN_MAX: usize = 10;

/// A socket, and whether it takes what is written.
pub(super) struct Wire {
    pub(super) socket: Socket,
    format: Format,
    timeout: Duration,
    /// The library has something that has not left yet.
    unflushed: bool,
    /// Our frame that has not left yet.
    outgoing: Option<Outgoing>,
    /// While the socket takes nothing: when it is given up. A timer that exists only then.
    given_up: Option<Pin<Box<Sleep>>>,
}

/// A frame on its way, and how much of it has left.
struct Outgoing {
    head: [u8; HEAD_LEN_MAX],
    head_len: usize,
    payload: Bytes,
    written: usize,
}

impl Wire {
    pub(super) fn new(socket: Socket, format: Format, timeout: Duration) -> Self {
        Self { socket, format, timeout, unflushed: false, outgoing: None, given_up: None }
    }

    /// Whether something has yet to leave.
    pub(super) fn is_busy(&self) -> bool {
        self.unflushed || self.outgoing.is_some()
    }

    /// Lets go what was written; gives the socket up when it takes nothing for too long.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>) -> Result<(), End> {
        let before = self.written();
        match self.poll_flush(cx) {
            Poll::Ready(result) => {
                self.given_up = None;
                result
            }
            Poll::Pending => {
                if self.written() > before {
                    self.given_up = None;
                }
                self.wait_for_peer(cx)
            }
        }
    }

    /// Writes until all has left.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(cx)).map_err(|error| end_of(&error))?;
            self.unflushed = false;
        }
        if let Some(outgoing) = &mut self.outgoing {
            let written = ready!(outgoing.poll_write(self.socket.get_mut(), cx));
            written.map_err(|error| end_of(&Error::Io(error)))?;
            self.outgoing = None;
        }
        Poll::Ready(Ok(()))
    }

    fn written(&self) -> usize {
        self.outgoing.as_ref().map_or(0, |outgoing| outgoing.written)
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
    ///
    /// Nothing is read while a frame of ours is half written: the library would put its Pong into the middle.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, End>> {
        if self.written() > 0 {
            return Poll::Pending;
        }
        Poll::Ready(match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(end_of(&error)),
            None => Err(End::Peer),
        })
    }

    /// Writes a message of the protocol. Nothing else of ours may be on its way.
    pub(super) fn send(&mut self, payload: Bytes) {
        debug_assert!(self.outgoing.is_none(), "one frame at a time");
        self.outgoing = Some(Outgoing::new(self.format, payload));
    }

    /// Writes a Ping.
    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.unflushed = true;
        let ping = Message::Ping(Bytes::new());
        Pin::new(&mut self.socket).start_send(ping).map_err(|error| end_of(&error))
    }

    /// A Ping was read: the library has queued the Pong itself, and it leaves with the next flush.
    pub(super) fn pong_was_queued(&mut self) {
        self.unflushed = true;
    }
}

impl Outgoing {
    fn new(format: Format, payload: Bytes) -> Self {
        let data = match format {
            Format::Json => Data::Text,
            Format::MsgPack => Data::Binary,
        };
        let header = FrameHeader { opcode: OpCode::Data(data), ..FrameHeader::default() };
        let length = payload.len() as u64;
        let mut head = [0; HEAD_LEN_MAX];
        header.format(length, &mut head.as_mut_slice()).expect("ten bytes hold any such head");
        Self { head, head_len: header.len(length), payload, written: 0 }
    }

    fn poll_write(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.head_len + self.payload.len() {
            let head = &self.head[self.written.min(self.head_len)..self.head_len];
            let payload = &self.payload[self.written.saturating_sub(self.head_len)..];
            let parts = [IoSlice::new(head), IoSlice::new(payload)];
            let written = ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &parts))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        Poll::Ready(Ok(()))
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Frames of all three forms of head, written to a socket that takes them in parts.
    #[tokio::test]
    async fn a_frame_arrives_whole_whatever_its_length() {
        for length in [0, 1, 125, 126, 65_535, 65_536, 4_000_000] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let payload: Bytes = (0..length).map(|at| at as u8).collect::<Vec<u8>>().into();
            let mut outgoing = Outgoing::new(Format::MsgPack, payload.clone());
            let total = outgoing.head_len + payload.len();
            let mut client = client;
            let mut read = vec![0; total];
            let write = std::future::poll_fn(|cx| outgoing.poll_write(&mut stream, cx));
            let (written, got) = tokio::join!(write, client.read_exact(&mut read));
            written.unwrap();
            got.unwrap();
            assert_eq!(read[0], 0x82, "final, binary");
            assert_eq!(&read[total - payload.len()..], &payload[..]);
        }
    }
}
