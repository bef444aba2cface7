//! One shard of the watch table: its users, and where they are by their ids.

use hashbrown::HashTable;
use presence_protocol::UserId;
use slab::Slab;

use super::entry::Watched;

/// A part of the watched users, behind one lock.
#[derive(Default)]
pub(super) struct Shard {
    pub(super) index: HashTable<u32>,
    pub(super) users: Slab<Watched>,
}

impl Shard {
    pub(super) fn find(&self, user: &UserId, hash: u64) -> Option<usize> {
        self.find_under(user, hash, 0)
    }

    /// The entry of a user under this veil; 0 for none.
    pub(super) fn find_under(&self, user: &UserId, hash: u64, veil: u64) -> Option<usize> {
        let same = |slot: &u32| {
            let watched = &self.users[*slot as usize];
            watched.veil == veil && watched.user == *user
        };
        self.index.find(hash, same).map(|slot| *slot as usize)
    }
}
