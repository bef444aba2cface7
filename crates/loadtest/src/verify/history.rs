//! What users do and what breaks, fixed before it happens: the same seed makes the same history,
//! whatever the gateways do. Pure.
//!
//! A history is a list of rounds. After each, all is left alone until every view must be the truth.

pub(crate) mod faults;
pub(crate) mod hand;
pub(crate) mod scenarios;

use presence_protocol::Show;

use crate::contacts::random::RandomContacts;
use crate::verify::record::{FaultKind, Place, Us, User};

/// A user has at most so many sessions at once.
pub(crate) const SLOTS: usize = 3;

/// What devices call themselves.
pub(crate) const DEVICES: [&str; 4] = ["ios", "android", "web", "tv"];

/// Which of a user's sessions.
pub(crate) type Slot = usize;

/// One thing that a user does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Signs in, and watches whom the user watches.
    Connect {
        slot: Slot,
        place: Place,
        device: Option<&'static str>,
    },
    /// Closes the TCP connection, with no word.
    Drop(Slot),
    Bye(Slot),
    /// Stops heartbeats and reading for good; the socket stays open.
    Freeze(Slot),
    /// The same for a short while.
    Stall {
        slot: Slot,
        lasts: Us,
    },
    Status {
        slot: Slot,
        show: Show,
        text: u8,
    },
    Watch {
        slot: Slot,
        users: Vec<User>,
    },
    Unwatch {
        slot: Slot,
        users: Vec<User>,
    },
}

/// When, since the start of the round, a user does something.
pub(crate) type Step = (Us, Act);

/// Something that is to break, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    pub(crate) at: Us,
    pub(crate) kind: FaultKind,
    pub(crate) place: Option<Place>,
    pub(crate) lasts: Us,
}

impl PlannedFault {
    pub(crate) fn end(&self) -> Us {
        self.at + self.lasts
    }
}

/// What is looked at besides the views once a round is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Nothing,
    /// Every user's key is in Redis again soon after it answers.
    KeysBack,
}

/// A stretch of history.
#[derive(Clone, Debug)]
pub(crate) struct Chapter {
    pub(crate) name: &'static str,
    pub(crate) length: Us,
    /// What each user does, in order.
    pub(crate) steps: Vec<Vec<Step>>,
    /// In the order of their beginning.
    pub(crate) faults: Vec<PlannedFault>,
    pub(crate) extra: Extra,
}

/// Who watches whom.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watching {
    /// Everybody, some random others.
    Random(RandomContacts),
    /// The users from `watched` on watch those before, each a block of them.
    Blocks { watched: User, each: u32 },
}

impl Watching {
    /// Whom a user watches when it signs in.
    pub(crate) fn by(&self, user: User) -> Vec<User> {
        match *self {
            Self::Random(contacts) => contacts.watched_by(user),
            Self::Blocks { watched, .. } if user < watched => Vec::new(),
            Self::Blocks { watched, each } => {
                let first = (user - watched) * each;
                (first..first + each.min(watched)).map(|user| user % watched).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_that_are_watched() {
        let watching = Watching::Blocks { watched: 100, each: 20 };
        assert!(watching.by(7).is_empty());
        let mut times = [0; 100];
        for watcher in 100..125 {
            let watched = watching.by(watcher);
            assert_eq!(watched.len(), 20);
            for user in watched {
                times[user as usize] += 1;
            }
        }
        assert!(times.iter().all(|times| *times == 5), "{times:?}");
    }
}
