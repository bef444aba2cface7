//! Vouching: while this gateway lives, it keeps its users' keys in the store alive, one part of them after the other, each
//! once in [`vouch_interval`]. Who is alive it knows itself, to the millisecond (see the wheel), so that a heartbeat
//! never costs a call of its own: the heartbeats of a whole bucket are one line in a batch.

use std::sync::Arc;
use std::time::Duration;

use presence_protocol::UserId;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::debug;

use crate::config::Config;
use crate::engine::Core;
use crate::here::roster::PARTS;
use crate::store::BATCH_LEN_MAX;

/// How often a call is tried in all. When the store stays away for longer, everybody is asserted again after its return.
const ATTEMPTS: usize = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How often each user is vouched for: so often that a lost call can be made good several times before the TTL is over.
/// Each is a write in the store, so not more often than that.
pub(crate) fn vouch_interval(config: &Config) -> Duration {
    config.ttl * 3 / 4
}

/// Walks the parts for as long as the engine lives, from a random start, so that gateways do not beat in step.
pub(crate) async fn run(core: Arc<Core>) {
    let mut ticks = interval(vouch_interval(&core.config) / PARTS as u32);
    // Steps that come late are made up for: else a busy machine would stretch the walk beyond the TTL.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut part = fastrand::usize(..PARTS);
    loop {
        let due = ticks.tick().await;
        if due.elapsed() > core.config.lease() {
            // After so long a stop the lease has lapsed, and everybody is asserted again for it.
            ticks.reset();
        }
        let users = core.roster.users_of_part(part);
        part = (part + 1) % PARTS;
        if !users.is_empty() && core.health.is_fine() {
            core.spawn(vouch(core.clone(), users));
        }
    }
}

async fn vouch(core: Arc<Core>, users: Vec<UserId>) {
    for batch in users.chunks(BATCH_LEN_MAX) {
        core.metrics.refreshes.inc_by(batch.len() as u64);
        for _ in 0..ATTEMPTS {
            // Who left since then is not to be kept alive, least of all on a gateway that is dead.
            let batch = batch.iter().filter(|user| core.roster.has(user)).cloned().collect();
            match core.store.refresh(batch).await {
                Ok(missing) => {
                    rejoin(&core, missing);
                    break;
                }
                Err(error) => {
                    core.metrics.store_errors.inc();
                    debug!(%error, "could not vouch");
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

fn rejoin(core: &Core, missing: Vec<UserId>) {
    if !missing.is_empty() {
        debug!(users = missing.len(), "the store does not know these users, they are joined again");
        core.metrics.rejoins.inc_by(missing.len() as u64);
        core.claims.assert_again(missing, core.clock.now());
    }
}
