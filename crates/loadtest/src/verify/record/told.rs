//! What one connection was told, and what its client makes of it.

use std::collections::HashMap;

use presence_protocol::{Availability, UserState};

use crate::verify::record::{Span, Us, User};

/// One state, as a watcher was told it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Just after the frame was read.
    pub(crate) at: Us,
    pub(crate) user: User,
    pub(crate) version: u64,
    pub(crate) what: Sight,
}

/// What a watcher learnt of a user, or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Online,
    Offline,
    /// The watcher took the user off its list.
    Unwatched,
}

/// A state that was older than one before it on the same connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backward {
    pub(crate) at: Us,
    pub(crate) user: User,
    pub(crate) version: u64,
    pub(crate) newer: u64,
}

/// What one connection was told, and what its view is by the contract: the newest state of each
/// watched user.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) seen: Vec<Seen>,
    pub(crate) backward: Vec<Backward>,
    /// None where the watch was not answered yet.
    pub(crate) view: HashMap<User, Option<UserState>>,
    /// When it last asked to watch somebody.
    pub(crate) asked: Us,
    /// When it stopped reading for good, if it did.
    pub(crate) deaf: Option<Us>,
    /// Times in which it did not read.
    pub(crate) stalls: Vec<Span>,
    newest: HashMap<User, u64>,
}

impl Told {
    pub(crate) fn watch(&mut self, at: Us, users: &[User]) {
        self.asked = at;
        for user in users {
            self.view.entry(*user).or_default();
        }
    }

    pub(crate) fn unwatch(&mut self, at: Us, users: &[User]) {
        for &user in users {
            if self.view.remove(&user).is_some() {
                self.seen.push(Seen { at, user, version: 0, what: Sight::Unwatched });
            }
        }
    }

    /// Takes in a state, and drops it where it is not newer, as a client should.
    pub(crate) fn hear(&mut self, at: Us, user: User, state: UserState) {
        let newest = self.newest.entry(user).or_default();
        if state.version < *newest {
            let (version, newer) = (state.version, *newest);
            self.backward.push(Backward { at, user, version, newer });
            return;
        }
        *newest = state.version;
        let Some(view) = self.view.get_mut(&user) else { return };
        let what = match state.state {
            Availability::Online => Sight::Online,
            Availability::Offline => Sight::Offline,
        };
        self.seen.push(Seen { at, user, version: state.version, what });
        *view = Some(state);
    }

    /// Takes out what was told so far, and leaves the view as the first thing told from now on.
    pub(crate) fn take(&mut self, now: Us) -> (Vec<Seen>, Vec<Backward>) {
        let as_told = |(user, state): (&User, &Option<UserState>)| {
            let state = state.as_ref()?;
            let is_online = state.state == Availability::Online;
            let what = if is_online { Sight::Online } else { Sight::Offline };
            Some(Seen { at: now, user: *user, version: state.version, what })
        };
        let view = self.view.iter().filter_map(as_told).collect();
        (std::mem::replace(&mut self.seen, view), std::mem::take(&mut self.backward))
    }
}
