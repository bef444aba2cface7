//! Claims: what this gateway has yet to tell the store about its users.
//!
//! Joins and leaves are gathered with no fixed wait: an idle gateway sends at once, a busy one gathers the next batch
//! while the last is in flight, and in a large deployment for a little longer. Only the latest matters for each user, so
//! that what waits while the store is away is bounded by the number of users.

#[cfg(test)]
mod model;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::UserId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use crate::clock::Tick;
use crate::engine::Core;
use crate::here::roster::{Conns, PARTS};
use crate::store::{BATCH_LEN_MAX, Cause, Claim, StoreError};
use crate::strain::Strain;

const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// From one batch to the next, for each gateway besides this one; more under strain. A batch is a message to every gateway, so
/// that fifty of them would hear each other fifty times as often as one: this keeps all batches of up to 250 gateways under 500 a
/// second.
const PACE: Duration = Duration::from_millis(2);

/// Never longer, under whatever strain: until it is told, who came in here is offline everywhere else.
const PACE_MAX: Duration = Duration::from_millis(500);

/// What waits to be told.
#[derive(Default)]
pub(crate) struct Claims {
    waiting: Mutex<Line>,
    /// How many were taken out to be told, and are not yet known to have arrived.
    in_flight: AtomicUsize,
    arrived: Notify,
    /// Told again to a store that lost the last that it was told.
    left: Mutex<Left>,
}

/// Whose leave is the last that the store was told of them, or is being told.
#[derive(Default)]
struct Left {
    users: HashMap<UserId, Waiting>,
    tidied: Tick,
}

/// Each user once: those who changed, and behind them those who are told of again, as all are after a fault.
#[derive(Default)]
struct Line {
    changed: HashMap<UserId, Waiting>,
    again: HashMap<UserId, Waiting>,
}

/// Of each batch, so many at least are told of again where that many wait, however much changes.
const AGAIN_MIN: usize = BATCH_LEN_MAX / 4;

/// Over how long everybody is asserted again after a fault.
const ASSERT_SPREAD: Duration = Duration::from_millis(500);

/// Why a user is to be told of, and since when.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    cause: Cause,
    since: Tick,
    heard: Tick,
}

impl Claims {
    /// A user changed. What is told is read from the roster when it is sent.
    pub(crate) fn push(&self, user: UserId, cause: Cause, since: Tick, heard: Tick) {
        let mut line = self.waiting.lock();
        line.again.remove(&user);
        line.changed.insert(user, Waiting { cause, since, heard });
        self.arrived.notify_one();
    }

    /// Users are asserted again, unless there is newer to tell of them.
    pub(crate) fn assert_again(&self, users: Vec<UserId>, now: Tick) {
        let mut line = self.waiting.lock();
        let Line { changed, again } = &mut *line;
        for user in users.into_iter().filter(|user| !changed.contains_key(user)) {
            again.entry(user).or_insert(Waiting { cause: Cause::Joined, since: now, heard: now });
        }
        self.arrived.notify_one();
    }

    /// The store is about to be told this of these users.
    fn note_telling(&self, told: &[(UserId, Waiting)], claims: &[Claim], now: Tick, ttl: Duration) {
        let mut left = self.left.lock();
        for ((user, waiting), claim) in told.iter().zip(claims) {
            if claim.is_leave() {
                left.users.insert(user.clone(), *waiting);
            } else {
                left.users.remove(user);
            }
        }
        if now.since(left.tidied) > ttl {
            left.tidied = now;
            left.users.retain(|_, waiting| now.since(waiting.since) <= ttl);
        }
    }

