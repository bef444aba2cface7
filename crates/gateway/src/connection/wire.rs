//! The socket of a session: reads messages, and writes one frame at a time.
//!
//! A socket at rest holds no buffer. What is read comes to the stack first, and what is written leaves at once, as far as
//! the socket takes it.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use presence_protocol::{CloseReason, Format};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_tungstenite::tungstenite::Bytes;
use tracing::debug;

use super::End;
use super::incoming::{Incoming, Message, Violation};
use super::outgoing::{Frame, Progress, Unsent};

/// The most that is read at once: enough for nearly every message.
const READ_LEN: usize = 16 * 1024;

/// A socket, what came of a message that is not whole, and what it has not taken.
pub(crate) struct Wire {
    stream: TcpStream,
    incoming: Incoming,
    unsent: Option<Box<Unsent>>,
    format: Format,
}

impl Wire {
    /// A socket that speaks WebSocket from here on, and what was read of that already.
    pub(crate) fn new(stream: TcpStream, read_ahead: &[u8], format: Format) -> Self {
        let mut incoming = Incoming::default();
        incoming.push(read_ahead);
        Self { stream, incoming, unsent: None, format }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Where the peer is, as far as the socket knows.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.stream.peer_addr().ok().map(|address| address.ip().to_canonical())
    }

    /// Whether something has yet to leave.
    pub(super) fn is_busy(&self) -> bool {
        self.unsent.is_some()
    }

    /// Writes a message of the protocol. Nothing else of ours may be on its way.
    pub(super) fn send(&mut self, payload: Bytes) -> Result<(), End> {
        debug_assert!(!self.is_busy(), "one frame at a time");
        self.write(Frame::message(self.format, payload))
    }

    pub(super) fn ping(&mut self) -> Result<(), End> {
        self.write(Frame::ping())
    }

    /// Answers a Ping.
    pub(super) fn pong(&mut self, payload: Vec<u8>) -> Result<(), End> {
        self.write(Frame::pong(payload))
    }

    /// Says why the socket closes.
    pub(super) fn close(&mut self, reason: CloseReason) -> Result<(), End> {
        self.write(Frame::close(reason))
    }

    /// Answers the peer's close frame.
    pub(super) fn answer_close(&mut self, payload: Vec<u8>) -> Result<(), End> {
        self.write(Frame::close_with(payload))
    }

    /// At once, or after what is on its way.
    fn write(&mut self, mut frame: Frame) -> Result<(), End> {
        match &mut self.unsent {
            Some(unsent) => unsent.control = Some(frame),
            None if frame.write(&self.stream)? == Progress::Done => {}
            None => self.unsent = Some(Box::new(Unsent::new(frame))),
        }
        Ok(())
    }

    /// Lets go what could not leave at once; gives the socket up when it takes nothing for `timeout`.
    pub(super) fn flush(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Result<(), End> {
        let written = |unsent: &Option<Box<Unsent>>| unsent.as_ref().map(|u| u.frame.written());
        let before = written(&self.unsent);
        if let Poll::Ready(result) = self.poll_flush(cx) {
            return result;
        }
        let has_moved = written(&self.unsent) != before;
        let Some(unsent) = &mut self.unsent else { return Ok(()) };
        if has_moved {
            unsent.given_up = None;
        }
        let given_up = unsent.given_up.get_or_insert_with(|| Box::pin(sleep(timeout)));
        match given_up.as_mut().poll(cx) {
            Poll::Ready(()) => Err(End::Close(CloseReason::TooSlow)),
            Poll::Pending => Ok(()),
        }
    }

    /// Writes until all has left.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        while let Some(unsent) = &mut self.unsent {
            match unsent.frame.write(&self.stream)? {
                Progress::Done => {
                    self.unsent = unsent.control.take().map(Unsent::new).map(Box::new);
                }
                Progress::Blocked => ready!(self.stream.poll_write_ready(cx))?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next message, of at most `len_max` bytes, or how the socket ended.
    pub(super) fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
        len_max: usize,
    ) -> Poll<Result<Message, End>> {
        loop {
            if let Some(message) = self.incoming.next(len_max)? {
                return Poll::Ready(Ok(message));
            }
            let mut space = [MaybeUninit::uninit(); READ_LEN];
            let mut read = ReadBuf::uninit(&mut space);
            ready!(self.poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Err(End::Peer));
            }
            self.incoming.push(read.filled());
        }
    }

    /// Reads and drops until the peer closes its side.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let mut space = [MaybeUninit::uninit(); READ_LEN];
        let mut read = ReadBuf::uninit(&mut space);
        loop {
            ready!(self.poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            read.clear();
        }
    }

    /// Reads once; nothing comes at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, read: &mut ReadBuf<'_>) -> Poll<Result<(), End>> {
        Pin::new(&mut self.stream).poll_read(cx, read).map_err(End::from)
    }

    /// Says that nothing follows.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        Pin::new(&mut self.stream).poll_shutdown(cx).map_err(End::from)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        debug!(%error, "a socket failed");
        Self::Peer
    }
}

impl From<Violation> for End {
    fn from(Violation { reason, rule }: Violation) -> Self {
        debug!(rule, "a peer broke a rule");
        Self::Close(reason)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn connected() -> (TcpStream, Wire) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        (client, Wire::new(stream, b"", Format::Json))
    }

    #[tokio::test]
    async fn what_the_socket_takes_at_once_is_not_kept() {
        let (mut client, mut wire) = connected().await;
        wire.send(Bytes::from_static(b"{}")).unwrap();
        wire.pong(b"1".to_vec()).unwrap();
        assert!(!wire.is_busy());
        let mut read = [0; 7];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"\x81\x02{}\x8a\x011");
    }

    /// Client messages are heard meanwhile; a Pong goes into no other frame, and only the latest Ping is answered.
    #[tokio::test]
    async fn a_pong_follows_the_frame_that_the_socket_has_not_taken_yet() {
        const LONG: usize = 16 * 1024 * 1024;
        let (mut client, mut wire) = connected().await;
        wire.send(vec![b'x'; LONG].into()).unwrap();
        assert!(wire.is_busy());
        client.write_all(b"\x89\x81\0\0\0\x001\x89\x81\0\0\0\x002").await.unwrap();
        for _ in 0..2 {
            match poll_fn(|cx| wire.poll_message(cx, LONG)).await {
                Ok(Message::Ping(payload)) => wire.pong(payload).unwrap(),
                other => panic!("a Ping was due, not {other:?}"),
            }
        }
        let mut read = vec![0; 10 + LONG + 3];
        let (flushed, got) =
            tokio::join!(poll_fn(|cx| wire.poll_flush(cx)), client.read_exact(&mut read));
        flushed.unwrap();
        got.unwrap();
        assert!(!wire.is_busy());
        assert_eq!(&read[10 + LONG..], b"\x8a\x012");
    }
}
