//! What one connection knows of the users it watches: a client's view, in twelve bytes each.
//!
//! It drops states that are not newer, as the contract asks of a client, so that a run can tell
//! a dot that really flickered from a message that came late.

/// A version and, in the lowest bit, whether it says online. Versions are below 2^53.
type Packed = u64;

/// Nothing was said yet, so that any version is newer.
const UNKNOWN: Packed = 0;

/// The view of one connection.
#[derive(Debug)]
pub(crate) struct Views {
    /// Indexes of the watched users, sorted.
    users: Box<[u32]>,
    states: Box<[Packed]>,
}

/// What a state did to the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    CameOnline,
    WentOffline,
    /// Online as before, but since a later time: it was offline between.
    CameBack,
    /// It is the same dot.
    None,
    /// The state is not newer, or not of a watched user.
    Dropped,
}

impl Views {
    /// `users` must be sorted.
    pub(crate) fn new(users: Vec<u32>) -> Self {
        let states = vec![UNKNOWN; users.len()].into();
        Self { users: users.into(), states }
    }

    pub(crate) fn users(&self) -> &[u32] {
        &self.users
    }

    /// Begins anew, as after a reconnect.
    pub(crate) fn forget(&mut self) {
        self.states.fill(UNKNOWN);
    }

    /// Each watched user, and whether it is seen online.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, bool)> {
        let seen = self.states.iter().map(|state| state & 1 == 1);
        self.users.iter().copied().zip(seen)
    }

    /// Bytes of the heap that it holds.
    #[cfg(test)]
    pub(crate) fn heap_len(&self) -> usize {
        size_of_val(&*self.users) + size_of_val(&*self.states)
    }

    /// Takes in what was said of a user, with the beginning of its state in ms. A version is a time
    /// in µs.
    pub(crate) fn take(
        &mut self,
        user: u32,
        version: u64,
        is_online: bool,
        since_ms: u64,
    ) -> Change {
        let Ok(at) = self.users.binary_search(&user) else { return Change::Dropped };
        let old = self.states[at];
        // One more than the version, as a user who was never seen has version 0.
        let new = (version + 1) << 1 | u64::from(is_online);
        if new >> 1 <= old >> 1 {
            let is_repeated = new == old;
            return if is_repeated { Change::None } else { Change::Dropped };
        }
        self.states[at] = new;
        match (old & 1 == 1, is_online) {
            (false, true) => Change::CameOnline,
            (true, false) => Change::WentOffline,
            (true, true) if since_ms * 1_000 > old >> 1 => Change::CameBack,
            _ => Change::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_states_of_watched_users_change_the_view() {
        let mut views = Views::new(vec![3, 7]);
        let table = [
            (3, 0, false, 0, Change::None),
            (3, 5_000, true, 5, Change::CameOnline),
            (3, 5_000, true, 5, Change::None),
            (3, 5_000, false, 5, Change::Dropped),
            (3, 4_000, false, 4, Change::Dropped),
            (3, 6_000, true, 5, Change::None),
            (3, 7_000, true, 7, Change::CameBack),
            (3, 8_000, false, 8, Change::WentOffline),
            (4, 9_000, true, 9, Change::Dropped),
            (7, (1 << 53) - 1, true, 9, Change::CameOnline),
        ];
        for (user, version, is_online, since_ms, change) in table {
            let taken = views.take(user, version, is_online, since_ms);
            assert_eq!(taken, change, "{user} {version}");
        }
        assert!(views.iter().eq([(3, false), (7, true)]));
        views.forget();
        assert!(views.iter().eq([(3, false), (7, false)]));
        assert_eq!(views.take(3, 5, true, 0), Change::CameOnline);
    }
}
