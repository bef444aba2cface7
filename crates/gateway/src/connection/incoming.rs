//! What a peer sends, cut into messages by the rules of RFC 6455. Pure: bytes go in, messages come out.
//!
//! Between two messages nothing is kept, not even a buffer: most sockets are silent most of the time. What has come of a
//! message that is not whole yet is kept in as many bytes as have come, twice that at most, whatever its head claims.
//!
//! It must not read or write, and must not know what a message says.

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::io::Cursor;

use presence_protocol::CloseReason;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

/// The longest payload of a Ping, a Pong or a close frame.
const CONTROL_LEN_MAX: u64 = 125;

/// What answers a close frame with a code that nobody may send.
const BAD_CLOSE_CODE: &[u8] = b"\x03\xeaProtocol violation";

/// What a peer sent, whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// UTF-8.
    Text(Vec<u8>),
    Binary(Vec<u8>),
    /// To be answered by a Pong with the same payload.
    Ping(Vec<u8>),
    Pong,
    /// A part of a message that goes on. It says nothing yet, but it is a frame like others.
    Fragment,
    /// To be answered by a close frame with this payload. Nothing may follow it.
    Close(Vec<u8>),
}

/// A rule that a peer broke: the socket closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: CloseReason,
    /// For the log.
    pub(super) rule: &'static str,
}

/// What has come and is not handed out yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Frames, the last of which may be cut off. Holds no memory when there are none.
    unread: Vec<u8>,
    /// Where in `unread` the next frame begins.
    next_at: usize,
    /// A message of which the last fragment has not come.
    unfinished: Option<Box<Unfinished>>,
}

/// A message that comes in fragments.
#[derive(Debug)]
struct Unfinished {
    kind: Kind,
    payload: Vec<u8>,
    /// How much of it is known to be UTF-8.
    valid_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
}

/// One frame, no longer masked.
struct Frame {
    opcode: OpCode,
    is_final: bool,
    payload: Vec<u8>,
}

impl Incoming {
    /// Takes what was read. Only after all messages before it were handed out.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.drain(..self.next_at);
        self.next_at = 0;
        self.unread.extend_from_slice(bytes);
    }

    /// The next message, of at most `len_max` bytes, or a part of one; none when more must be read.
    pub(super) fn next(&mut self, len_max: usize) -> Result<Option<Message>, Violation> {
        let Some(frame) = self.next_frame(len_max)? else { return Ok(None) };
        let Frame { opcode, is_final, payload } = frame;
        match opcode {
            OpCode::Control(Control::Close) => close(payload).map(Some),
            OpCode::Control(Control::Ping) => Ok(Some(Message::Ping(payload))),
            OpCode::Control(_) => Ok(Some(Message::Pong)),
            OpCode::Data(data) => {
                let mut message = self.message_of(data)?;
                message.add(payload, len_max)?;
                if is_final {
                    return message.finish().map(Some);
                }
                self.unfinished = Some(Box::new(message));
                Ok(Some(Message::Fragment))
            }
        }
    }

    fn next_frame(&mut self, len_max: usize) -> Result<Option<Frame>, Violation> {
        let mut rest = Cursor::new(&self.unread[self.next_at..]);
        let head = FrameHeader::parse(&mut rest);
        let head = head.map_err(|_| protocol("a frame has an opcode that there is"))?;
        let Some((header, payload_len)) = head else { return Ok(None) };
        let mask = check(&header, payload_len, len_max)?;
        let payload_at = self.next_at + rest.position() as usize;
        let end = payload_at + payload_len as usize;
        let Some(payload) = self.unread.get(payload_at..end) else { return Ok(None) };
        let payload = unmask(payload, mask);
        self.next_at = end;
        if end == self.unread.len() {
            self.unread = Vec::new();
            self.next_at = 0;
        }
        Ok(Some(Frame { opcode: header.opcode, is_final: header.is_final, payload }))
    }

    /// The message that a data frame begins or goes on with.
    fn message_of(&mut self, data: Data) -> Result<Unfinished, Violation> {
        match (data, self.unfinished.take()) {
            (Data::Continue, Some(message)) => Ok(*message),
            (Data::Continue, None) => Err(protocol("a fragment goes on with a message")),
            (_, Some(_)) => Err(protocol("a message ends before the next one begins")),
            (Data::Text, None) => Ok(Unfinished::new(Kind::Text)),
            (_, None) => Ok(Unfinished::new(Kind::Binary)),
        }
    }
}

impl Unfinished {
    fn new(kind: Kind) -> Self {
        Self { kind, payload: Vec::new(), valid_len: 0 }
    }

    fn add(&mut self, fragment: Vec<u8>, len_max: usize) -> Result<(), Violation> {
        if self.payload.len() + fragment.len() > len_max {
            return Err(TOO_LARGE);
        }
        if self.payload.is_empty() {
            self.payload = fragment;
        } else {
            self.payload.extend(fragment);
        }
        if self.kind == Kind::Binary {
            return Ok(());
        }
        match str::from_utf8(&self.payload[self.valid_len..]) {
            Ok(_) => self.valid_len = self.payload.len(),
            Err(error) if error.error_len().is_some() => return Err(NOT_UTF8),
            // A character may go on in the next fragment.
            Err(error) => self.valid_len += error.valid_up_to(),
        }
        Ok(())
    }

    fn finish(self) -> Result<Message, Violation> {
        match self.kind {
            Kind::Text if self.valid_len < self.payload.len() => Err(NOT_UTF8),
            Kind::Text => Ok(Message::Text(self.payload)),
            Kind::Binary => Ok(Message::Binary(self.payload)),
        }
    }
}

const TOO_LARGE: Violation =
    Violation { reason: CloseReason::TooLarge, rule: "a message is within the limit" };

const NOT_UTF8: Violation = Violation { reason: CloseReason::NotUtf8, rule: "text is UTF-8" };

const fn protocol(rule: &'static str) -> Violation {
    Violation { reason: CloseReason::ProtocolError, rule }
}

/// What a head alone can break, before its payload has come. Answers the mask.
fn check(header: &FrameHeader, payload_len: u64, len_max: usize) -> Result<[u8; 4], Violation> {
    if payload_len > len_max as u64 {
        return Err(TOO_LARGE);
    }
    if header.rsv1 || header.rsv2 || header.rsv3 {
        return Err(protocol("reserved bits are zero, since no extension was agreed on"));
    }
    if matches!(header.opcode, OpCode::Control(_)) {
        if !header.is_final {
            return Err(protocol("a control frame has no fragments"));
        }
        if payload_len > CONTROL_LEN_MAX {
            return Err(protocol("a control frame has at most 125 bytes"));
        }
    }
    header.mask.ok_or(protocol("a client masks its frames"))
}

fn unmask(payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    for four in payload.chunks_mut(mask.len()) {
        four.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
    payload
}

fn close(payload: Vec<u8>) -> Result<Message, Violation> {
    let (code, reason) = match payload.as_slice() {
        [] => return Ok(Message::Close(payload)),
        [_] => return Err(protocol("a close frame has a whole code or none")),
        [high, low, reason @ ..] => (CloseCode::from(u16::from_be_bytes([*high, *low])), reason),
    };
    if str::from_utf8(reason).is_err() {
        return Err(NOT_UTF8);
    }
    let answer = if code.is_allowed() { payload } else { BAD_CLOSE_CODE.to_vec() };
    Ok(Message::Close(answer))
}
