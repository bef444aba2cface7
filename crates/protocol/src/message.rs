//! The messages of both directions, as values. Their bytes are made and read in `codec`.

use std::fmt;

use serde::Serialize;

use crate::grant::Grant;
use crate::ids::{Device, RequestId, SessionId, UserId};
use crate::state::UserState;
use crate::status::{Show, Status, StatusText};

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// Who I am. Must be the first message; later ones bring a fresh token for the same user.
    Hello(Hello),
    /// Add these users to my watch list and tell me their states. May name a user twice.
    Watch {
        /// Whom to watch.
        users: Vec<UserId>,
        /// Echoed in the `snapshot`.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<RequestId>,
        /// Lets me see those of these users whom my token does not name.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
    },
    /// Remove these users from my watch list.
    Unwatch {
        /// Whom to forget.
        users: Vec<UserId>,
    },
    /// Tell me these users' states once.
    Query {
        /// Whom to look up.
        users: Vec<UserId>,
        /// Echoed in the `snapshot`.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<RequestId>,
        /// Lets me see those of these users whom my token does not name.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
    },
    /// A sign of life, for clients that can send no Ping frame.
    Heartbeat,
    /// How this session wants its user shown from now on.
    Status(Status),
    /// I am signing out: offline at once, with no grace.
    Bye,
}

/// The opening message. Its `Debug` hides the token.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
pub struct Hello {
    /// A JWT whose `sub` is the user; absent when it came in the upgrade request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The user, believed only by a gateway that runs without authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<UserId>,
    /// What kind of device this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// How to be shown from the first moment, so that an invisible user never flashes online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show: Option<Show>,
    /// The line beside the dot from the first moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<StatusText>,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("token", &self.token.as_ref().map(|_| format_args!("hidden")))
            .field("user", &self.user)
            .field("device", &self.device)
            .field("show", &self.show)
            .field("text", &self.text)
            .finish()
    }
}

/// What a gateway says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GatewayMessage {
    /// You are in.
    Welcome(Welcome),
    /// The answer to `watch` or `query`: one entry for every user asked for, in the order asked.
    Snapshot {
        /// The request's own id.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<RequestId>,
        /// Their states, all at one time.
        users: Vec<UserState>,
    },
    /// What changed since: each user at most once, always the latest.
    Presence {
        /// The new states.
        users: Vec<UserState>,
    },
    /// The store is out of reach, and states are the last known ones.
    Degraded {
        /// Since when, in ms since the Unix epoch; none (written as null) when it is back.
        since: Option<u64>,
    },
    /// This gateway is going away; a close with 1012 follows.
    Draining {
        /// How long to wait before reconnecting.
        reconnect_after_ms: u64,
    },
    /// One message was refused; the socket stays open.
    Error(ErrorMessage),
}

/// The gateway's answer to a good `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Welcome {
    /// Who you are, by your token.
    pub user: UserId,
    /// This socket's name.
    pub session: SessionId,
    /// How often to give a sign of life.
    pub heartbeat_ms: u64,
    /// How long after the last one you count as alive.
    pub ttl_ms: u64,
    /// How long an offline is held back.
    pub grace_ms: u64,
    /// How many users this session may watch at once.
    pub max_watch: u64,
}

/// Why one message was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorMessage {
    /// For programs.
    pub code: ErrorCode,
    /// For people: one sentence.
    pub message: String,
    /// The refused request's own id, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId>,
    /// The users refused, for `not_allowed`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserId>,
}

/// The kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The frame is malformed, or a field is missing or of the wrong kind.
    BadMessage,
    /// No message has this `type`.
    UnknownType,
    /// Some users may not be watched by this user.
    NotAllowed,
    /// The watch list would become longer than `max_watch`.
    TooManyWatches,
    /// Too many messages in too little time.
    RateLimited,
    /// A user id is empty or too long.
    BadUserId,
    /// The store is out of reach, so the states are not known now.
    StoreUnavailable,
    /// Whether these users may be seen cannot be told now.
    Undecided,
}

impl ErrorCode {
    /// Every code there is, in the order of the contract.
    pub const ALL: [Self; 8] = [
        Self::BadMessage,
        Self::UnknownType,
        Self::NotAllowed,
        Self::TooManyWatches,
        Self::RateLimited,
        Self::BadUserId,
        Self::StoreUnavailable,
        Self::Undecided,
    ];

    /// The word on the wire, and the label in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadMessage => "bad_message",
            Self::UnknownType => "unknown_type",
            Self::NotAllowed => "not_allowed",
            Self::TooManyWatches => "too_many_watches",
            Self::RateLimited => "rate_limited",
            Self::BadUserId => "bad_user_id",
            Self::StoreUnavailable => "store_unavailable",
            Self::Undecided => "undecided",
        }
    }

    /// The inverse of [`ErrorCode::as_str`]; none for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == word)
    }
}
