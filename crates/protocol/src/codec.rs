//! Messages to bytes and back, in both formats.
//!
//! Reading goes in two steps: `value` turns a frame into a tree, the only place where the formats
//! differ, then `client` or `gateway` picks the fields of the one message that its `type` names.
//! The two messages that hold states, nearly all that a client ever reads, are tried first without a tree, by `states`.
//! Whatever a peer sends, reading neither panics nor takes more memory than a fixed multiple of the
//! frame's length, and a refusal says what was wrong and what would be right.

mod client;
mod fields;
mod gateway;
mod kinds;
mod states;
mod value;

use bytes::Bytes;
use serde::Serialize;
use thiserror::Error;

use crate::format::Format;
use crate::ids::RequestId;
use crate::message::{ClientMessage, ErrorCode, ErrorMessage, GatewayMessage};
use fields::{Fields, Wrong, clip};
use value::Map;

pub use value::NESTING_MAX;

/// The longest [`DecodeError::message`], in bytes.
pub const DECODE_MESSAGE_LEN_MAX: usize = 300;

/// Why a frame is no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct DecodeError {
    /// `unknown_type`, `bad_user_id`, or `bad_message` for all else.
    pub code: ErrorCode,
    /// Which field of which message was wrong and what would be right, in one sentence of at most
    /// [`DECODE_MESSAGE_LEN_MAX`] bytes that quotes little of the frame.
    pub message: String,
    /// The request's own id, whenever it could be read.
    pub id: Option<RequestId>,
    /// Whether its `type` could be read, and is `hello`.
    pub is_hello: bool,
}

impl From<DecodeError> for ErrorMessage {
    fn from(error: DecodeError) -> Self {
        Self { code: error.code, message: error.message, id: error.id, users: Vec::new() }
    }
}

/// Reads what a client sent.
pub fn decode_client(format: Format, frame: &[u8]) -> Result<ClientMessage, DecodeError> {
    decode(format, frame, client::read)
}

/// Reads what a gateway sent.
pub fn decode_gateway(format: Format, frame: &[u8]) -> Result<GatewayMessage, DecodeError> {
    states::read(format, frame).map_or_else(|| decode(format, frame, gateway::read), Ok)
}

/// Writes a client's message.
pub fn encode_client(format: Format, message: &ClientMessage) -> Bytes {
    to_bytes(format, message)
}

/// Writes a gateway's message.
pub fn encode_gateway(format: Format, message: &GatewayMessage) -> Bytes {
    to_bytes(format, message)
}

/// Writes any part of a message; for `MessagePack` in the named form, with the smallest integers.
pub(crate) fn to_bytes<T: Serialize>(format: Format, part: &T) -> Bytes {
    const INFALLIBLE: &str = "texts, integers, lists and maps with text keys always serialise";
    match format {
        Format::Json => serde_json::to_vec(part).expect(INFALLIBLE).into(),
        Format::MsgPack => rmp_serde::to_vec_named(part).expect(INFALLIBLE).into(),
    }
}

/// Reads one message's fields, given its `type`.
type ReadMessage<M> = fn(&str, &Fields) -> Result<M, Wrong>;

fn decode<M>(format: Format, frame: &[u8], read: ReadMessage<M>) -> Result<M, DecodeError> {
    let mut map = Map::new();
    let parsed = value::parse(format, frame, &mut map);
    let fields = Fields::of(&map);
    let message = match parsed {
        Ok(()) => read_typed(&fields, read),
        Err(fault) => Err(Wrong::new(ErrorCode::BadMessage, fault)),
    };
    message.map_err(|wrong| refusal(&wrong, &fields))
}

fn read_typed<M>(fields: &Fields, read: ReadMessage<M>) -> Result<M, Wrong> {
    let kind = fields.message_type()?;
    read(kind, fields).map_err(|wrong| match wrong.code {
        ErrorCode::UnknownType => wrong,
        _ => wrong.of_message(kind),
    })
}

fn refusal(wrong: &Wrong, fields: &Fields) -> DecodeError {
    DecodeError {
        code: wrong.code,
        message: clip(&wrong.to_string(), DECODE_MESSAGE_LEN_MAX).to_owned(),
        id: fields.optional("id").unwrap_or(None),
        is_hello: fields.message_type().is_ok_and(|kind| kind == "hello"),
    }
}
