//! The watch table: every user that some session here watches, the user's last known state, and who watches.
//!
//! Users are interned to small integers, so that a watch costs four bytes on each side. The table is spread over shards,
//! each behind its own lock; no lock is held while sessions are told.

mod entry;
#[cfg(test)]
mod model;
mod shard;
#[cfg(test)]
mod tests;
mod untraced;
pub(crate) mod veil;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use presence_protocol::{Format, States, UserId, UserState};
use tokio::time::Instant;

use crate::session::outbox::ConnId;
use crate::store::Standing;

use entry::Watched;
pub(crate) use entry::{Absorbed, Shown};
use shard::Shard;
use untraced::Untraced;
pub use veil::Veils;

const SHARD_BITS: u32 = 6;
/// How many shards there are.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// A watched user's number. It is used again after the last watcher has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct UserRef(u32);

impl UserRef {
    fn new(shard: usize, slot: usize) -> Self {
        Self((slot as u32) << SHARD_BITS | shard as u32)
    }

    fn shard(self) -> usize {
        self.0 as usize % SHARDS
    }

    fn slot(self) -> usize {
        (self.0 >> SHARD_BITS) as usize
    }

    #[cfg(test)]
    pub(crate) fn for_test(number: u32) -> Self {
        Self(number)
    }
}

/// Who watches whom, and what is known of the watched.
pub(crate) struct WatchTable {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    untraced: Untraced,
    /// How many of the entries are veiled users.
    veiled: AtomicUsize,
}

/// A user on a session's watch list.
pub(crate) struct Enlisted {
    pub(crate) user: UserRef,
    /// Where the list names it, or should from now on.
    pub(crate) place: Result<usize, usize>,
    pub(crate) is_known: bool,
}

