//! WebSocket frames as a client writes and reads them, straight in the worker's buffers. Pure.
//!
//! The gateway sends each message in one frame, so a fragment is taken for a fault.

use std::io::Cursor;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::failure::Failure;

/// A snapshot of the longest watch list there may be fits well.
pub(crate) const MESSAGE_LEN_MAX: usize = 1 << 20;

/// A frame at the beginning of what was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Incoming<'a> {
    pub(crate) kind: Kind,
    pub(crate) payload: &'a [u8],
    /// With its header.
    pub(crate) len: usize,
}

/// What can be sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Binary,
    Ping,
    Pong,
    Close,
}

impl Kind {
    fn opcode(self) -> OpCode {
        match self {
            Self::Text => OpCode::Data(Data::Text),
            Self::Binary => OpCode::Data(Data::Binary),
            Self::Ping => OpCode::Control(Control::Ping),
            Self::Pong => OpCode::Control(Control::Pong),
            Self::Close => OpCode::Control(Control::Close),
        }
    }

    fn of(opcode: OpCode) -> Option<Self> {
        let all = [Self::Text, Self::Binary, Self::Ping, Self::Pong, Self::Close];
        all.into_iter().find(|kind| kind.opcode() == opcode)
    }
}

/// The first frame of `bytes`; none while it is not whole.
pub(crate) fn next(bytes: &[u8]) -> Result<Option<Incoming<'_>>, Failure> {
    let mut cursor = Cursor::new(bytes);
    let Some((header, payload_len)) = FrameHeader::parse(&mut cursor)? else { return Ok(None) };
    let fault = |text: &str| Err(Failure::WebSocket(text.to_owned()));
    if payload_len > MESSAGE_LEN_MAX as u64 {
        return fault("a message longer than any snapshot");
    }
    let kind = Kind::of(header.opcode);
    let Some(kind) = kind.filter(|_| header.is_final) else { return fault("a fragment") };
    if header.mask.is_some() || header.rsv1 || header.rsv2 || header.rsv3 {
        return fault("a frame that a server does not send");
    }
    let begin = cursor.position() as usize;
    let len = begin + payload_len as usize;
    Ok(bytes.get(begin..len).map(|payload| Incoming { kind, payload, len }))
}

/// Appends a frame, masked as a client must.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, payload: &[u8], mask: [u8; 4]) {
    let (is_final, opcode) = (true, kind.opcode());
    let mask_bytes = mask;
    let header =
        FrameHeader { is_final, rsv1: false, rsv2: false, rsv3: false, opcode, mask: Some(mask) };
    header.format(payload.len() as u64, out).expect("a vector takes any bytes");
    out.extend(payload.iter().zip(mask_bytes.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

/// The code in a close frame.
pub(crate) fn close_code(payload: &[u8]) -> Option<u16> {
    payload.first_chunk().map(|code| u16::from_be_bytes(*code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80 | opcode];
        match payload.len() {
            len @ 0..126 => bytes.push(len as u8),
            len => {
                bytes.push(126);
                bytes.extend((len as u16).to_be_bytes());
            }
        }
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn frames_are_read_one_by_one_and_only_when_whole() {
        let long = vec![7; 300];
        let first = served(2, &long);
        let bytes = [first.clone(), served(10, b"12345678"), served(8, &[0x0f, 0xa4])].concat();
        for cut in 0..first.len() {
            assert_eq!(next(&bytes[..cut]).unwrap(), None, "{cut}");
        }
        let frame = next(&bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.payload, frame.len), (Kind::Binary, &long[..], first.len()));
        let bytes = &bytes[frame.len..];
        let frame = next(bytes).unwrap().unwrap();
        assert_eq!((frame.kind, frame.payload), (Kind::Pong, &b"12345678"[..]));
        let frame = next(&bytes[frame.len..]).unwrap().unwrap();
        assert_eq!((frame.kind, close_code(frame.payload)), (Kind::Close, Some(4004)));
        assert_eq!(close_code(&[]), None);
    }

    #[test]
    fn what_no_gateway_sends_is_a_fault() {
        let fragment = [0x02, 0];
        let masked = [0x82, 0x80, 1, 2, 3, 4];
        let reserved = [0x83, 0];
        let huge = [0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0];
        for bytes in [&fragment[..], &masked, &reserved, &huge] {
            assert!(next(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_put_is_masked_and_has_the_right_header() {
        let mut out = Vec::new();
        put(&mut out, Kind::Ping, &[1, 2, 3, 4, 5], [9, 8, 7, 6]);
        assert_eq!(out, [0x89, 0x85, 9, 8, 7, 6, 1 ^ 9, 2 ^ 8, 3 ^ 7, 4 ^ 6, 5 ^ 9]);
        out.clear();
        put(&mut out, Kind::Binary, &vec![0; 70_000], [0; 4]);
        assert_eq!(out.len(), 70_000 + 14);
        assert_eq!(out[1], 0x80 | 127);
    }
}
