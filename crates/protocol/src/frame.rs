//! Frames put together from states that were encoded once, so that a push to many watchers costs
//! one encoding per format and a copy per frame.
//!
//! The bytes are exactly those of [`encode_gateway`](crate::encode_gateway) for the whole message.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::to_bytes;
use crate::format::Format;
use crate::ids::RequestId;
use crate::state::UserState;

/// Room for everything in a frame but its fragments: type, a numeric id, list header and brackets.
const OVERHEAD_LEN: usize = 64;

/// One state on its own: a fragment for [`presence_frame`] and [`snapshot_frame`].
pub fn encode_state(format: Format, state: &UserState) -> Bytes {
    to_bytes(format, state)
}

/// A `presence` message of states encoded by [`encode_state`] in the same format.
pub fn presence_frame(format: Format, fragments: &[Bytes]) -> Bytes {
    let mut frame = frame_with_room_for(fragments, 0);
    match format {
        Format::Json => frame.put_slice(br#"{"type":"presence""#),
        Format::MsgPack => frame.put_slice(b"\x82\xa4type\xa8presence"),
    }
    put_users(format, &mut frame, fragments);
    frame.freeze()
}

/// A `presence` message of one state, and the state on its own as by [`encode_state`]: both are the same bytes in memory,
/// and no more than those, since they are kept for as long as the state lasts.
pub fn presence_frame_of_one(format: Format, state: &UserState) -> (Bytes, Bytes) {
    let fragment = encode_state(format, state);
    let frame = presence_frame(format, std::slice::from_ref(&fragment));
    let frame = Bytes::copy_from_slice(&frame);
    let end = frame.len() - closing(format).len();
    let fragment = frame.slice(end - fragment.len()..end);
    (frame, fragment)
}

/// A `snapshot` message of states encoded by [`encode_state`] in the same format.
pub fn snapshot_frame(format: Format, id: Option<&RequestId>, fragments: &[Bytes]) -> Bytes {
    let id = id.map(|id| to_bytes(format, id));
    let mut frame = frame_with_room_for(fragments, id.as_ref().map_or(0, Bytes::len));
    match (format, &id) {
        (Format::Json, None) => frame.put_slice(br#"{"type":"snapshot""#),
        (Format::Json, Some(_)) => frame.put_slice(br#"{"type":"snapshot","id":"#),
        (Format::MsgPack, None) => frame.put_slice(b"\x82\xa4type\xa8snapshot"),
        (Format::MsgPack, Some(_)) => frame.put_slice(b"\x83\xa4type\xa8snapshot\xa2id"),
    }
    frame.put_slice(id.as_deref().unwrap_or_default());
    put_users(format, &mut frame, fragments);
    frame.freeze()
}

fn frame_with_room_for(fragments: &[Bytes], id_len: usize) -> BytesMut {
    let states_len: usize = fragments.iter().map(|fragment| fragment.len() + 1).sum();
    BytesMut::with_capacity(OVERHEAD_LEN + id_len + states_len)
}

/// The last field, `users`, and whatever closes the message after it.
fn put_users(format: Format, frame: &mut BytesMut, fragments: &[Bytes]) {
    match format {
        Format::Json => put_users_json(frame, fragments),
        Format::MsgPack => put_users_msgpack(frame, fragments),
    }
}

fn put_users_json(frame: &mut BytesMut, fragments: &[Bytes]) {
    frame.put_slice(br#","users":["#);
    for (index, fragment) in fragments.iter().enumerate() {
        if index > 0 {
            frame.put_u8(b',');
        }
        frame.put_slice(fragment);
    }
    frame.put_slice(closing(Format::Json));
}

/// What comes after the last state.
const fn closing(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"]}",
        Format::MsgPack => b"",
    }
}

fn put_users_msgpack(frame: &mut BytesMut, fragments: &[Bytes]) {
    frame.put_slice(b"\xa5users");
    put_array_header(frame, fragments.len());
    for fragment in fragments {
        frame.put_slice(fragment);
    }
}

/// The shortest of `MessagePack`'s three array headers, as every encoder writes it.
fn put_array_header(frame: &mut BytesMut, len: usize) {
    if len < 16 {
        frame.put_u8(0x90 | len as u8);
    } else if let Ok(len) = u16::try_from(len) {
        frame.put_u8(0xdc);
        frame.put_u16(len);
    } else {
        frame.put_u8(0xdd);
        frame.put_u32(len as u32);
    }
}
