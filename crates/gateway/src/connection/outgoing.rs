//! Frames on their way to a peer: written straight from where they were encoded, so that a frame for ten thousand
//! watchers exists once. What a socket has not taken yet is all that is kept, and a socket that takes all keeps nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;

use presence_protocol::{CloseReason, Format};
use tokio::time::Sleep;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::socket::Socket;

/// The longest head of a frame that is not masked.
const HEAD_LEN_MAX: usize = 10;

/// A frame, and how much of it has left.
pub(super) struct Frame {
    head: [u8; HEAD_LEN_MAX],
    head_len: u8,
    payload: Bytes,
    written: usize,
}

/// What the socket has not taken yet.
pub(super) struct Unsent {
    pub(super) frame: Frame,
    /// A control frame that follows. A later one replaces it: only the latest Ping must be answered, and a close frame
    /// is the last.
    pub(super) control: Option<Frame>,
    /// When the peer is given up. A timer that exists only while it takes nothing.
    pub(super) given_up: Option<Pin<Box<Sleep>>>,
}

/// Whether a frame has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// The socket takes no more for now.
    Blocked,
}

impl Frame {
    /// A message of the protocol.
    pub(super) fn message(format: Format, payload: Bytes) -> Self {
        let data = match format {
            Format::Json => Data::Text,
            Format::MsgPack => Data::Binary,
        };
        Self::new(OpCode::Data(data), payload)
    }

    pub(super) fn ping() -> Self {
        Self::new(OpCode::Control(Control::Ping), Bytes::new())
    }

    /// The answer to a Ping with this payload.
    pub(super) fn pong(payload: Vec<u8>) -> Self {
        Self::new(OpCode::Control(Control::Pong), payload.into())
    }

    /// A close frame that says why.
    pub(super) fn close(reason: CloseReason) -> Self {
        let payload = [&reason.code().to_be_bytes(), reason.text().as_bytes()].concat();
        Self::close_with(payload)
    }

    /// A close frame with this payload.
    pub(super) fn close_with(payload: Vec<u8>) -> Self {
        Self::new(OpCode::Control(Control::Close), payload.into())
    }

    fn new(opcode: OpCode, payload: Bytes) -> Self {
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let length = payload.len() as u64;
        let mut head = [0; HEAD_LEN_MAX];
        header.format(length, &mut head.as_mut_slice()).expect("ten bytes hold any such head");
        Self { head, head_len: header.len(length) as u8, payload, written: 0 }
    }

    /// How many bytes have left.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Writes what the socket takes, without waiting.
    pub(super) fn write(&mut self, socket: &mut Socket) -> io::Result<Progress> {
        let head_len = usize::from(self.head_len);
        while self.written < head_len + self.payload.len() {
            let head = &self.head[self.written.min(head_len)..head_len];
            let payload = &self.payload[self.written.saturating_sub(head_len)..];
            match socket.try_write_vectored(&[IoSlice::new(head), IoSlice::new(payload)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Progress::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
        match socket.try_flush() {
            Ok(()) => Ok(Progress::Done),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Progress::Blocked),
            Err(error) => Err(error),
        }
    }
}

impl Unsent {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame, control: None, given_up: None }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::ready;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Frames of all three forms of head, written to a socket that takes them in parts.
    #[tokio::test]
    async fn a_frame_arrives_whole_whatever_its_length() {
        for length in [0, 1, 125, 126, 65_535, 65_536, 4_000_000] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = Socket::Plain(stream);
            let payload: Bytes = (0..length).map(|at| at as u8).collect::<Vec<u8>>().into();
            let mut frame = Frame::message(Format::MsgPack, payload.clone());
            let total = usize::from(frame.head_len) + payload.len();
            let write = poll_fn(|cx| {
                while frame.write(&mut socket).unwrap() == Progress::Blocked {
                    ready!(socket.poll_write_ready(cx)).unwrap();
                }
                std::task::Poll::Ready(())
            });
            let mut read = vec![0; total];
            let ((), got) = tokio::join!(write, client.read_exact(&mut read));
            got.unwrap();
            assert_eq!(read[0], 0x82, "final, binary");
            assert_eq!(&read[total - payload.len()..], &payload[..]);
        }
    }
}
