//! Each rule of RFC 6455 that a peer can break, as a row; and that it does not matter how the bytes are cut.

use super::*;

const LEN_MAX: usize = 1000;

const FINAL: u8 = 0x80;
const RESERVED_BITS: [u8; 3] = [0x40, 0x20, 0x10];

const CONTINUE: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A frame as a client sends it, masked.
fn frame(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let (payload, mask) = (payload.as_ref(), [0x37, 0xfa, 0x21, 0x3d]);
    let mut frame = vec![first];
    match payload.len() {
        len @ ..126 => frame.push(0x80 + len as u8),
        len @ 126..0x1_0000 => {
            frame.push(0x80 + 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 + 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// All messages, or the first violation after some.
fn messages(incoming: &mut Incoming) -> (Vec<Message>, Option<CloseReason>) {
    let mut messages = Vec::new();
    loop {
        match incoming.next(LEN_MAX) {
            Ok(Some(Message::Fragment)) => {}
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, None),
            Err(violation) => return (messages, Some(violation.reason)),
        }
    }
}

fn read(bytes: &[u8]) -> (Vec<Message>, Option<CloseReason>) {
    let mut incoming = Incoming::default();
    incoming.push(bytes);
    messages(&mut incoming)
}

#[test]
fn what_keeps_the_rules_is_handed_out() {
    let a = |len: usize| vec![b'a'; len];
    let table: [(Vec<Vec<u8>>, Vec<Message>); 13] = [
        (vec![frame(FINAL | TEXT, "")], vec![Message::Text(a(0))]),
        (vec![frame(FINAL | TEXT, "däm")], vec![Message::Text("däm".into())]),
        (vec![frame(FINAL | BINARY, a(125))], vec![Message::Binary(a(125))]),
        (vec![frame(FINAL | BINARY, a(126))], vec![Message::Binary(a(126))]),
        (vec![frame(FINAL | BINARY, a(LEN_MAX))], vec![Message::Binary(a(LEN_MAX))]),
        (vec![frame(FINAL | BINARY, b"\xff")], vec![Message::Binary(vec![0xff])]),
        (vec![frame(FINAL | PING, a(125))], vec![Message::Ping(a(125))]),
        (vec![frame(FINAL | PONG, "x")], vec![Message::Pong]),
        (vec![frame(FINAL | CLOSE, "")], vec![Message::Close(a(0))]),
        (
            vec![frame(FINAL | CLOSE, b"\x0f\xa0later")],
            vec![Message::Close(b"\x0f\xa0later".to_vec())],
        ),
        (
            vec![frame(FINAL | TEXT, "a"), frame(FINAL | BINARY, "b")],
            vec![Message::Text(b"a".to_vec()), Message::Binary(b"b".to_vec())],
        ),
        (
            vec![frame(TEXT, "a"), frame(CONTINUE, ""), frame(FINAL | CONTINUE, "b")],
            vec![Message::Text(b"ab".to_vec())],
        ),
        (
            vec![
                frame(BINARY, "a"),
                frame(FINAL | PING, "1"),
                frame(FINAL | PONG, ""),
                frame(FINAL | CONTINUE, "b"),
            ],
            vec![Message::Ping(b"1".to_vec()), Message::Pong, Message::Binary(b"ab".to_vec())],
        ),
    ];
    for (frames, expected) in table {
        assert_eq!(read(&frames.concat()), (expected, None), "{frames:?}");
    }
}

#[test]
fn whoever_breaks_a_rule_is_closed_with_its_code() {
    use CloseReason::{NotUtf8, ProtocolError, TooLarge};
    let table: [(&str, Vec<Vec<u8>>, CloseReason); 24] = [
        ("rsv1", vec![frame(FINAL | RESERVED_BITS[0] | TEXT, "{}")], ProtocolError),
        ("rsv2", vec![frame(FINAL | RESERVED_BITS[1] | TEXT, "{}")], ProtocolError),
        ("rsv3", vec![frame(FINAL | RESERVED_BITS[2] | PING, "")], ProtocolError),
        ("opcode 3", vec![frame(FINAL | 0x03, "")], ProtocolError),
        ("opcode 7", vec![frame(FINAL | 0x07, "")], ProtocolError),
        ("opcode 11", vec![frame(FINAL | 0x0b, "")], ProtocolError),
        ("opcode 15", vec![frame(FINAL | 0x0f, "")], ProtocolError),
        ("no mask", vec![b"\x81\x02{}".to_vec()], ProtocolError),
        ("no mask on a Ping", vec![b"\x89\x00".to_vec()], ProtocolError),
        ("a Ping in fragments", vec![frame(PING, "")], ProtocolError),
        ("a close in fragments", vec![frame(CLOSE, "")], ProtocolError),
        ("a long Ping", vec![frame(FINAL | PING, [0; 126])], ProtocolError),
        ("a long Pong", vec![frame(FINAL | PONG, [0; 126])], ProtocolError),
        ("a long close", vec![frame(FINAL | CLOSE, [b'a'; 126])], ProtocolError),
        ("half a close code", vec![frame(FINAL | CLOSE, "a")], ProtocolError),
        ("a close reason", vec![frame(FINAL | CLOSE, b"\x03\xe8\xff")], NotUtf8),
        ("a fragment of nothing", vec![frame(FINAL | CONTINUE, "")], ProtocolError),
        ("two at once", vec![frame(TEXT, "a"), frame(FINAL | TEXT, "b")], ProtocolError),
        ("no text", vec![frame(FINAL | TEXT, b"a\xff")], NotUtf8),
        ("half a character", vec![frame(FINAL | TEXT, b"a\xc3")], NotUtf8),
        ("no text, before it ends", vec![frame(TEXT, b"a\xff")], NotUtf8),
        (
            "half a character, in fragments",
            vec![frame(TEXT, b"a\xc3"), frame(FINAL | CONTINUE, b"b")],
            NotUtf8,
        ),
        ("a long frame", vec![frame(FINAL | BINARY, [0; LEN_MAX + 1])], TooLarge),
        (
            "a long message",
            vec![frame(BINARY, [0; LEN_MAX]), frame(FINAL | CONTINUE, [0; 1])],
            TooLarge,
        ),
    ];
    for (what, frames, reason) in table {
        assert_eq!(read(&frames.concat()), (vec![], Some(reason)), "{what}");
    }
}

#[test]
fn a_head_that_claims_too_much_is_enough_and_what_it_claims_is_not_set_aside() {
    let huge = [&[FINAL | BINARY, 0x80 + 127], &u64::MAX.to_be_bytes()[..], &[0; 4]].concat();
    assert_eq!(read(&huge), (vec![], Some(CloseReason::TooLarge)));
    let mut incoming = Incoming::default();
    incoming.push(&frame(FINAL | BINARY, [0; LEN_MAX])[..10]);
    assert_eq!(messages(&mut incoming), (vec![], None));
    assert!(incoming.unread.capacity() <= 20, "{}", incoming.unread.capacity());
}

#[test]
fn a_close_with_a_code_that_nobody_may_send_is_answered_by_a_protocol_error() {
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000] {
        let (answer, fault) = read(&frame(FINAL | CLOSE, code.to_be_bytes()));
        let [Message::Close(answer)] = &answer[..] else { panic!("{code}: {answer:?}") };
        assert_eq!((&answer[..2], fault), (&1002_u16.to_be_bytes()[..], None), "{code}");
    }
    for code in [1000_u16, 1001, 3000, 4001, 4999] {
        let (answer, _) = read(&frame(FINAL | CLOSE, code.to_be_bytes()));
        assert_eq!(answer, [Message::Close(code.to_be_bytes().to_vec())], "{code}");
    }
}

/// Frames of all kinds, cut anywhere and put together by chance: the same messages, and then not a byte is kept.
#[test]
fn it_does_not_matter_how_the_bytes_are_cut() {
    let bytes = [
        frame(FINAL | TEXT, "first"),
        frame(FINAL | PING, "still here"),
        frame(TEXT, b"in \xe2\x82"),
        frame(FINAL | PING, ""),
        frame(CONTINUE, b"\xac"),
        frame(FINAL | CONTINUE, " pieces"),
        frame(FINAL | BINARY, [7; 300]),
        frame(FINAL | PONG, ""),
    ]
    .concat();
    let whole = read(&bytes);
    assert_eq!(whole.0.len(), 6);
    assert_eq!(whole.0[3], Message::Text("in € pieces".into()));
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut incoming, mut rest, mut got) = (Incoming::default(), &bytes[..], Vec::new());
        while !rest.is_empty() {
            let cut_max = rest.len().min(1 << random.u8(..9));
            let (now, later) = rest.split_at(random.usize(1..=cut_max));
            incoming.push(now);
            got.extend(messages(&mut incoming).0);
            rest = later;
        }
        assert_eq!((got, None), whole, "seed {seed}");
        assert_eq!(incoming.unread.capacity(), 0, "seed {seed}");
        assert!(incoming.unfinished.is_none(), "seed {seed}");
    }
}