impl WatchTable {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            untraced: Untraced::new(grace),
            veiled: AtomicUsize::new(0),
        }
    }

    /// Since when the store remembers, and which gateways have yet to find out, and until when their users may live.
    pub(crate) fn note_loss(&self, born: Option<Instant>, missing: HashMap<String, Instant>) {
        self.untraced.expect(born, missing);
    }

    /// Whether a user of whom the store has no trace may be on a gateway that has yet to find out that it lost everything.
    /// Of whom something is known here, it is also known which gateway that is.
    pub(crate) fn may_be_told_of(&self, user: &UserId) -> bool {
        self.untraced.is_any_missing(Instant::now()) && self.state(user).is_none()
    }

    /// The number of a user who is watched by anybody.
    pub(crate) fn find(&self, user: &UserId) -> Option<UserRef> {
        let (shard, hash) = self.locate(user);
        let slot = self.shards[shard].lock().find(user, hash)?;
        Some(UserRef::new(shard, slot))
    }

    /// The user with a number.
    pub(crate) fn user(&self, user: UserRef) -> Option<UserId> {
        self.shard(user).users.get(user.slot()).map(|watched| watched.user.clone())
    }

    /// As [`Self::enlist_as`], with no veil.
    #[cfg(test)]
    pub(crate) fn enlist(&self, user: &UserId, conn: ConnId, watching: &[UserRef]) -> Enlisted {
        self.enlist_as(user, None, conn, watching)
    }

    /// Lets a session watch a user, or what a veil shows of it since then (µs since the Unix epoch), unless its watch list,
    /// which is sorted, names that already.
    pub(crate) fn enlist_as(
        &self,
        user: &UserId,
        veiled_since_us: Option<u64>,
        conn: ConnId,
        watching: &[UserRef],
    ) -> Enlisted {
        let (number, hash) = self.locate(user);
        let mut shard = self.shards[number].lock();
        let (veil, view) = veil::of(veiled_since_us);
        let is_known_plainly =
            veil > 0 && shard.find(user, hash).is_some_and(|slot| shard.users[slot].is_known());
        let slot = shard.find_under(user, hash, veil).unwrap_or_else(|| {
            let Shard { index, users } = &mut *shard;
            let mut watched = Watched::new(user.clone());
            if let Some(view) = view {
                self.veiled.fetch_add(1, Relaxed);
                watched.draw_veil(veil, view);
            }
            let slot = users.insert(watched);
            index.insert_unique(hash, slot as u32, |slot| {
                self.hasher.hash_one(&users[*slot as usize].user)
            });
            slot
        });
        let watched = &mut shard.users[slot];
        if is_known_plainly {
            watched.become_known();
        }
        let user = UserRef::new(number, slot);
        let place = watching.binary_search(&user);
        if place.is_err() {
            watched.add_watcher(conn);
        }
        Enlisted { user, place, is_known: watched.is_known() }
    }

    /// Lets a session watch a user no longer.
    pub(crate) fn unwatch(&self, user: UserRef, conn: ConnId) {
        let mut shard = self.shard(user);
        let Shard { index, users } = &mut *shard;
        let Some(watched) = users.get_mut(user.slot()) else { return };
        watched.remove_watcher(conn);
        if watched.watchers.is_empty() {
            if watched.veil > 0 {
                self.veiled.fetch_sub(1, Relaxed);
            }
            let hash = self.hasher.hash_one(&watched.user);
            if let Ok(entry) = index.find_entry(hash, |slot| *slot as usize == user.slot()) {
                entry.remove();
            }
            users.remove(user.slot());
            if users.is_empty() {
                // Neither gives back by itself what it has grown to.
                *shard = Shard::default();
            }
        }
    }

    /// Takes over what the store told of a user, if somebody watches it.
    pub(crate) fn hear(&self, standing: &Standing, now: Instant) -> Option<(UserRef, Absorbed)> {
        self.with(&standing.user, |watched| watched.hear(standing, now, &self.untraced))
    }

    /// Takes over what the store answered to a question that was asked at `asked`, if somebody watches the user.
    pub(crate) fn learn(
        &self,
        standing: &Standing,
        asked: Instant,
        now: Instant,
    ) -> Option<(UserRef, Absorbed)> {
        self.lift_doubt(&standing.user);
        let learn = |watched: &mut Watched| watched.learn(standing, asked, now, &self.untraced);
        self.with(&standing.user, learn)
    }

    fn with<T>(&self, user: &UserId, act: impl FnOnce(&mut Watched) -> T) -> Option<(UserRef, T)> {
        let (number, hash) = self.locate(user);
        let mut shard = self.shards[number].lock();
        let slot = shard.find(user, hash)?;
        Some((UserRef::new(number, slot), act(&mut shard.users[slot])))
    }

    /// The numbers of those who are not known yet.
    pub(crate) fn unknown_among(&self, users: &[UserRef]) -> Vec<UserRef> {
        let unknown = |user: &UserRef| {
            self.shard(*user).users.get(user.slot()).is_some_and(|watched| !watched.is_known())
        };
        users.iter().copied().filter(unknown).collect()
    }

    /// Those of the users who are not known yet.
    pub(crate) fn unknown_of(&self, users: &[UserRef]) -> Vec<UserId> {
        let unknown = |user: &UserRef| {
            let shard = self.shard(*user);
            shard.users.get(user.slot()).filter(|w| !w.is_known()).map(|w| w.user.clone())
        };
        users.iter().filter_map(unknown).collect()
    }

    /// Those of the users whose loss is (still) held back and due.
    pub(crate) fn due_of(&self, users: &[UserRef], now: Instant) -> Vec<UserId> {
        let due = |user: &UserRef| {
            let shard = self.shard(*user);
            shard.users.get(user.slot()).filter(|w| w.is_due(now)).map(|w| w.user.clone())
        };
        users.iter().filter_map(due).collect()
    }

    /// A watched user's last known state.
    pub(crate) fn state(&self, user: &UserId) -> Option<UserState> {
        let (shard, hash) = self.locate(user);
        let shard = self.shards[shard].lock();
        shard.find(user, hash).and_then(|slot| shard.users[slot].state())
    }

    /// The states of those of the users who are known, each encoded once for all its watchers.
    pub(crate) fn states(&self, users: &[UserRef], format: Format) -> States {
        let mut states = States::with_room_for(users.len(), format);
        for user in users {
            let mut shard = self.shard(*user);
            let watched = shard.users.get_mut(user.slot());
            if let Some(encoded) = watched.and_then(|watched| watched.encoded(format)) {
                states.push(&encoded.fragment);
            }
        }
        states
    }

    /// A `presence` frame about just this user, encoded once for all its watchers.
    pub(crate) fn frame(&self, user: UserRef, format: Format) -> Option<Bytes> {
        let mut shard = self.shard(user);
        shard
            .users
            .get_mut(user.slot())
            .and_then(|watched| watched.encoded(format))
            .map(|e| e.frame.clone())
    }

    /// The watched users of one shard; there are [`SHARDS`].
    pub(crate) fn users_of_shard(&self, shard: usize) -> Vec<UserId> {
        self.shards[shard].lock().users.iter().map(|(_, watched)| watched.user.clone()).collect()
    }

    /// The watched users of one shard who have a session on this gateway.
    pub(crate) fn users_on(&self, shard: usize, gateway: &str) -> Vec<UserId> {
        let shard = self.shards[shard].lock();
        let on =
            |(_, watched): (usize, &Watched)| watched.is_on(gateway).then(|| watched.user.clone());
        shard.users.iter().filter_map(on).collect()
    }

    /// Users of whom the store had no trace before it was away must be found so again, for as long as if it were new:
    /// gateways could not assert them meanwhile.
    pub(crate) fn begin_no_trace_anew(&self) {
        for shard in &self.shards {
            shard.lock().users.iter_mut().for_each(|(_, watched)| watched.begin_no_trace_anew());
        }
    }

    /// How many users are watched, and how many watches there are.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(users, watches), shard| {
            let shard = shard.lock();
            let watchers: usize = shard.users.iter().map(|(_, w)| w.watchers.len()).sum();
            (users + shard.users.len(), watches + watchers)
        })
    }

    fn locate(&self, user: &UserId) -> (usize, u64) {
        let hash = self.hasher.hash_one(user);
        ((hash >> 32) as usize % SHARDS, hash)
    }

    fn shard(&self, user: UserRef) -> MutexGuard<'_, Shard> {
        self.shards[user.shard()].lock()
    }
}
