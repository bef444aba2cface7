//! What waits to be told, through random changes, assertions, calls and their failures, against a log of what the store
//! was not told.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::UserId;

use super::{Cause, Claims, Tick, Waiting};

const USERS: [&str; 3] = ["bo", "cy", "di"];
const CAUSES: [Cause; 4] = [Cause::Joined, Cause::Status, Cause::Bye, Cause::Closed];

/// What happened to a user: cause, when, and when the user was last heard.
type Entry = (Cause, Tick, Tick);

/// All that the store was not told of a user.
#[derive(Debug, Clone, Default)]
struct Log {
    changes: Vec<Entry>,
    assertions: Vec<Entry>,
}

impl Log {
    /// The latest change is told; without any, the user is asserted as was first asked for.
    fn to_tell(&self) -> Option<Entry> {
        self.changes.last().or(self.assertions.first()).copied()
    }

    /// The store was told of what was known then.
    fn was_told(&mut self, then: Tick) {
        self.changes.retain(|(_, at, _)| *at > then);
        self.assertions.retain(|(_, at, _)| *at > then);
    }
}

fn entry(waiting: Waiting) -> Entry {
    (waiting.cause, waiting.since, waiting.heard)
}

#[test]
fn the_latest_change_of_each_user_is_told_and_none_is_lost_when_the_store_fails() {
    for seed in 0..2000 {
        let mut random = Rng::with_seed(seed);
        let (claims, mut now) = (Claims::default(), Tick(0));
        let mut logs: BTreeMap<UserId, Log> = BTreeMap::new();
        for _ in 0..random.usize(1..40) {
            for _ in 0..random.usize(..6) {
                now = now.after(Duration::from_millis(1));
                change_or_assert(&mut random, &claims, &mut logs, now);
            }
            let taken = claims.take_batch().unwrap_or_default();
            let then = now;
            let told: BTreeMap<UserId, Entry> =
                taken.iter().map(|(user, waiting)| (user.clone(), entry(*waiting))).collect();
            let to_tell =
                logs.iter().filter_map(|(user, log)| Some((user.clone(), log.to_tell()?)));
            assert_eq!(told, to_tell.collect(), "seed {seed}");
            assert_eq!((taken.len(), claims.len()), (told.len(), told.len()), "seed {seed}");

            // More happens while the call is in flight. Who is asserted then was told of before.
            for _ in 0..random.usize(..3) {
                now = now.after(Duration::from_millis(1));
                change(&mut random, &claims, &mut logs, now);
            }
            if random.bool() {
                claims.put_back(taken);
            } else {
                claims.none_in_flight();
                for log in logs.values_mut() {
                    log.was_told(then);
                }
            }
            let untold = logs.values().filter(|log| log.to_tell().is_some()).count();
            assert_eq!(claims.len(), untold, "seed {seed}: one for each user at most");
        }
    }
}

fn random_user(random: &mut Rng) -> UserId {
    UserId::new(USERS[random.usize(..USERS.len())]).unwrap()
}

fn change(random: &mut Rng, claims: &Claims, logs: &mut BTreeMap<UserId, Log>, now: Tick) {
    let (user, cause) = (random_user(random), CAUSES[random.usize(..CAUSES.len())]);
    let heard = Tick(random.u64(..=now.0));
    claims.push(user.clone(), cause, now, heard);
    logs.entry(user).or_default().changes.push((cause, now, heard));
}

fn change_or_assert(
    random: &mut Rng,
    claims: &Claims,
    logs: &mut BTreeMap<UserId, Log>,
    now: Tick,
) {
    if random.bool() {
        return change(random, claims, logs, now);
    }
    let user = random_user(random);
    claims.assert_again(vec![user.clone()], now);
    logs.entry(user).or_default().assertions.push((Cause::Joined, now, now));
}