    /// Who left within the TTL is told of again, unless there is newer to tell.
    fn tell_again_who_left(&self, now: Tick, ttl: Duration) {
        let is_late = |waiting: &Waiting| now.since(waiting.since) > ttl;
        let left = self.left.lock();
        let lately = left.users.iter().filter(|(_, waiting)| !is_late(waiting));
        let lately: Vec<_> = lately.map(|(user, waiting)| (user.clone(), *waiting)).collect();
        drop(left);
        let mut line = self.waiting.lock();
        let Line { changed, again } = &mut *line;
        for (user, waiting) in lately {
            if changed.contains_key(&user) {
                continue;
            }
            // Not as a bye, which is shown at once: who said it here may have come elsewhere.
            again.insert(user, Waiting { cause: Cause::Closed, ..waiting });
        }
        self.arrived.notify_one();
    }

    /// How many users the store has yet to take.
    pub(crate) fn len(&self) -> usize {
        let line = self.waiting.lock();
        line.changed.len() + line.again.len() + self.in_flight.load(Ordering::Relaxed)
    }

    /// The next that are told together; none when nothing waits.
    fn take_batch(&self) -> Option<Vec<(UserId, Waiting)>> {
        let mut line = self.waiting.lock();
        let changed_max = BATCH_LEN_MAX - AGAIN_MIN.min(line.again.len());
        let mut batch = take_some(&mut line.changed, changed_max);
        batch.extend(take_some(&mut line.again, BATCH_LEN_MAX - batch.len()));
        self.in_flight.store(batch.len(), Ordering::Relaxed);
        (!batch.is_empty()).then_some(batch)
    }

    fn none_in_flight(&self) {
        self.in_flight.store(0, Ordering::Relaxed);
    }

    fn put_back(&self, batch: Vec<(UserId, Waiting)>) {
        let mut line = self.waiting.lock();
        let Line { changed, again } = &mut *line;
        for (user, earlier) in batch {
            again.remove(&user);
            changed.entry(user).or_insert(earlier);
        }
        self.in_flight.store(0, Ordering::Relaxed);
        self.arrived.notify_one();
    }
}

fn take_some(waiting: &mut HashMap<UserId, Waiting>, most: usize) -> Vec<(UserId, Waiting)> {
    if waiting.len() <= most {
        return std::mem::take(waiting).into_iter().collect();
    }
    let users: Vec<UserId> = waiting.keys().take(most).cloned().collect();
    users.iter().filter_map(|user| waiting.remove_entry(user)).collect()
}

/// Sends what waits, for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        core.claims.arrived.notified().await;
        let next = Instant::now() + pace(core.store.gateways(), &core.strain);
        while let Some(batch) = core.claims.take_batch() {
            let is_full = batch.len() == BATCH_LEN_MAX;
            if let Err(error) = send(&core, &batch).await {
                core.claims.put_back(batch);
                core.metrics.store_errors.inc();
                warn!(%error, users = core.claims.len(), "claims are held until the store answers");
                core.health.wait_for_store(RETRY_MIN, RETRY_MAX).await;
                break;
            }
            core.claims.none_in_flight();
            if !is_full {
                break;
            }
        }
        sleep_until(next).await;
    }
}

fn pace(gateways: u32, strain: &Strain) -> Duration {
    strain.stretch(PACE * (gateways - 1)).min(PACE_MAX)
}

/// Asserts everybody again whenever that is asked for, as long as the engine lives. Whoever asks meanwhile, and however
/// often, is served by one more walk.
pub(crate) async fn assert_when_asked(core: Arc<Core>) {
    loop {
        core.assertion_asked.notified().await;
        core.claims.tell_again_who_left(core.clock.now(), core.config.ttl);
        let first = fastrand::usize(..PARTS);
        for part in 0..PARTS {
            let users = core.roster.users_of_part((first + part) % PARTS);
            if !users.is_empty() {
                core.claims.assert_again(users, core.clock.now());
                sleep(ASSERT_SPREAD / PARTS as u32).await;
            }
        }
    }
}

