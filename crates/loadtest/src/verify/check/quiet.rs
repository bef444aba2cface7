//! A round that has become quiet: waits for it, gathers what was written down, and compares every
//! view with the truth.

use std::collections::HashMap;
use std::sync::Arc;

use crate::verify::judge::{Look, Promise, Round, Violation, Watcher};
use crate::verify::record::{Facts, Us, User};
use crate::verify::world::{Record, World};

/// Beyond the last deadline, so that what is judged is not at its very edge.
const QUIET_MARGIN: Us = 300_000;

/// While waiting for quiet, something may still happen; it is waited for so often.
const QUIET_TRIES: usize = 5;

/// All that was written down, and the views as they are now.
pub(super) struct Quiet {
    pub(super) round: Round,
    records: Vec<Arc<Record>>,
}

/// How many were compared with the truth, and what was wrong.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) count: u64,
    pub(super) violations: Vec<Violation>,
}

impl Quiet {
    /// Waits until nothing that happened can still be on its way to anybody.
    pub(super) async fn wait(world: &World) -> Self {
        for _ in 0..QUIET_TRIES {
            let last = facts_so_far(world).last_deadline(&world.rules);
            // How late this machine was at the deadline is known only after it.
            let quiet_at = world.lag.lock().read_by(last, world.rules.relief()) + QUIET_MARGIN;
            if quiet_at <= world.now() {
                break;
            }
            world.wait_until(quiet_at).await;
        }
        let mut round = facts_so_far(world);
        let records = world.records.lock().clone();
        round.watchers = records.iter().map(|record| take_told(record, round.end)).collect();
        Self { round, records }
    }

    /// How every user must look; none for whom that is not certain.
    pub(super) fn looks(&self, users: u32) -> HashMap<User, Look> {
        let sessions = |user: &User| self.round.sessions.get(user).map_or(&[][..], Vec::as_slice);
        (0..users)
            .filter_map(|user| Some((user, Look::of(sessions(&user), &self.round.faults)?)))
            .collect()
    }

    /// Every view of every connection that lives.
    pub(super) fn compare_views(&self, looks: &HashMap<User, Look>) -> Compared {
        let mut compared = Compared::default();
        for (number, record) in self.records.iter().enumerate() {
            if !record.facts.lock().is_living() {
                continue;
            }
            for (user, state) in &record.told.lock().view {
                let Some(look) = looks.get(user) else { continue };
                compared.count += 1;
                let wrong = match state {
                    None => Some("its watch was never answered".to_owned()),
                    Some(state) => look.mismatch(state),
                };
                compared.violations.extend(wrong.map(|what| Violation {
                    promise: Promise::LostChange,
                    user: Some(*user),
                    watcher: Some(number),
                    at: self.round.end,
                    what,
                }));
            }
        }
        compared
    }
}

fn facts_so_far(world: &World) -> Round {
    let mut sessions: HashMap<User, Vec<Facts>> = HashMap::new();
    let mut asked = 0;
    for record in world.records.lock().iter() {
        asked = record.told.lock().asked.max(asked);
        let facts = record.facts.lock().clone();
        sessions.entry(facts.user).or_default().push(facts);
    }
    let faults = world.faults.lock().clone();
    Round { end: world.now(), sessions, asked, faults, watchers: Vec::new() }
}

/// What a watcher was told in this round; the next begins with its view.
fn take_told(record: &Record, now: Us) -> Watcher {
    let (user, place) = {
        let facts = record.facts.lock();
        (facts.user, facts.place)
    };
    let mut told = record.told.lock();
    let (seen, backward) = told.take(now);
    let stalls = told.stalls.clone();
    Watcher { user, place, seen, backward, stalls, until: told.deaf.unwrap_or(Us::MAX) }
}
