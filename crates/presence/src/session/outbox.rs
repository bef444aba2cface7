//! The outbox of one session: what its client is owed. Presence is state, not a log: a slow client is owed the latest
//! state of each user that changed, never a backlog, so its size is bounded by the watch list.
//!
//! Writers mark and wake; only the session's own task takes out. No call here waits.

mod all;
mod inner;
#[cfg(test)]
mod model;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use presence_protocol::{CloseReason, Format, UserId};

use crate::clock::Tick;
use crate::session::desk::Queue;
use crate::watch::UserRef;
pub(crate) use all::Outboxes;
use inner::{Inner, Welcome};

/// A session's number on this gateway. It is used again after the session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnId(pub(crate) u32);

/// What is shared between a session's task and those who have something to tell its client.
pub(crate) struct Outbox {
    pub(crate) user: UserId,
    pub(crate) format: Format,
    pub(crate) origin: Origin,
    /// The last sign of life.
    heard: AtomicU64,
    /// The wheel's tick at which this session is looked at next: others found in the wheel are stale.
    next_visit: AtomicU64,
    /// When the client's token expires; the end of time when it does not.
    expires: AtomicU64,
    pub(crate) requests: Queue,
    inner: Mutex<Inner>,
}

/// Where a session comes from: told to the app's backend, and to nobody else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    /// Which of this gateway's sessions it is, counted from its start.
    pub(crate) number: u64,
    pub(crate) joined: Tick,
    pub(crate) address: Option<IpAddr>,
}

/// The next thing to do for a client.
#[derive(Debug)]
pub(crate) enum Due {
    Close(CloseReason),
    Welcome,
    Draining,
    Health,
    Recheck,
    Frame(Bytes),
    Ping,
}

impl Outbox {
    pub(crate) fn new(user: UserId, format: Format, now: Tick) -> Self {
        Self {
            user,
            format,
            origin: Origin::default(),
            heard: AtomicU64::new(now.0),
            next_visit: AtomicU64::new(0),
            expires: AtomicU64::new(u64::MAX),
            requests: Queue::default(),
            inner: Mutex::default(),
        }
    }

