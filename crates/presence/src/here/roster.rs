//! The roster: the sessions that this gateway holds, by user, and what they amount to.
//!
//! Times here are real ones, those in which the process was stopped included.
//!
//! It is the truth about this gateway's own sessions; the store is told of it and never asked.

#[cfg(test)]
mod model;

use std::collections::HashMap;

use parking_lot::Mutex;
use presence_protocol::{Device, Show, Status, UserId};
use smallvec::SmallVec;

use crate::clock::Tick;
use crate::config::{Over, SessionLimit};
use crate::session::outbox::ConnId;
use crate::store::bucket::{BUCKETS, bucket_of};
use crate::store::{Contribution, SetStatus};

/// A walk over everybody takes the buckets in so many parts.
pub(crate) const PARTS: usize = 64;
const BUCKETS_PER_PART: usize = BUCKETS / PARTS;
const _: () = assert!(BUCKETS.is_multiple_of(PARTS));

/// This gateway's sessions, by user, spread over the store's buckets.
pub(crate) struct Roster {
    buckets: Box<[Mutex<HashMap<UserId, LocalUser>>]>,
}

/// A user with at least one session here.
struct LocalUser {
    sessions: SmallVec<[LocalSession; 1]>,
    /// Since when the user has been visibly online here.
    visible_since: Tick,
}

struct LocalSession {
    conn: ConnId,
    device: Option<Device>,
    status: Option<Box<LocalStatus>>,
}

struct LocalStatus {
    status: Status,
    set_at: Tick,
}

/// What one session says of itself.
pub(crate) struct Local {
    pub(crate) conn: ConnId,
    pub(crate) device: Option<Device>,
    pub(crate) show: Option<Show>,
}

/// Whether a change of a session changed what its user amounts to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changed,
    Unchanged,
}

/// What became of a session that wanted to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It is in; the other one, if any, is no session of the user any more, and must be told.
    In { effect: Effect, instead_of: Option<ConnId> },
    /// The user has as many as may be.
    Refused,
}

/// The sessions of one user.
pub(crate) type Conns = SmallVec<[ConnId; 1]>;

