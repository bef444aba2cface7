//! What a watcher knows of one user: the entry of `snapshot`, `presence` and the HTTP answers.

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{Device, UserId};
use crate::status::{Show, StatusText};

/// The dot: on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// At least one session lives.
    Online,
    /// None does, or the user is invisible.
    Offline,
}

impl Availability {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
        }
    }

    /// The inverse of [`Availability::as_str`]; none for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Online, Self::Offline].into_iter().find(|state| state.as_str() == word)
    }
}

/// One user's state at one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserState {
    /// Whose state it is.
    pub user: UserId,
    /// The dot.
    pub state: Availability,
    /// Below 2^53 and only grows for a user; 0 when the user was never seen.
    pub version: u64,
    /// When this state began, in ms since the Unix epoch by the store's clock.
    /// For offline the last heartbeat; none when the user was never seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Away or busy. Online is implied and invisible is secret: neither is written nor read.
    #[serde(default, skip_serializing_if = "is_not_written", deserialize_with = "written_show")]
    pub show: Option<Show>,
    /// The line beside the dot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<StatusText>,
    /// The distinct labels of the user's living sessions, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

impl UserState {
    /// The state of a user that the store has never heard of.
    pub fn never_seen(user: UserId) -> Self {
        Self {
            user,
            state: Availability::Offline,
            version: 0,
            since: None,
            show: None,
            text: None,
            devices: Vec::new(),
        }
    }
}

#[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_not_written(show: &Option<Show>) -> bool {
    !show.is_some_and(Show::is_written_in_states)
}

fn written_show<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Show>, D::Error> {
    let show = Option::<Show>::deserialize(from)?;
    Ok(show.filter(|show| show.is_written_in_states()))
}
