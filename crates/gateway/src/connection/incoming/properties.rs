//! Whatever a peer sends, and however it is cut: the messages that the library which clients use makes of it, and the same
//! breach of the rules. `PROPTEST_CASES` says how often; `make fuzz` tries for long.

use std::io::{self, Cursor, Read, Write};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as TheirMessage};

use super::*;

const LEN_MAX: usize = 300;

const CLOSE_HEAD: u8 = 0x88;

/// What some bytes were taken for.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    messages: Vec<Message>,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    MoreMustCome,
    Closed,
    Broken(CloseReason),
}

fn heard_by_us(bytes: &[u8], cuts: &[Index]) -> Heard {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let (mut incoming, mut messages, mut begin) = (Incoming::default(), Vec::new(), 0);
    for end in ends {
        incoming.push(&bytes[begin..end]);
        begin = end;
        loop {
            match incoming.next(LEN_MAX) {
                // The library says nothing of the parts of a message.
                Ok(Some(Message::Fragment)) => {}
                Ok(Some(message)) => {
                    let is_last = matches!(message, Message::Close(_));
                    messages.push(message);
                    if is_last {
                        return Heard { messages, end: End::Closed };
                    }
                }
                Ok(None) => break,
                Err(breach) => return Heard { messages, end: End::Broken(breach.reason) },
            }
        }
    }
    Heard { messages, end: End::MoreMustCome }
}

/// A socket on which all has come already.
struct Tape {
    read: Cursor<Vec<u8>>,
    written: Vec<u8>,
}

impl Read for Tape {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read.read(buffer)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn heard_by_the_library(bytes: &[u8]) -> Heard {
    let config = WebSocketConfig::default()
        .read_buffer_size(64)
        .max_message_size(Some(LEN_MAX))
        .max_frame_size(Some(LEN_MAX));
    let tape = Tape { read: Cursor::new(bytes.to_vec()), written: Vec::new() };
    let mut socket = WebSocket::from_raw_socket(tape, Role::Server, Some(config));
    let mut messages = Vec::new();
    let end = loop {
        let message = match socket.read() {
            Ok(TheirMessage::Text(text)) => Message::Text(text.as_bytes().to_vec()),
            Ok(TheirMessage::Binary(bytes)) => Message::Binary(bytes.to_vec()),
            Ok(TheirMessage::Ping(bytes)) => Message::Ping(bytes.to_vec()),
            Ok(TheirMessage::Pong(_)) => Message::Pong,
            Ok(TheirMessage::Close(_)) => {
                let _ = socket.flush();
                messages.push(Message::Close(answer_in(&socket.get_ref().written)));
                break End::Closed;
            }
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                break End::MoreMustCome;
            }
            Err(Error::Capacity(_)) => break End::Broken(CloseReason::TooLarge),
            Err(Error::Utf8(_)) => break End::Broken(CloseReason::NotUtf8),
            Err(Error::Protocol(_)) => break End::Broken(CloseReason::ProtocolError),
            other => panic!("not expected: {other:?}"),
        };
        messages.push(message);
    };
    Heard { messages, end }
}

/// What the close frame says among short frames that a server sent.
fn answer_in(mut frames: &[u8]) -> Vec<u8> {
    while let [head, len, rest @ ..] = frames {
        let (payload, next) = rest.split_at(usize::from(*len));
        if *head == CLOSE_HEAD {
            return payload.to_vec();
        }
        frames = next;
    }
    panic!("a close frame is answered by one")
}

/// Mostly what keeps the rules, so that messages come about.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![30 => prop::sample::select(vec![0_u8, 1, 2, 9, 10]), 1 => 0_u8..16];
    let opcode = prop_oneof![20 => opcode, 1 => Just(8)];
    let is_final = prop::bool::weighted(0.7);
    let reserved = prop_oneof![60 => Just(0_u8), 1 => 0_u8..8];
    let mask = prop::option::weighted(0.98, any::<[u8; 4]>());
    let is_lengthy = prop::bool::weighted(0.1);
    (opcode, is_final, reserved, mask, is_lengthy).prop_flat_map(
        |(opcode, is_final, reserved, mask, is_lengthy)| {
            payload(opcode).prop_map(move |payload| {
                let first = u8::from(is_final) << 7 | reserved << 4 | opcode;
                encode(first, mask, is_lengthy, &payload)
            })
        },
    )
}

fn payload(opcode: u8) -> BoxedStrategy<Vec<u8>> {
    let text = || "\\PC{0,20}".prop_map(String::into_bytes);
    let bytes = vec(any::<u8>(), 0..20);
    let long =
        prop_oneof![Just(125_usize), Just(126), Just(LEN_MAX), Just(LEN_MAX + 1), 0..400_usize];
    let long = long.prop_map(|len| vec![b'a'; len]);
    let any_kind = prop_oneof![6 => text(), 2 => bytes, 1 => long];
    if opcode != 8 {
        return any_kind.boxed();
    }
    let code = prop_oneof![Just(1000_u16), 990_u16..1020, any::<u16>()];
    let close = (code, text()).prop_map(|(code, why)| [&code.to_be_bytes()[..], &why].concat());
    prop_oneof![8 => close, 1 => any_kind].boxed()
}

/// A frame whose length may be written in more bytes than it needs.
fn encode(first: u8, mask: Option<[u8; 4]>, is_lengthy: bool, payload: &[u8]) -> Vec<u8> {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = match payload.len() {
        len @ 0..126 if !is_lengthy => vec![first, masked + len as u8],
        len => [&[first, masked + 126], &(len as u16).to_be_bytes()[..]].concat(),
    };
    frame.extend(mask.into_iter().flatten());
    let key = mask.unwrap_or_default().into_iter().cycle();
    frame.extend(payload.iter().zip(key).map(|(byte, key)| byte ^ key));
    frame
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..12)
}

proptest! {
    #[test]
    fn whole_frames_are_taken_for_what_the_library_takes_them_for(
        frames in vec(frame(), 0..12),
        cuts in cuts(),
    ) {
        let bytes = frames.concat();
        prop_assert_eq!(heard_by_us(&bytes, &cuts), heard_by_the_library(&bytes));
    }

    /// A head that breaks a rule is enough here, where the library waits for the rest of the frame.
    #[test]
    fn bytes_that_were_changed_on_the_way_are_taken_alike_too(
        frames in vec(frame(), 1..8),
        changes in vec((any::<Index>(), any::<u8>()), 0..4),
        len in any::<Index>(),
        cuts in cuts(),
    ) {
        let mut bytes = frames.concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(len.index(bytes.len() + 1));
        let (ours, theirs) = (heard_by_us(&bytes, &cuts), heard_by_the_library(&bytes));
        if theirs.end == End::MoreMustCome && matches!(ours.end, End::Broken(_)) {
            prop_assert_eq!(ours.messages, theirs.messages);
        } else {
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn random_bytes_are_taken_alike_and_no_more_is_kept_than_came(
        bytes in vec(any::<u8>(), 0..600),
        cuts in cuts(),
    ) {
        let (ours, theirs) = (heard_by_us(&bytes, &cuts), heard_by_the_library(&bytes));
        prop_assert_eq!(ours.messages, theirs.messages);
        let mut incoming = Incoming::default();
        incoming.push(&bytes);
        while let Ok(Some(_)) = incoming.next(LEN_MAX) {}
        prop_assert!(incoming.unread.capacity() <= bytes.len().max(8));
    }
}
