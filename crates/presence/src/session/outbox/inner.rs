//! What an outbox holds, under its lock: what is owed, in the order of its urgency, and the watch list that bounds it.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use presence_protocol::CloseReason;

use super::Due;
use crate::watch::UserRef;

/// The most users that one `presence` frame carries; the rest follows in the next.
pub(super) const USERS_PER_FRAME: usize = 256;

/// The most answers that may wait for a client that does not read. More are dropped.
pub(super) const REPLIES_LEN_MAX: usize = 32;

/// What is owed, and to whom it is bound.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) waker: Option<Waker>,
    pub(super) welcome: Welcome,
    pub(super) owed: Owed,
    pub(super) close: Option<CloseReason>,
    pub(super) ended: bool,
    /// What the app's backend ordered is to be looked at.
    pub(super) recheck: bool,
    /// It is woken in the next round, at the latest.
    pub(super) in_round: bool,
    /// The watch list, sorted.
    pub(super) watching: Vec<UserRef>,
    /// Those of the watched users whose latest state is yet to be sent, sorted.
    pub(super) dirty: Vec<UserRef>,
    pub(super) replies: VecDeque<Bytes>,
    /// Those of the watched users whom the store could not be asked about, sorted.
    pub(super) unanswered: Vec<UserRef>,
}

/// Whether the client was told that it is in. No other message is sent before.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Welcome {
    #[default]
    Said,
    /// The store has yet to know of it.
    Awaited,
    Due,
}

/// Small things a client is owed.
#[derive(Default, Clone, Copy)]
pub(super) struct Owed {
    pub(super) ping: bool,
    pub(super) health: bool,
    pub(super) draining: bool,
}

impl Inner {
    /// Whether one more answer may wait.
    pub(super) fn has_room(&self, bytes_max: usize) -> bool {
        let bytes: usize = self.replies.iter().map(Bytes::len).sum();
        self.replies.len() < REPLIES_LEN_MAX && bytes < bytes_max
    }

    pub(super) fn take_due(&mut self, encode: impl Fn(&[UserRef]) -> Option<Bytes>) -> Option<Due> {
        if let Some(reason) = self.close.take() {
            return Some(Due::Close(reason));
        }
        if std::mem::take(&mut self.recheck) {
            return Some(Due::Recheck);
        }
        match self.welcome {
            Welcome::Said => {}
            // A Ping is no message, and who waits for long must be able to show that it lives.
            Welcome::Awaited => return std::mem::take(&mut self.owed.ping).then_some(Due::Ping),
            Welcome::Due => {
                self.welcome = Welcome::Said;
                return Some(Due::Welcome);
            }
        }
        if std::mem::take(&mut self.owed.draining) {
            return Some(Due::Draining);
        }
        if std::mem::take(&mut self.owed.health) {
            return Some(Due::Health);
        }
        if let Some(frame) = self.replies.pop_front() {
            if self.replies.is_empty() {
                self.replies = VecDeque::new();
            }
            return Some(Due::Frame(frame));
        }
        while let Some(users) = self.take_dirty() {
            if let Some(frame) = encode(&users) {
                return Some(Due::Frame(frame));
            }
        }
        std::mem::take(&mut self.owed.ping).then_some(Due::Ping)
    }

    /// The users whose state is to be sent next.
    pub(super) fn take_dirty(&mut self) -> Option<Vec<UserRef>> {
        if self.dirty.is_empty() {
            self.dirty = Vec::new();
            return None;
        }
        let rest = self.dirty.split_off(self.dirty.len().min(USERS_PER_FRAME));
        Some(std::mem::replace(&mut self.dirty, rest))
    }

    /// Only those still watched: a mark may cross an `unwatch`.
    pub(super) fn mark(&mut self, user: UserRef) {
        if self.watching.binary_search(&user).is_err() {
            return;
        }
        if let Err(at) = self.dirty.binary_search(&user) {
            self.dirty.insert(at, user);
        }
    }

    /// Nothing more is owed of users who are not watched any more, so that no client can grow the list.
    pub(super) fn drop_unwatched(&mut self) {
        let watching = &self.watching;
        self.dirty.retain(|user| watching.binary_search(user).is_ok());
        self.unanswered.retain(|user| watching.binary_search(user).is_ok());
    }

    /// These users' latest states are on their way.
    pub(super) fn cover(&mut self, users: &[UserRef]) {
        if !self.dirty.is_empty() && !users.is_empty() {
            let mut users = users.to_vec();
            users.sort_unstable();
            self.dirty.retain(|user| users.binary_search(user).is_err());
        }
    }
}
