//! Reconciling: compares every watched user with the store: at once after a gap in what was heard, one pass at a time,
//! whoever asks and however often; and all along in a slow sweep.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use presence_protocol::UserId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use crate::config::Config;
use crate::engine::Core;
use crate::reading::{CATCH_UP_TIME, ask_once};
use crate::store::{BATCH_LEN_MAX, Standing, StoreError};
use crate::watch::SHARDS;

/// News may be under way for so long: a comparison that is ahead of it has found no fault.
const NEWS_TIME: Duration = Duration::from_secs(1);

/// So many batches are compared at once, each followed by a pause that is as long as the answer took, or this at least: a
/// million users within five seconds, while the store has time for others.
const IN_FLIGHT: usize = 4;
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The sweep compares one batch in so long, 250 users a second: fifty gateways cost one Redis some 4 % of a core.
const SWEEP_PAUSE: Duration = Duration::from_secs(2);

/// After TTL and grace there is so much more time for what is told late.
const SETTLED_TIME: Duration = Duration::from_secs(5);

/// When a store that has lost something has told by itself all that it can find out: who has left, and who is there.
pub(crate) fn settled_after(config: &Config) -> Duration {
    config.ttl + config.grace + SETTLED_TIME
}

/// When the next passes are due.
#[derive(Default)]
pub(crate) struct Reconciler {
    due: Mutex<Option<Due>>,
    asked: Notify,
    /// Users whom watchers were shown in a version that the store has lost.
    ahead: Mutex<HashMap<UserId, u64>>,
}

/// A pass that begins at `last` or later serves everybody who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    first: Instant,
    last: Instant,
}

impl Reconciler {
    /// Asks for a pass that begins then or later.
    pub(crate) fn ask(&self, at: Instant) {
        let mut due = self.due.lock();
        let before = due.unwrap_or(Due { first: at, last: at });
        *due = Some(Due { first: before.first.min(at), last: before.last.max(at) });
        drop(due);
        self.asked.notify_one();
    }

    /// The store, asked then, has an older view of a user than watchers were shown. It has lost that, unless it was told just
    /// now: as a primary that hung, was replaced and woke tells what its successor never knew. That it will tell something newer
    /// of its own accord is waited for, and looked at again when that is over.
    pub(crate) fn note_ahead(&self, core: &Core, user: &UserId, version: u64, asked: Instant) {
        let asked_ms = core.store.now_ms().saturating_sub(asked.elapsed().as_millis() as u64);
        let shown_for = Duration::from_millis(asked_ms.saturating_sub(version / 1000));
        let left = settled_after(&core.config).saturating_sub(shown_for);
        if left < NEWS_TIME {
            self.ahead.lock().insert(user.clone(), version);
        } else if shown_for > NEWS_TIME {
            self.ask(asked + left);
        }
    }

    /// Has the store outdo what it has lost.
    async fn outdo(&self, core: &Core) {
        let ahead: Vec<_> = std::mem::take(&mut *self.ahead.lock()).into_iter().collect();
        for shown in ahead.chunks(BATCH_LEN_MAX) {
            warn!(
                users = shown.len(),
                "the store has lost what watchers were shown, and tells them anew"
            );
            if let Err(error) = core.store.outdo(shown.to_vec()).await {
                debug!(%error, "that is left to the next comparison");
            }
        }
    }

    /// Waits until a pass is to begin.
    async fn next(&self) {
        loop {
            let due = *self.due.lock();
            let Some(Due { first, .. }) = due else {
                self.asked.notified().await;
                continue;
            };
            tokio::select! {
                () = sleep_until(first) => break,
                () = self.asked.notified() => {}
            }
        }
        let now = Instant::now();
        let mut due = self.due.lock();
        *due = due.filter(|due| due.last > now).map(|Due { last, .. }| Due { first: last, last });
    }
}

/// Makes the passes, for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        core.reconciler.next().await;
        pass(&core, batches(&core)).await;
    }
}

