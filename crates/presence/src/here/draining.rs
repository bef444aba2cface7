//! Draining: this gateway goes away and sends its clients elsewhere. Their users' places are kept until the TTL, so that
//! nobody who comes back somewhere else flickers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::{CloseReason, UserId};
use tokio::time::sleep;
use tracing::{debug, info};

use crate::engine::Core;
use crate::store::Cause;

/// Sessions are closed in so many batches.
const BATCHES: usize = 20;
const POLL: Duration = Duration::from_millis(20);

/// Whether this gateway drains, and whom it has sent away.
#[derive(Default)]
pub(crate) struct Draining {
    /// For how long reconnects are spread, in ms; 0 while not draining.
    spread_ms: AtomicU64,
    sent_away: Mutex<HashSet<UserId>>,
}

impl Draining {
    pub(crate) fn has_begun(&self) -> bool {
        self.spread_ms.load(Ordering::Relaxed) > 0
    }

    /// When a client that is sent away is to reconnect: a random moment of the first half of the drain time, and of the TTL, for
    /// which its place is kept.
    pub(crate) fn reconnect_after_ms(&self, ttl: Duration) -> u64 {
        let spread_ms = self.spread_ms.load(Ordering::Relaxed).min(ttl.as_millis() as u64);
        fastrand::u64(..=spread_ms / 2)
    }

    /// What a session's end is to be told as. Whoever was sent away keeps the place, also when another session of theirs
    /// dies here meanwhile.
    pub(crate) fn cause_of(&self, cause: Cause, user: &UserId) -> Cause {
        match cause {
            Cause::Closed if self.has_begun() => {
                self.sent_away.lock().insert(user.clone());
                Cause::Drained
            }
            Cause::Silent if self.has_begun() && self.sent_away.lock().contains(user) => {
                Cause::Drained
            }
            cause => cause,
        }
    }
}

/// Sends all clients elsewhere within `time`, and ends when they are gone and the store knows it.
pub(crate) async fn drain(core: &Core, time: Duration) {
    core.draining.spread_ms.store(time.as_millis().max(1) as u64, Ordering::Relaxed);
    let outboxes = core.outboxes.all();
    info!(sessions = outboxes.len(), "draining");
    for outbox in &outboxes {
        outbox.tell_draining();
    }
    let batch_len = outboxes.len().div_ceil(BATCHES).max(1);
    for batch in outboxes.chunks(batch_len) {
        sleep(time / 2 / BATCHES as u32).await;
        for outbox in batch {
            outbox.close(CloseReason::Draining);
        }
    }
    while core.outboxes.len() > 0 || core.claims.len() > 0 {
        // Those that came in just before the gateway began to drain.
        core.outboxes.all().iter().for_each(|outbox| outbox.close(CloseReason::Draining));
        sleep(POLL).await;
    }
    // Nothing is left to do, least of all to renew the lease.
    core.stop();
    if let Err(error) = core.store.release().await {
        debug!(%error, "the lease will lapse by itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_sent_away_comes_back_while_its_place_is_kept() {
        let draining = Draining::default();
        draining.spread_ms.store(30_000, Ordering::Relaxed);
        for (ttl_s, longest_ms) in [(4, 2_000), (90, 15_000)] {
            let ttl = Duration::from_secs(ttl_s);
            let waits = (0..1_000).map(|_| draining.reconnect_after_ms(ttl));
            let longest = waits.max().unwrap();
            assert!(longest > longest_ms / 2 && longest <= longest_ms, "{longest}");
        }
    }
}
