//! The names things go by on the wire: users, sessions, devices and requests.
//!
//! All are cheap to clone. None is read from text that breaks its rule; a `SessionId` has no rule,
//! as it is opaque and made by the gateway.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::{checked_deserialize, shared_text};

/// The longest user id, in bytes.
pub const USER_ID_LEN_MAX: usize = 128;

/// The longest device label, in bytes.
pub const DEVICE_LEN_MAX: usize = 32;

/// The longest text used as a request id, in bytes.
pub const REQUEST_ID_LEN_MAX: usize = 64;

/// The largest integer on the wire, 2^53 - 1: the last one that a JavaScript number holds exactly.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// A person's stable id: any UTF-8 of 1 to 128 bytes, opaque to the gateway.
///
/// Comes from a token's `sub`, or from a client's watch list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserId(Arc<str>);

/// Why a text is no [`UserId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UserIdError {
    /// It has no bytes at all.
    #[error("a user id is 1 to {USER_ID_LEN_MAX} bytes, this one is empty")]
    Empty,
    /// It has more bytes than [`USER_ID_LEN_MAX`].
    #[error("a user id is 1 to {USER_ID_LEN_MAX} bytes, this one has {len}")]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
}

impl UserId {
    /// Checks the length; a user id has no other rule.
    pub fn new(id: &str) -> Result<Self, UserIdError> {
        match id.len() {
            0 => Err(UserIdError::Empty),
            1..=USER_ID_LEN_MAX => Ok(Self(id.into())),
            len => Err(UserIdError::TooLong { len }),
        }
    }
}

shared_text!(UserId);
checked_deserialize!(UserId);

/// One accepted socket of a user, named by the gateway that accepted it. Opaque to clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// Takes any text: the gateway makes these and nobody parses them.
    pub fn new(id: String) -> Self {
        Self(id.into())
    }
}

shared_text!(SessionId);

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::new)
    }
}

/// What kind of device a session runs on, such as `ios`: 1 to 32 bytes of `[a-z0-9_-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device(Arc<str>);

/// Why a text is no [`Device`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// It is empty or longer than [`DEVICE_LEN_MAX`].
    #[error("a device is 1 to {DEVICE_LEN_MAX} bytes, this one has {len}")]
    Length {
        /// How many bytes it has.
        len: usize,
    },
    /// It holds a character outside `[a-z0-9_-]`.
    #[error("a device is made of a-z, 0-9, _ and -, this one has {found:?}")]
    Character {
        /// The first character that is not allowed.
        found: char,
    },
}

impl Device {
    /// Checks length and characters.
    pub fn new(label: &str) -> Result<Self, DeviceError> {
        if !(1..=DEVICE_LEN_MAX).contains(&label.len()) {
            return Err(DeviceError::Length { len: label.len() });
        }
        let allowed = |c: &char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-');
        match label.chars().find(|c| !allowed(c)) {
            Some(found) => Err(DeviceError::Character { found }),
            None => Ok(Self(label.into())),
        }
    }
}

shared_text!(Device);
checked_deserialize!(Device);

/// A client's own name for a request, echoed in the answer exactly as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, try_from = "RawRequestId")]
pub enum RequestId {
    /// An integer from 0 to [`INTEGER_MAX`].
    Number(u64),
    /// A string of at most [`REQUEST_ID_LEN_MAX`] bytes.
    Text(Box<str>),
}

/// Why a value is no [`RequestId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RequestIdError {
    /// The number is above [`INTEGER_MAX`].
    #[error("a numeric id is an integer from 0 to 2^53-1, this one is {0}")]
    NumberTooLarge(u64),
    /// The text has more bytes than [`REQUEST_ID_LEN_MAX`].
    #[error("a text id is at most {REQUEST_ID_LEN_MAX} bytes, this one has {len}")]
    TextTooLong {
        /// How many bytes it has.
        len: usize,
    },
}

impl RequestId {
    /// A numeric id, if it is small enough for every client to read back.
    pub fn number(number: u64) -> Result<Self, RequestIdError> {
        match number {
            0..=INTEGER_MAX => Ok(Self::Number(number)),
            _ => Err(RequestIdError::NumberTooLarge(number)),
        }
    }

    /// A textual id, if it is short enough to echo.
    pub fn text(text: &str) -> Result<Self, RequestIdError> {
        match text.len() {
            0..=REQUEST_ID_LEN_MAX => Ok(Self::Text(text.into())),
            len => Err(RequestIdError::TextTooLong { len }),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A request id whose rule has not been checked yet.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawRequestId {
    Number(u64),
    Text(String),
}

impl TryFrom<RawRequestId> for RequestId {
    type Error = RequestIdError;

    fn try_from(raw: RawRequestId) -> Result<Self, RequestIdError> {
        match raw {
            RawRequestId::Number(number) => Self::number(number),
            RawRequestId::Text(text) => Self::text(&text),
        }
    }
}
