//! Frames put together from states that were encoded once, so that a push to many watchers costs
//! one encoding per format and a copy per frame.
//!
//! The bytes are exactly those of [`encode_gateway`](crate::encode_gateway) for the whole message.

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::to_bytes;
use crate::format::Format;
use crate::ids::RequestId;
use crate::state::UserState;

/// Room for everything in a frame but its states: type, a numeric id, list header and brackets.
const OVERHEAD_LEN: usize = 64;

/// Room for each of many states at first: most are shorter.
const STATE_LEN: usize = 80;

/// States that were encoded by [`encode_state`], as they stand in a frame one after the other.
#[derive(Debug)]
pub struct States {
    format: Format,
    count: usize,
    bytes: Vec<u8>,
}

impl States {
    /// None yet, with room for about so many.
    pub fn with_room_for(count: usize, format: Format) -> Self {
        Self { format, count: 0, bytes: Vec::with_capacity(count * STATE_LEN) }
    }

    /// Adds one, encoded in this format.
    pub fn push(&mut self, state: &[u8]) {
        if self.count > 0 && self.format == Format::Json {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(state);
        self.count += 1;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// One state on its own, for [`States`].
pub fn encode_state(format: Format, state: &UserState) -> Bytes {
    to_bytes(format, state)
}

/// A `presence` message of these states.
pub fn presence_frame(states: &States) -> Bytes {
    let mut frame = frame_with_room_for(states, 0);
    match states.format {
        Format::Json => frame.put_slice(br#"{"type":"presence""#),
        Format::MsgPack => frame.put_slice(b"\x82\xa4type\xa8presence"),
    }
    put_users(&mut frame, states);
    frame.freeze()
}

/// A `presence` message of one state, and the state on its own as by [`encode_state`]: both are the same bytes in memory,
/// and no more than those, since they are kept for as long as the state lasts.
pub fn presence_frame_of_one(format: Format, state: &UserState) -> (Bytes, Bytes) {
    let fragment = encode_state(format, state);
    let mut states = States::with_room_for(1, format);
    states.push(&fragment);
    let frame = Bytes::copy_from_slice(&presence_frame(&states));
    let end = frame.len() - closing(format).len();
    let fragment = frame.slice(end - fragment.len()..end);
    (frame, fragment)
}

/// A `snapshot` message of these states.
pub fn snapshot_frame(id: Option<&RequestId>, states: &States) -> Bytes {
    let format = states.format;
    let id = id.map(|id| to_bytes(format, id));
    let mut frame = frame_with_room_for(states, id.as_ref().map_or(0, Bytes::len));
    match (format, &id) {
        (Format::Json, None) => frame.put_slice(br#"{"type":"snapshot""#),
        (Format::Json, Some(_)) => frame.put_slice(br#"{"type":"snapshot","id":"#),
        (Format::MsgPack, None) => frame.put_slice(b"\x82\xa4type\xa8snapshot"),
        (Format::MsgPack, Some(_)) => frame.put_slice(b"\x83\xa4type\xa8snapshot\xa2id"),
    }
    frame.put_slice(id.as_deref().unwrap_or_default());
    put_users(&mut frame, states);
    frame.freeze()
}

fn frame_with_room_for(states: &States, id_len: usize) -> BytesMut {
    BytesMut::with_capacity(OVERHEAD_LEN + id_len + states.bytes.len())
}

/// The last field, `users`, and whatever closes the message after it.
fn put_users(frame: &mut BytesMut, states: &States) {
    match states.format {
        Format::Json => frame.put_slice(br#","users":["#),
        Format::MsgPack => {
            frame.put_slice(b"\xa5users");
            put_array_header(frame, states.count);
        }
    }
    frame.put_slice(&states.bytes);
    frame.put_slice(closing(states.format));
}

/// What comes after the last state.
const fn closing(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"]}",
        Format::MsgPack => b"",
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
