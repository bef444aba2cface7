//! What only the deployment itself can answer once a round is quiet: what each gateway tells a
//! backend, and whether every user's key is in Redis.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context, Result};
use presence_protocol::UserState;
use tokio::time::sleep;

use crate::verify::check::quiet::Compared;
use crate::verify::deployment::{Deployment, PREFIX};
use crate::verify::http::{self, QUERY_LEN_MAX};
use crate::verify::judge::{Look, Promise, Violation};
use crate::verify::record::{Us, User};
use crate::verify::truth::HEAL;
use crate::verify::world::{World, user_of};

/// How often is looked whether the keys are back.
const KEYS_LOOK: Duration = Duration::from_millis(100);

/// What every gateway tells a backend of every user.
pub(super) async fn compare_answers(world: &World, looks: &HashMap<User, Look>) -> Compared {
    let users: Vec<User> = looks.keys().copied().collect();
    let mut compared = Compared::default();
    for (place, endpoint) in world.endpoints.iter().enumerate() {
        let mut broken = |user, what: String| {
            compared.violations.push(Violation {
                promise: Promise::WrongAnswer,
                user,
                watcher: None,
                at: world.now(),
                what: format!("gateway {}: {what}", place + 1),
            });
        };
        for batch in users.chunks(QUERY_LEN_MAX) {
            match http::query(endpoint.addr, batch).await {
                Ok(states) => {
                    for state in states {
                        if let Some((user, what)) = mismatch(looks, &state) {
                            broken(user, what);
                        }
                    }
                }
                Err(error) => broken(None, format!("no answer: {error:#}")),
            }
        }
        compared.count += users.len() as u64;
    }
    compared
}

fn mismatch(looks: &HashMap<User, Look>, state: &UserState) -> Option<(Option<User>, String)> {
    let user = user_of(&state.user);
    match user.and_then(|user| looks.get(&user)) {
        Some(look) => look.mismatch(state).map(|what| (user, what)),
        None => Some((user, format!("{} was not asked for", state.user.as_str()))),
    }
}

/// After Redis lost everything: how long it took until every user who is online had a key again.
pub(super) async fn await_keys(
    world: &World,
    deployment: &Deployment,
) -> Result<Result<Us, Violation>> {
    let healed = world.faults.lock().iter().filter_map(|fault| fault.healed).max();
    let healed = healed.context("Redis was away in this round")?;
    let expected = online_users(world);
    loop {
        let pattern = format!("{PREFIX}:*:user:user-*");
        let asked = world.now();
        let count = deployment.with_backing(move |redis| redis.count_keys(&pattern)).await??;
        let now = world.now();
        if count >= expected && asked <= healed + HEAL {
            return Ok(Ok(asked - healed));
        }
        if now > healed + HEAL {
            let what = format!("{count} of {expected} users have a key 5 s after the return");
            let promise = Promise::KeysMissing;
            return Ok(Err(Violation { promise, user: None, watcher: None, at: now, what }));
        }
        sleep(KEYS_LOOK).await;
    }
}

fn online_users(world: &World) -> usize {
    let records = world.records.lock();
    let facts = records.iter().map(|record| record.facts.lock());
    let users: HashSet<User> =
        facts.filter(|facts| facts.is_living()).map(|facts| facts.user).collect();
    users.len()
}