/// Tells the store, and then the sessions that it was told of that they are in; also where it refused, since nobody is kept
/// waiting for a store that may be away.
async fn send(core: &Core, batch: &[(UserId, Waiting)]) -> Result<(), StoreError> {
    let now = core.clock.now();
    let claims = batch.iter().map(|(user, waiting)| claim(core, user, *waiting, now));
    let (claims, conns): (Vec<Claim>, Vec<Conns>) = claims.unzip();
    core.metrics.claims.inc_by(batch.len() as u64);
    if core.store.may_forget() {
        core.claims.note_telling(batch, &claims, now, core.config.ttl);
    }
    let told = core.store.apply(claims).await;
    for ((user, _), conns) in batch.iter().zip(conns) {
        core.welcome(user, &conns);
    }
    told
}

/// What the store is told of a user, and the sessions that this includes.
fn claim(core: &Core, user: &UserId, waiting: Waiting, now: Tick) -> (Claim, Conns) {
    let (contribution, conns) = core.roster.to_tell(user, core.clock.real()).unzip();
    let (cause, age) = match waiting.cause {
        // Lost a moment ago: that waits to be told by itself, and is not to be shown before.
        Cause::Joined | Cause::Status if contribution.is_none() => (Cause::Closed, Duration::ZERO),
        cause => (cause, now.since(waiting.since)),
    };
    let silence = now.since(waiting.heard);
    let claim = Claim { user: user.clone(), contribution, cause, age, silence };
    (claim, conns.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Contribution;

    const TTL: Duration = Duration::from_secs(30);

    /// A gateway that tells the store.
    fn tell(claims: &Claims, user: &str, cause: Cause, since: Tick) {
        let user = UserId::new(user).unwrap();
        claims.push(user.clone(), cause, since, since);
        let batch = claims.take_batch().unwrap_or_default();
        let contribution = (cause == Cause::Joined).then(Contribution::default);
        let (age, silence) = (Duration::ZERO, Duration::ZERO);
        claims.note_telling(
            &batch,
            &[Claim { user, contribution, cause, age, silence }],
            since,
            TTL,
        );
    }

    #[test]
    fn the_last_leave_is_told_again_of_who_left_within_the_ttl_and_of_nobody_else() {
        let claims = Claims::default();
        for (user, cause, since) in [
            ("long ago", Cause::Closed, 0),
            ("bo", Cause::Bye, 20_000),
            ("cy", Cause::Silent, 20_000),
            ("drained later", Cause::Closed, 20_000),
            ("back", Cause::Closed, 20_000),
            ("changing", Cause::Closed, 20_000),
            ("back", Cause::Joined, 21_000),
            ("drained later", Cause::Drained, 22_000),
        ] {
            tell(&claims, user, cause, Tick(since));
        }
        claims.push(UserId::new("changing").unwrap(), Cause::Joined, Tick(23_000), Tick(23_000));
        claims.tell_again_who_left(Tick(40_000), TTL);
        let told = claims.take_batch().unwrap_or_default();
        let mut told: Vec<_> =
            told.iter().map(|(user, w)| (user.as_str(), w.cause, w.since.0)).collect();
        told.sort_unstable_by_key(|(user, ..)| *user);
        assert_eq!(
            told,
            [
                ("bo", Cause::Closed, 20_000),
                ("changing", Cause::Joined, 23_000),
                ("cy", Cause::Closed, 20_000),
            ]
        );
    }

    #[test]
    fn batches_of_many_gateways_are_rarer_and_under_strain_no_rarer_than_two_a_second() {
        let at_ease = Strain::default();
        assert_eq!(pace(1, &at_ease), Duration::ZERO);
        assert_eq!(pace(56, &at_ease), Duration::from_millis(110));
        let strained = Strain::default();
        (0..100).for_each(|_| strained.note_timer(Duration::from_millis(20)));
        assert!(pace(11, &strained) > 3 * pace(11, &at_ease));
        assert_eq!(pace(56, &strained), PACE_MAX);
        assert_eq!(pace(1_000, &at_ease), PACE_MAX);
    }
}
