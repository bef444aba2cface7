//! How a session wants its user shown. Merging the wishes of several sessions is the store's task.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::{checked_deserialize, shared_text};

/// The longest status text, in bytes.
pub const STATUS_TEXT_LEN_MAX: usize = 256;

/// The four ways to be shown while connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Show {
    /// Plainly online. Implied in a state, so never written there.
    #[default]
    Online,
    /// Online, but not at the device.
    Away,
    /// Online, but not to be disturbed.
    Busy,
    /// Looks exactly like offline to everybody else, so it never appears in a state either.
    Invisible,
}

impl Show {
    /// Every way there is, in the order of the contract.
    pub const ALL: [Self; 4] = [Self::Online, Self::Away, Self::Busy, Self::Invisible];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Away => "away",
            Self::Busy => "busy",
            Self::Invisible => "invisible",
        }
    }

    /// The inverse of [`Show::as_str`]; none for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|show| show.as_str() == word)
    }

    /// Whether a state spells it out: `online` is implied there and `invisible` must not leak.
    pub fn is_written_in_states(self) -> bool {
        matches!(self, Self::Away | Self::Busy)
    }
}

/// A line a user shows beside the dot: at most 256 bytes, no control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatusText(Arc<str>);

/// Why a text is no [`StatusText`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StatusTextError {
    /// It has more bytes than [`STATUS_TEXT_LEN_MAX`].
    #[error("a status text is at most {STATUS_TEXT_LEN_MAX} bytes, this one has {len}")]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// It holds a control character, such as a line break.
    #[error("a status text has no control characters, this one has U+{:04X}", *found as u32)]
    ControlCharacter {
        /// The first one.
        found: char,
    },
}

impl StatusText {
    /// Checks length and characters. The empty text is allowed.
    pub fn new(text: &str) -> Result<Self, StatusTextError> {
        if text.len() > STATUS_TEXT_LEN_MAX {
            return Err(StatusTextError::TooLong { len: text.len() });
        }
        match text.chars().find(|c| c.is_control()) {
            Some(found) => Err(StatusTextError::ControlCharacter { found }),
            None => Ok(Self(text.into())),
        }
    }
}

shared_text!(StatusText);
checked_deserialize!(StatusText);

/// What a session set: the way to be shown and a line beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How to be shown.
    pub show: Show,
    /// The line beside the dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<StatusText>,
}
