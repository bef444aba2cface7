//! Reading: where users stand by the store's word, and when that word is to be taken with care.
//!
//! The watch table is brought up to what was read before anybody is told of it: else a client that was answered from the
//! store could be answered from the table next, with less.

pub(crate) mod gathered;
pub(crate) mod reconcile;
pub(crate) mod unanswered;

use std::collections::HashMap;
use std::time::Duration;

use futures::future::try_join_all;
use presence_protocol::{UserId, UserState};
use tokio::time::{Instant, sleep};

use crate::engine::Core;
use crate::health::Settled;
use crate::store::{BATCH_LEN_MAX, Standing, StoreError};

/// After calls were held up, all that gateways had to tell has arrived within so long.
pub(crate) const CATCH_UP_TIME: Duration = Duration::from_millis(300);

/// A store that is lost again and again is waited for so often before an answer is given up.
const SETTLE_TRIES: usize = 3;

/// Reads any number of users, in the order asked, in concurrent calls. None stands for one of whom there is no trace, but of
/// whom a gateway may have yet to tell.
///
/// Of whom there is no trace is asked again once it is certain that the store has not just lost it: one that restarted
/// empty is told of living users within a moment. `turn` is given up when the store has answered for the first time.
pub(crate) async fn read<Turn>(
    core: &Core,
    users: &[UserId],
    turn: Turn,
) -> Result<Vec<Option<Standing>>, StoreError> {
    let mut turn = Some(turn);
    let mut standings = vec![None; users.len()];
    let mut open: Vec<usize> = (0..users.len()).collect();
    for _ in 0..SETTLE_TRIES {
        let asked = Instant::now();
        let batch: Vec<UserId> = open.iter().map(|place| users[*place].clone()).collect();
        let answers = open.iter().copied().zip(ask(core, &batch).await?);
        drop(turn.take());
        let (untraced, traced): (Vec<_>, Vec<_>) =
            answers.partition(|(_, standing)| standing.view.is_no_trace());
        for (place, standing) in traced {
            core.learn(&standing, asked);
            standings[place] = Some(standing);
        }
        if untraced.is_empty() || core.health.settle().await == Settled::Already {
            for (place, standing) in untraced {
                if !core.table.may_be_told_of(&standing.user) {
                    core.learn_no_trace(&standing, asked);
                    standings[place] = Some(standing);
                }
            }
            return Ok(standings);
        }
        open = untraced.into_iter().map(|(place, _)| place).collect();
    }
    Err(StoreError::Unreachable("it is lost again and again".to_owned()))
}

/// Asks the store, and once more for those who are offline if calls were held up: who came back meanwhile may have been
/// told of a moment later only.
async fn ask(core: &Core, users: &[UserId]) -> Result<Vec<Standing>, StoreError> {
    let mut standings = ask_once(core, users).await?;
    if !core.store.has_stalled() {
        return Ok(standings);
    }
    let offline = |standing: &&mut Standing| !standing.shown().is_online();
    let mut offline: Vec<&mut Standing> = standings.iter_mut().filter(offline).collect();
    if !offline.is_empty() {
        sleep(CATCH_UP_TIME).await;
        let users: Vec<UserId> = offline.iter().map(|standing| standing.user.clone()).collect();
        for (standing, later) in offline.iter_mut().zip(ask_once(core, &users).await?) {
            **standing = later;
        }
    }
    Ok(standings)
}

/// What was read for an answer, by user.
pub(crate) struct Read<'a>(HashMap<&'a UserId, &'a Standing>);

impl<'a> Read<'a> {
    pub(crate) fn of(standings: &'a [Standing]) -> Self {
        Self(standings.iter().map(|standing| (&standing.user, standing)).collect())
    }

    /// The latest state of a user, of whom this was known when the question came.
    pub(crate) fn latest(&self, core: &Core, user: UserId, known: Option<UserState>) -> UserState {
        let read = || Some(self.0.get(&user)?.shown().to_state(user.clone()));
        let state = core.table.state(&user).or_else(read).or(known);
        state.unwrap_or_else(|| UserState::never_seen(user))
    }
}

/// Asks the store, and takes nothing over.
pub(crate) async fn ask_once(core: &Core, users: &[UserId]) -> Result<Vec<Standing>, StoreError> {
    let calls = users.chunks(BATCH_LEN_MAX).map(|batch| core.store.snapshot(batch.to_vec()));
    let parts = try_join_all(calls).await.inspect_err(|_| {
        core.metrics.store_errors.inc();
    })?;
    let standings: Vec<Standing> = parts.into_iter().flatten().collect();
    core.health.trust(&standings)?;
    Ok(standings)
}
