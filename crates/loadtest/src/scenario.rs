//! What a run does, as a TOML file says it: users, their contacts and heartbeats, and phases.
//!
//! Pure: whether a gateway is there, and whether this machine can carry it, is `plan`'s business.

mod check;
mod file;
mod timeline;
mod values;

use std::path::PathBuf;

use clap::ValueEnum;
use presence_protocol::Format;
use serde::{Deserialize, Serialize};

pub(crate) use crate::contacts::Model;
pub(crate) use crate::scenario::check::{DURATION_MAX, WATCH_MESSAGE_LEN_MAX};
pub(crate) use crate::scenario::timeline::Span;
pub(crate) use crate::scenario::values::{Gap, Pace, Rate, Time};

/// A run, whatever it is pointed at. The same scenario makes the same run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The file's stem, unless it says another.
    #[serde(default)]
    pub(crate) name: String,
    /// How many; as many as there are lines, where `people` names them.
    #[serde(default)]
    pub(crate) users: u32,
    /// A file that says who the users are; see [`crate::people`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) people: Option<PathBuf>,
    /// Connections of each user.
    #[serde(default = "one")]
    pub(crate) devices: u32,
    /// What the random choices follow from.
    #[serde(default = "default_seed")]
    pub(crate) seed: u64,
    /// The n-th user is PREFIX-n.
    #[serde(default = "default_prefix")]
    pub(crate) user_prefix: String,
    #[serde(default)]
    pub(crate) format: Notation,
    #[serde(default)]
    pub(crate) heartbeat: Heartbeat,
    #[serde(default = "default_contacts")]
    pub(crate) contacts: Model,
    /// How long a connection that was refused, or ended by the other side, waits before it comes back: at most the first time
    /// at first, twice as long each time, up to the second. Unless it is given, such a connection has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reconnect: Option<Gap>,
    pub(crate) phases: Vec<Phase>,
}

/// How messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notation {
    Json,
    #[default]
    Msgpack,
}

/// How a client says that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    #[serde(default)]
    pub(crate) kind: Beat,
    #[serde(default = "default_interval")]
    pub(crate) interval: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Beat {
    /// Ping frames.
    #[default]
    Ping,
    /// None of its own: as a browser, it answers the gateway's Pings.
    Pong,
    /// The message `heartbeat`.
    Message,
}

/// A stretch of the run. All but the first two are one thing: at moments that are fixed before,
/// one of those connected is picked at random and does something.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Phase {
    /// Opens all connections.
    Ramp { rate: Pace },
    /// Only heartbeats.
    Hold { duration: Time },
    /// Sockets are closed with no `bye`, and are back after the gap.
    Churn { duration: Time, rate: Rate, gap: Gap },
    /// That share is closed at once, each back at a random moment of `within`.
    Storm { share: f64, within: Time, duration: Time },
    /// So many fall silent, for good: the socket stays, and nothing is sent or read.
    Silent { count: u32, within: Time, duration: Time },
    /// Frozen for that long, then goes on, or reconnects when the gateway has closed it.
    Flaky { rate: Rate, freeze: Gap, duration: Time },
    /// `bye`, and back after the gap.
    SignOut { rate: Rate, gap: Gap, duration: Time },
    /// So many gateways are stopped and started again, one after the other, by whoever has them.
    Restart { count: u32, duration: Time },
}

impl Scenario {
    /// How many connections there are.
    pub(crate) fn connections(&self) -> u64 {
        u64::from(self.users) * u64::from(self.devices)
    }

    /// When a gateway is stopped, in µs since the run began.
    pub(crate) fn restarts_us(&self) -> Vec<u64> {
        let spans = self.timeline().spans.into_iter();
        let moments = spans.flat_map(|Span { phase, from_us, to_us }| {
            let count = match phase {
                Phase::Restart { count, .. } => u64::from(count),
                _ => 0,
            };
            (0..count).map(move |place| from_us + (to_us - from_us) * place / count)
        });
        moments.collect()
    }

    /// The n-th user's id, where no file names them.
    pub(crate) fn user_name(&self, user: u32) -> String {
        format!("{}-{user}", self.user_prefix)
    }

    /// The inverse of [`Scenario::user_name`]; none for somebody else's user.
    pub(crate) fn user_of(&self, name: &str) -> Option<u32> {
        name.strip_prefix(self.user_prefix.as_str())?.strip_prefix('-')?.parse().ok()
    }
}

impl Phase {
    /// Its kind, as files say it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ramp { .. } => "ramp",
            Self::Hold { .. } => "hold",
            Self::Churn { .. } => "churn",
            Self::Storm { .. } => "storm",
            Self::Silent { .. } => "silent",
            Self::Flaky { .. } => "flaky",
            Self::SignOut { .. } => "sign_out",
            Self::Restart { .. } => "restart",
        }
    }
}

impl From<Notation> for Format {
    fn from(notation: Notation) -> Self {
        match notation {
            Notation::Json => Self::Json,
            Notation::Msgpack => Self::MsgPack,
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { kind: Beat::default(), interval: default_interval() }
    }
}

fn one() -> u32 {
    1
}

fn default_seed() -> u64 {
    1
}

fn default_prefix() -> String {
    "load".to_owned()
}

fn default_interval() -> Time {
    Time::from_secs(10)
}

fn default_contacts() -> Model {
    Model::Fixed { count: 20 }
}