/// Sweeps over all watched users again and again, for as long as the engine lives.
pub(crate) async fn sweep(core: Arc<Core>) {
    let vary = |time: Duration| time.mul_f64(0.9 + 0.2 * fastrand::f64());
    loop {
        sleep(vary(core.config.sweep)).await;
        for batch in batches(&core) {
            let is_last = batch.len() < BATCH_LEN_MAX;
            pass(&core, iter::once(batch)).await;
            if !is_last {
                sleep(vary(core.strain.stretch(SWEEP_PAUSE))).await;
            }
        }
    }
}

async fn pass(core: &Core, batches: impl Iterator<Item = Vec<UserId>>) {
    let doubtful = compare_all(core, batches, Doubt::Allowed).await;
    if !doubtful.is_empty() {
        sleep(CATCH_UP_TIME).await;
        let again = doubtful.chunks(BATCH_LEN_MAX).map(<[UserId]>::to_vec);
        compare_all(core, again, Doubt::Over).await;
    }
    core.reconciler.outdo(core).await;
}

/// Whether an answer may be put in doubt, to be asked for once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Allowed,
    Over,
}

/// All watched users, in full batches, gathered as they are needed.
fn batches(core: &Core) -> impl Iterator<Item = Vec<UserId>> {
    let (mut shard, mut rest) = (0, Vec::new());
    std::iter::from_fn(move || {
        while rest.len() < BATCH_LEN_MAX && shard < SHARDS {
            rest.extend(core.table.users_of_shard(shard));
            shard += 1;
        }
        let batch = rest.split_off(rest.len().saturating_sub(BATCH_LEN_MAX));
        (!batch.is_empty()).then_some(batch)
    })
}

/// Compares users, and answers those who are to be asked for again.
async fn compare_all(
    core: &Core,
    batches: impl Iterator<Item = Vec<UserId>>,
    doubt: Doubt,
) -> Vec<UserId> {
    let compared = stream::iter(batches).map(async |batch| {
        let asked = Instant::now();
        let doubtful = compare(core, &batch, doubt).await.unwrap_or_else(|error| {
            debug!(%error, "a comparison with the store was left to the next");
            Vec::new()
        });
        sleep(core.strain.stretch(asked.elapsed().max(PAUSE_MIN)).min(PAUSE_MAX)).await;
        doubtful
    });
    compared.buffer_unordered(IN_FLIGHT).concat().await
}

/// Takes over where users stand, and counts what should have been heard of and was not. Who is offline by an answer that was
/// held up may have come back by another call that was: that is left in doubt.
async fn compare(core: &Core, users: &[UserId], doubt: Doubt) -> Result<Vec<UserId>, StoreError> {
    let asked = Instant::now();
    let standings = ask_once(core, users).await?;
    let is_doubtful = |standing: &Standing| !standing.shown().is_online();
    let doubts = doubt == Doubt::Allowed && core.store.has_stalled();
    let (doubtful, sure): (Vec<_>, Vec<_>) =
        standings.into_iter().partition(|standing| doubts && is_doubtful(standing));
    let heard_by_ms = core.store.now_ms().saturating_sub(NEWS_TIME.as_millis() as u64);
    for standing in sure {
        if core.learn(&standing, asked) && standing.view.version / 1000 < heard_by_ms {
            core.metrics.reconciled.inc();
        }
    }
    Ok(doubtful.into_iter().map(|standing| standing.user).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_pass_serves_all_who_asked_for_one_that_begins_by_then() {
        let reconciler = Reconciler::default();
        let start = Instant::now();
        for at in [start + SECOND, start, start, start + 2 * SECOND] {
            reconciler.ask(at);
        }
        reconciler.next().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        reconciler.next().await;
        assert_eq!(start.elapsed(), 2 * SECOND, "for the latest, and all before it");
        let third = tokio::time::timeout(SECOND, reconciler.next()).await;
        assert!(third.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_wish_is_not_kept_waiting_by_a_later_one() {
        let reconciler = Reconciler::default();
        let start = Instant::now();
        reconciler.ask(start + 10 * SECOND);
        let ask = async {
            sleep(SECOND).await;
            reconciler.ask(Instant::now());
        };
        tokio::join!(reconciler.next(), ask);
        assert_eq!(start.elapsed(), SECOND);
    }
}
