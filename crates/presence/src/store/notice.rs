//! What crosses the store from gateway to gateway beside transitions: the wishes of the app's backend, which each gateway
//! fulfils for the sessions that it holds, and its question where a user's sessions are.

use std::net::IpAddr;

use presence_protocol::{Device, Show, UserId};
use serde::{Deserialize, Serialize};

/// Something that every gateway hears, the one that tells it included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// All sessions of this user are to be closed.
    Disconnect(UserId),
    /// An order that the store remembers, for gateways that miss this.
    Order(Dated),
    /// A gateway wants to know of a user's sessions.
    Question(Question),
    /// What one gateway has to say to that.
    Answer(Answer),
}

/// What counts of a user no longer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What the app's backend said of whom this user may watch: it is to be asked again.
    Refresh(UserId),
    /// This user's tokens that were issued before the order's date.
    Revoke(UserId),
}

/// An order and its date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// What is ordered.
    pub order: Order,
    /// The first second that it does not cover, since the Unix epoch by the store's clock.
    pub from_s: u64,
}

/// Which sessions a user has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Who asks.
    pub gateway: String,
    /// Which of its questions it is.
    pub number: u64,
    /// Whose sessions are asked for.
    pub user: UserId,
    /// The gateways that the store names: they answer even if they have none.
    pub named: Vec<String>,
}

/// The sessions of a user on one gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was asked.
    pub question: Question,
    /// Who answers.
    pub gateway: String,
    /// The sessions, or the first of them.
    pub sessions: Vec<SessionInfo>,
    /// Whether there are more.
    pub truncated: bool,
}

/// One session, as the app's backend is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// As its client was told in `welcome`.
    pub id: String,
    /// Which gateway holds it.
    pub gateway: String,
    /// The label of its device.
    pub device: Option<Device>,
    /// When it signed in, in ms since the Unix epoch by the store's clock.
    pub since: u64,
    /// When it gave its last sign of life, in ms since the Unix epoch by the store's clock.
    pub heard: u64,
    /// Where its socket comes from, as far as the gateway sees.
    pub address: Option<IpAddr>,
    /// How its frames are encoded: `json` or `msgpack`.
    pub format: String,
    /// How it wants its user shown, where it said so; `invisible` is told here, and nowhere else.
    pub show: Option<Show>,
}

impl Notice {
    /// The word for its kind in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Disconnect(_) => "disconnect",
            Self::Order(Dated { order: Order::Refresh(_), .. }) => "refresh",
            Self::Order(Dated { order: Order::Revoke(_), .. }) => "revoke",
            Self::Question(_) => "question",
            Self::Answer(_) => "answer",
        }
    }

    /// Whom it is about.
    pub fn user(&self) -> &UserId {
        match self {
            Self::Disconnect(user) => user,
            Self::Order(dated) => dated.order.user(),
            Self::Question(question) => &question.user,
            Self::Answer(answer) => &answer.question.user,
        }
    }
}

impl Order {
    /// Whom it is about.
    pub fn user(&self) -> &UserId {
        match self {
            Self::Refresh(user) | Self::Revoke(user) => user,
        }
    }

    /// The text form, for a store that keeps texts: `revoke ana`.
    pub fn to_line(&self) -> String {
        match self {
            Self::Refresh(user) => format!("refresh {user}"),
            Self::Revoke(user) => format!("revoke {user}"),
        }
    }

    /// Reads the text form; none when it is not one.
    pub fn parse_line(line: &str) -> Option<Self> {
        let (kind, user) = line.split_once(' ')?;
        let user = UserId::new(user).ok()?;
        match kind {
            "refresh" => Some(Self::Refresh(user)),
            "revoke" => Some(Self::Revoke(user)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_the_order_said() {
        for name in ["ana", " a b ", "revoke x\n"] {
            let user = UserId::new(name).unwrap();
            for order in [Order::Refresh(user.clone()), Order::Revoke(user)] {
                assert_eq!(Order::parse_line(&order.to_line()), Some(order));
            }
        }
        for line in ["", "revoke", "revoke ", "forget ana"] {
            assert_eq!(Order::parse_line(line), None, "{line:?}");
        }
    }
}
