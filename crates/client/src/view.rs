//! The watch list and what is known of each user on it, and what the gateway has yet to be told.
//!
//! Pure: no socket, no clock. The list is what the application wants; each connection starts by
//! asking for all of it again.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeSet, HashMap};

use presence_protocol::{UserId, UserState};

/// A watched user's last known state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The state with the highest version heard.
    pub state: UserState,
    /// Whether the gateway vouches for it now.
    pub freshness: Freshness,
}

/// Whether a state is vouched for by the present connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The gateway confirmed it on this connection, and would tell of a change.
    Live,
    /// There is no connection, or the user was asked for again and the answer is on its way.
    Stale,
}

/// One connection after another: a state confirmed on an earlier one is stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link(u64);

#[derive(Default)]
pub(crate) struct View {
    users: HashMap<UserId, Entry>,
    link: Link,
    to_watch: BTreeSet<UserId>,
    to_unwatch: BTreeSet<UserId>,
}

#[derive(Default)]
struct Entry {
    state: Option<UserState>,
    confirmed: Option<Link>,
}

impl View {
    /// Adds to the list. A user already there is not asked for again.
    pub(crate) fn watch(&mut self, users: impl IntoIterator<Item = UserId>) {
        for user in users {
            if let MapEntry::Vacant(vacant) = self.users.entry(user.clone()) {
                vacant.insert(Entry::default());
                self.to_unwatch.remove(&user);
                self.to_watch.insert(user);
            }
        }
    }

    /// Removes from the list and forgets.
    pub(crate) fn unwatch(&mut self, users: impl IntoIterator<Item = UserId>) {
        for user in users {
            if self.users.remove(&user).is_some() {
                self.to_watch.remove(&user);
                self.to_unwatch.insert(user);
            }
        }
    }

    /// A new connection knows nothing: everybody is to be watched again.
    pub(crate) fn connected(&mut self) {
        self.to_unwatch.clear();
        self.to_watch = self.users.keys().cloned().collect();
    }

    pub(crate) fn disconnected(&mut self) {
        self.link.0 += 1;
    }

    /// Takes in what the gateway said; returns what differs from what was known.
    pub(crate) fn apply(&mut self, states: Vec<UserState>) -> Vec<UserState> {
        states.into_iter().filter_map(|state| self.apply_one(state)).collect()
    }

    fn apply_one(&mut self, new: UserState) -> Option<UserState> {
        let entry = self.users.get_mut(&new.user)?;
        entry.confirmed = Some(self.link);
        let changed = match &entry.state {
            Some(old) if new.version <= old.version => return None,
            Some(old) => !is_same_but_for_the_version(old, &new),
            None => true,
        };
        entry.state = Some(new.clone());
        changed.then_some(new)
    }

    pub(crate) fn known(&self, user: &UserId) -> Option<Known> {
        self.users.get(user).and_then(|entry| self.known_entry(entry))
    }

    pub(crate) fn all_known(&self) -> Vec<Known> {
        self.users.values().filter_map(|entry| self.known_entry(entry)).collect()
    }

    fn known_entry(&self, entry: &Entry) -> Option<Known> {
        let live = entry.confirmed == Some(self.link);
        let freshness = if live { Freshness::Live } else { Freshness::Stale };
        Some(Known { state: entry.state.clone()?, freshness })
    }

    /// Who is still to be asked for.
    pub(crate) fn unasked(&mut self) -> &mut BTreeSet<UserId> {
        &mut self.to_watch
    }

    /// Who is still watched at the gateway, but no longer on the list.
    pub(crate) fn unwanted(&mut self) -> &mut BTreeSet<UserId> {
        &mut self.to_unwatch
    }

    /// Asks again for users whose request was lost or refused, those still on the list.
    pub(crate) fn watch_again(&mut self, users: impl IntoIterator<Item = UserId>) {
        self.to_watch.extend(users.into_iter().filter(|user| self.users.contains_key(user)));
    }
}

fn is_same_but_for_the_version(old: &UserState, new: &UserState) -> bool {
    let UserState { user, state, version: _, since, show, text, devices } = old;
    (user, state, since) == (&new.user, &new.state, &new.since)
        && (show, text, devices) == (&new.show, &new.text, &new.devices)
}

#[cfg(test)]
mod tests {
    use presence_protocol::Availability;

    use super::*;

    fn user(id: &str) -> UserId {
        UserId::new(id).unwrap()
    }

    fn state(availability: Availability, version: u64) -> UserState {
        UserState { state: availability, version, ..UserState::never_seen(user("bo")) }
    }

    fn watching_bo() -> View {
        let mut view = View::default();
        view.watch([user("bo")]);
        view
    }

    #[test]
    fn an_older_or_equal_version_changes_nothing() {
        let mut view = watching_bo();
        let online = state(Availability::Online, 5);
        assert_eq!(view.apply(vec![online.clone()]), std::slice::from_ref(&online));
        assert_eq!(view.apply(vec![state(Availability::Offline, 4)]), []);
        assert_eq!(view.apply(vec![state(Availability::Offline, 5)]), []);
        assert_eq!(view.known(&user("bo")).unwrap().state, online);
    }

    #[test]
    fn a_newer_version_of_the_same_is_kept_but_is_no_change() {
        let mut view = watching_bo();
        view.apply(vec![state(Availability::Online, 5)]);
        assert_eq!(view.apply(vec![state(Availability::Online, 6)]), []);
        assert_eq!(view.known(&user("bo")).unwrap().state.version, 6);
    }

    #[test]
    fn a_state_of_somebody_not_watched_is_dropped() {
        let mut view = watching_bo();
        view.unwatch([user("bo")]);
        assert_eq!(view.apply(vec![state(Availability::Online, 5)]), []);
        assert_eq!(view.known(&user("bo")), None);
    }

    #[test]
    fn a_lost_connection_makes_states_stale_until_they_are_confirmed() {
        let mut view = watching_bo();
        view.apply(vec![state(Availability::Online, 5)]);
        assert_eq!(view.known(&user("bo")).unwrap().freshness, Freshness::Live);
        view.disconnected();
        view.connected();
        assert_eq!(view.known(&user("bo")).unwrap().freshness, Freshness::Stale);
        assert_eq!(view.apply(vec![state(Availability::Online, 5)]), []);
        assert_eq!(view.known(&user("bo")).unwrap().freshness, Freshness::Live);
    }

    #[test]
    fn watching_again_after_an_unwatch_asks_again() {
        let mut view = watching_bo();
        view.unasked().clear();
        view.unwatch([user("bo")]);
        view.watch([user("bo")]);
        assert_eq!(view.unasked().len(), 1);
        assert!(view.unwanted().is_empty());
    }
}