impl Roster {
    pub(crate) fn new() -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Mutex::default()).collect() }
    }

    /// A session begins, unless the user has too many.
    pub(crate) fn join(
        &self,
        user: &UserId,
        conn: ConnId,
        (device, status): (Option<Device>, Option<Status>),
        limit: SessionLimit,
        now: Tick,
    ) -> Joined {
        let status = status.map(|status| Box::new(LocalStatus { status, set_at: now }));
        let session = LocalSession { conn, device, status };
        let mut bucket = self.bucket(user);
        let Some(local) = bucket.get_mut(user) else {
            let sessions = SmallVec::from_iter([session]);
            bucket.insert(user.clone(), LocalUser { sessions, visible_since: now });
            return Joined::In { effect: Effect::Changed, instead_of: None };
        };
        let is_full = local.sessions.len() >= limit.max;
        if is_full && limit.over == Over::NewestIsRefused {
            return Joined::Refused;
        }
        let mut instead_of = None;
        let effect = local.change(now, |sessions| {
            if is_full {
                // They are in the order in which they came.
                instead_of = Some(sessions.remove(0).conn);
            }
            sessions.push(session);
        });
        Joined::In { effect, instead_of }
    }

    /// A session says how it wants its user shown.
    pub(crate) fn set_status(
        &self,
        user: &UserId,
        conn: ConnId,
        status: Status,
        now: Tick,
    ) -> Effect {
        let status = Box::new(LocalStatus { status, set_at: now });
        let mut bucket = self.bucket(user);
        bucket.get_mut(user).map_or(Effect::Unchanged, |local| {
            local.change(now, |sessions| {
                if let Some(session) = sessions.iter_mut().find(|session| session.conn == conn) {
                    session.status = Some(status);
                }
            })
        })
    }

    /// A session ends.
    pub(crate) fn leave(&self, user: &UserId, conn: ConnId, now: Tick) -> Effect {
        let mut bucket = self.bucket(user);
        let Some(local) = bucket.get_mut(user) else { return Effect::Unchanged };
        let effect = local.change(now, |sessions| sessions.retain(|session| session.conn != conn));
        if local.sessions.is_empty() {
            bucket.remove(user);
            give_back(&mut bucket);
            return Effect::Changed;
        }
        effect
    }

    /// What a user's sessions here amount to, and which these are; none when there are none.
    pub(crate) fn to_tell(&self, user: &UserId, now: Tick) -> Option<(Contribution, Conns)> {
        let bucket = self.bucket(user);
        let local = bucket.get(user)?;
        let conns = local.sessions.iter().map(|session| session.conn).collect();
        Some((local.contribution(now), conns))
    }

    /// Whether a user has a session here.
    pub(crate) fn has(&self, user: &UserId) -> bool {
        self.bucket(user).contains_key(user)
    }

    /// A user's sessions.
    pub(crate) fn conns_of(&self, user: &UserId) -> Vec<ConnId> {
        let bucket = self.bucket(user);
        let sessions = bucket.get(user).into_iter().flat_map(|local| &local.sessions);
        sessions.map(|session| session.conn).collect()
    }

    /// A user's sessions, with what each says of itself.
    pub(crate) fn sessions_of(&self, user: &UserId) -> Vec<Local> {
        let bucket = self.bucket(user);
        let sessions = bucket.get(user).into_iter().flat_map(|local| &local.sessions);
        let told = |session: &LocalSession| Local {
            conn: session.conn,
            device: session.device.clone(),
            show: session.status.as_ref().map(|status| status.status.show),
        };
        sessions.map(told).collect()
    }

    /// The users of one part; there are [`PARTS`].
    pub(crate) fn users_of_part(&self, part: usize) -> Vec<UserId> {
        let buckets = &self.buckets[part * BUCKETS_PER_PART..][..BUCKETS_PER_PART];
        buckets
            .iter()
            .flat_map(|bucket| bucket.lock().keys().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// How many users have a session here.
    pub(crate) fn user_count(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.lock().len()).sum()
    }

    fn bucket(&self, user: &UserId) -> parking_lot::MutexGuard<'_, HashMap<UserId, LocalUser>> {
        self.buckets[usize::from(bucket_of(user))].lock()
    }
}

impl LocalUser {
    fn change(&mut self, now: Tick, act: impl FnOnce(&mut SmallVec<[LocalSession; 1]>)) -> Effect {
        let before = self.contribution(now);
        act(&mut self.sessions);
        let after = self.contribution(now);
        if !is_visible(&before) && is_visible(&after) {
            self.visible_since = now;
        }
        if after == before { Effect::Unchanged } else { Effect::Changed }
    }

    fn contribution(&self, now: Tick) -> Contribution {
        let mut devices: Vec<Device> =
            self.sessions.iter().filter_map(|session| session.device.clone()).collect();
        devices.sort_unstable();
        devices.dedup();
        let statuses = self.sessions.iter().filter_map(|session| session.status.as_deref());
        let latest = statuses.max_by_key(|status| status.set_at);
        Contribution {
            devices,
            status: latest.map(|latest| latest.as_set(now)),
            online_for: now.since(self.visible_since),
        }
    }
}

impl LocalStatus {
    fn as_set(&self, now: Tick) -> SetStatus {
        let Status { show, text } = self.status.clone();
        SetStatus { show, text, age: now.since(self.set_at) }
    }
}

/// What a table has grown to is kept only as long as a quarter of it is used.
fn give_back(bucket: &mut HashMap<UserId, LocalUser>) {
    if bucket.len() <= bucket.capacity() / 4 {
        bucket.shrink_to(bucket.len() * 2);
    }
}

fn is_visible(contribution: &Contribution) -> bool {
    contribution.status.as_ref().is_none_or(|status| status.show != Show::Invisible)
}
