//! Veils: users who look, to some of those who watch them, as if they had signed out at a certain moment.
//!
//! A veiled user is an entry of its own beside the user's real one, with a view that never changes: news of the user does
//! not find it. It is known when the real one would be, so that nobody can tell by how long an answer takes.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use presence_protocol::{UserId, UserState};
use smallvec::SmallVec;

use super::shard::Shard;
use super::{UserRef, WatchTable};
use crate::store::view::View;

/// Users who are to be veiled, and since when they seem to be offline: µs since the Unix epoch.
pub type Veils = HashMap<UserId, u64>;

/// What is seen of a user through a veil.
fn view(since_us: u64) -> View {
    View { version: since_us, since: Some(since_us / 1000), ..View::NO_TRACE }
}

/// The state of a user as seen through a veil.
pub(crate) fn state(user: &UserId, since_us: u64) -> UserState {
    view(since_us).to_state(user.clone())
}

/// The view of an entry, and the form in which the entry is told from others of the same user.
pub(super) fn of(since_us: Option<u64>) -> (u64, Option<View>) {
    since_us.map_or((0, None), |since_us| (since_us.max(1), Some(view(since_us))))
}

/// Who is behind a number of the table.
pub(crate) struct Seen {
    pub(crate) user: UserId,
    /// Since when (µs) the user seems to be offline, if it is veiled.
    pub(crate) veil: Option<u64>,
    pub(crate) was_online: bool,
    /// Of what is shown; 0 when that is not known.
    pub(crate) version: u64,
}

impl WatchTable {
    /// All numbers of a user but this one: under veils, and without.
    pub(crate) fn others(&self, user: &UserId, but: UserRef) -> SmallVec<[UserRef; 1]> {
        if self.veiled.load(Relaxed) == 0 {
            return SmallVec::new();
        }
        self.all(user).into_iter().filter(|other| *other != but).collect()
    }

    /// All numbers of a user, under veils and without.
    pub(crate) fn all(&self, user: &UserId) -> SmallVec<[UserRef; 1]> {
        if self.veiled.load(Relaxed) == 0 {
            return self.find(user).into_iter().collect();
        }
        let (number, hash) = self.locate(user);
        let shard = self.shards[number].lock();
        let same = |slot: &&u32| shard.users[**slot as usize].user == *user;
        let found = shard.index.iter_hash(hash).filter(same);
        found.map(|slot| UserRef::new(number, *slot as usize)).collect()
    }

    /// What is behind a number, and what was seen of it.
    pub(crate) fn look_behind(&self, user: UserRef) -> Option<Seen> {
        let shard = self.shard(user);
        let watched = shard.users.get(user.slot())?;
        let state = watched.state();
        Some(Seen {
            user: watched.user.clone(),
            veil: Some(watched.veil).filter(|veil| *veil > 0),
            was_online: state.as_ref().is_some_and(|state| state.state.as_str() == "online"),
            version: state.map_or(0, |state| state.version),
        })
    }

    /// The store has answered about a user: those under veils are as good as known.
    pub(super) fn lift_doubt(&self, user: &UserId) {
        if self.veiled.load(Relaxed) == 0 {
            return;
        }
        let (number, hash) = self.locate(user);
        let mut shard = self.shards[number].lock();
        let Shard { index, users } = &mut *shard;
        for slot in index.iter_hash(hash) {
            let watched = &mut users[*slot as usize];
            if watched.user == *user && watched.veil > 0 {
                watched.become_known();
            }
        }
    }
}