    /// The same, of a session that comes from there.
    pub(crate) fn of(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// The same, whose client is to be told first of all that it is in, when the store knows of it.
    pub(crate) fn unwelcomed(self) -> Self {
        self.inner.lock().welcome = Welcome::Awaited;
        self
    }

    /// The session's id, which tells an operator which gateway holds it.
    pub(crate) fn session_id(&self, gateway: &str) -> String {
        format!("{gateway}-{}", self.origin.number)
    }

    pub(crate) fn hear(&self, now: Tick) {
        self.heard.store(now.0, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> Tick {
        Tick(self.heard.load(Ordering::Relaxed))
    }

    pub(crate) fn set_expiry(&self, at: Tick) {
        self.expires.store(at.0, Ordering::Relaxed);
    }

    pub(crate) fn expires(&self) -> Tick {
        Tick(self.expires.load(Ordering::Relaxed))
    }

    pub(crate) fn set_next_visit(&self, tick: u64) {
        self.next_visit.store(tick, Ordering::Relaxed);
    }

    pub(crate) fn next_visit(&self) -> u64 {
        self.next_visit.load(Ordering::Relaxed)
    }

    /// The next thing to do, the most urgent first. `encode` makes a frame of users' latest states.
    ///
    /// All frames with states are encoded under this session's lock, here and in [`Outbox::reply_with`], so that they
    /// leave in the order in which they were encoded: no older state follows a newer one.
    pub(crate) fn poll_due(
        &self,
        cx: &mut Context<'_>,
        encode: impl Fn(&[UserRef]) -> Option<Bytes>,
    ) -> Poll<Due> {
        let mut inner = self.inner.lock();
        if let Some(due) = inner.take_due(encode) {
            return Poll::Ready(due);
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// The client is in: it is told so, if it was not yet.
    pub(crate) fn welcome(&self) {
        let mut inner = self.inner.lock();
        if inner.welcome == Welcome::Awaited {
            inner.welcome = Welcome::Due;
            wake(inner);
        }
    }

    /// Whether the client was told that it is in, and still is.
    pub(crate) fn is_welcome(&self) -> bool {
        let inner = self.inner.lock();
        !inner.ended && inner.welcome != Welcome::Awaited
    }

    pub(crate) fn ask_ping(&self) {
        self.wake_after(|inner| inner.owed.ping = true);
    }

    pub(crate) fn tell_health(&self) {
        self.wake_after(|inner| inner.owed.health = true);
    }

    pub(crate) fn ask_recheck(&self) {
        self.wake_after(|inner| inner.recheck = true);
    }

    pub(crate) fn tell_draining(&self) {
        self.wake_after(|inner| inner.owed.draining = true);
    }

    pub(crate) fn close(&self, reason: CloseReason) {
        let mut inner = self.inner.lock();
        inner.close.get_or_insert(reason);
        wake(inner);
    }

    /// The user's state changed.
    pub(crate) fn mark(&self, user: UserRef) {
        self.wake_after(|inner| inner.mark(user));
    }

    /// The user's state changed, and the session is told in the next round. True when it does not wait for that yet.
    pub(crate) fn mark_for_round(&self, user: UserRef) -> bool {
        let mut inner = self.inner.lock();
        inner.mark(user);
        !inner.ended && !std::mem::replace(&mut inner.in_round, true)
    }

    /// The round has come.
    pub(crate) fn go_round(&self) {
        self.wake_after(|inner| inner.in_round = false);
    }

    /// An answer that carries the latest state of these users, so that they need not be pushed as well. When too many
    /// answers wait already, or `bytes_max` of them, it is dropped, and they are pushed after all: false.
    pub(crate) fn reply_with(
        &self,
        bytes_max: usize,
        covered: &[UserRef],
        encode: impl FnOnce() -> Bytes,
    ) -> bool {
        let mut has_room = true;
        self.wake_after(|inner| {
            has_room = inner.has_room(bytes_max);
            if has_room {
                inner.cover(covered);
                inner.replies.push_back(encode());
            } else {
                for user in covered {
                    inner.mark(*user);
                }
            }
        });
        has_room
    }

    /// Changes the watch list, unless the session has ended. Holds this session's lock and no other's.
    pub(crate) fn edit_watching<T>(
        &self,
        edit: impl FnOnce(&mut Vec<UserRef>) -> T,
    ) -> Result<T, Ended> {
        let mut inner = self.inner.lock();
        if inner.ended {
            return Err(Ended);
        }
        let answer = edit(&mut inner.watching);
        inner.drop_unwatched();
        Ok(answer)
    }

    /// The store could not be asked about these users. True when some of them are watched.
    pub(crate) fn leave_unanswered(&self, users: &[UserRef]) -> bool {
        let mut inner = self.inner.lock();
        inner.unanswered.extend(users);
        inner.unanswered.sort_unstable();
        inner.unanswered.dedup();
        inner.drop_unwatched();
        !inner.unanswered.is_empty()
    }

    pub(crate) fn unanswered(&self) -> Vec<UserRef> {
        self.inner.lock().unanswered.clone()
    }

    /// These users are known now, and told.
    pub(crate) fn answer(&self, known: &[UserRef]) {
        self.wake_after(|inner| {
            for user in known {
                inner.mark(*user);
            }
            inner.unanswered.retain(|user| known.binary_search(user).is_err());
            inner.unanswered.shrink_to_fit();
        });
    }

    /// Ends the session: nothing but its close frame is sent any more. Answers the watch list, which is to be given up;
    /// none when it has ended before.
    pub(crate) fn end(&self) -> Option<Vec<UserRef>> {
        let mut inner = self.inner.lock();
        if inner.ended {
            return None;
        }
        let watching = std::mem::take(&mut inner.watching);
        *inner = Inner { ended: true, waker: inner.waker.take(), ..Inner::default() };
        Some(watching)
    }

    fn wake_after(&self, act: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        if inner.ended {
            return;
        }
        act(&mut inner);
        wake(inner);
    }
}

/// Wakes the session's task, without the lock.
fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The session has ended.
pub(crate) struct Ended;