#[test]
fn a_part_of_a_message_is_told_as_such_even_an_empty_one() {
    let mut incoming = Incoming::default();
    incoming.push(&[frame(TEXT, ""), frame(CONTINUE, ""), frame(FINAL | CONTINUE, "")].concat());
    for expected in [Message::Fragment, Message::Fragment, Message::Text(vec![])] {
        assert_eq!(incoming.next(LEN_MAX).unwrap(), Some(expected));
    }
    assert_eq!(incoming.next(LEN_MAX).unwrap(), None);
}

/// The library that clients use agrees on what its frames say.
#[test]
fn frames_of_any_length_and_mask_are_read_as_the_library_writes_them() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    for len in [0, 1, 2, 3, 4, 5, 7, 124, 125, 126, 127, 255, 999, 1000] {
        let mut random = fastrand::Rng::with_seed(len as u64);
        let payload: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let header = FrameHeader {
            opcode: OpCode::Data(Data::Binary),
            mask: Some(std::array::from_fn(|_| random.u8(..))),
            ..FrameHeader::default()
        };
        let mut bytes = Vec::new();
        Frame::from_payload(header, payload.clone().into()).format(&mut bytes).unwrap();
        assert_eq!(read(&bytes), (vec![Message::Binary(payload)], None), "{len}");
    }
}
