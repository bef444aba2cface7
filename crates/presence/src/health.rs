//! Health: whether the store answers. While it does not, clients are told that what they see is the last known state,
//! and this gateway asks for no new clients. Nobody is shown offline for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::clock::wall_ms;
use crate::engine::Core;
use crate::store::{Pulse, Standing, StoreError};

/// How many renewals in a row must fail before clients are told: a blip is not worth a word.
const FAILURES_MIN: u32 = 2;

/// Within this time after the store is back, all gateways have found out and asserted their sessions: half a second to
/// connect again, half a second over which they spread, and some.
const SETTLE_TIME: Duration = Duration::from_millis(2500);

/// The store must have been back for so long before clients are told so: by then most of what they see is right again.
const BACK_TIME: Duration = Duration::from_secs(1);

/// How often the lease is renewed at most, whoever asks for it.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// How long to wait for the store's word about the lease.
const WORD_TIME_MAX: Duration = Duration::from_secs(2);

/// Whether the store answers, and what clients are told of it.
#[derive(Default)]
pub(crate) struct Health {
    is_away: AtomicBool,
    /// Since when states are the last known ones, in ms since the Unix epoch; 0 when they are the latest. It ends only when
    /// the store has been back for [`BACK_TIME`]: sessions are told once of an outage, and not of each return within it.
    degraded_since: AtomicU64,
    answered: Notify,
    /// A renewal is wanted before its time.
    asked: Notify,
    renewed: watch::Sender<Renewal>,
}

/// What the renewals told.
#[derive(Debug, Clone, Copy, Default)]
struct Renewal {
    /// When the latest one began that found the lease good.
    good: Option<Instant>,
    /// Until when gateways assert their sessions, since the store was away or has lost them.
    unsettled_until: Option<Instant>,
}

/// Whether an answer of the store could be taken as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Already,
    /// It is now: what was read before is to be read again.
    SinceNow,
}

impl Health {
    pub(crate) fn is_fine(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed)
    }

    pub(crate) fn degraded_since(&self) -> Option<u64> {
        Some(self.degraded_since.load(Ordering::Relaxed)).filter(|since| *since > 0)
    }

    /// Waits a little, or while degraded until the store answers again.
    pub(crate) async fn wait_for_store(&self, pause: Duration, pause_max: Duration) {
        sleep(pause).await;
        while !self.is_fine() {
            let _ = timeout(pause_max, self.answered.notified()).await;
        }
    }

    /// Whether an answer of the store can be believed. One that takes no writes may have no trace of living users: a
    /// replica that has yet to hear of them, or has just been emptied.
    pub(crate) fn trust(&self, standings: &[Standing]) -> Result<(), StoreError> {
        if self.is_fine() || !standings.iter().any(|standing| standing.view.is_no_trace()) {
            return Ok(());
        }
        Err(StoreError::Unreachable(
            "it takes no writes, and knows not all of the users".to_owned(),
        ))
    }

    /// Waits until it is certain that the store remembers what it was told, for which its next word about our own lease is
    /// proof, and until everybody has asserted its sessions who had to.
    pub(crate) async fn settle(&self) -> Settled {
        let asked = Instant::now();
        let mut renewals = self.renewed.subscribe();
        self.asked.notify_one();
        let is_good = |renewal: &Renewal| renewal.good.is_some_and(|good| good >= asked);
        let Ok(renewal) = timeout(WORD_TIME_MAX, renewals.wait_for(is_good)).await else {
            return Settled::SinceNow;
        };
        match renewal.ok().and_then(|renewal| renewal.unsettled_until) {
            Some(until) if until > asked => {
                sleep_until(until).await;
                Settled::SinceNow
            }
            _ => Settled::Already,
        }
    }

    /// The store was away, and may have lost what it was told.
    pub(crate) fn unsettle(&self) {
        self.unsettle_for(SETTLE_TIME);
    }

    fn unsettle_for(&self, time: Duration) {
        let until = Some(Instant::now() + time);
        self.renewed.send_modify(|renewal| {
            renewal.unsettled_until = renewal.unsettled_until.max(until);
        });
    }

    fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
        if !is_away {
            self.answered.notify_waiters();
        }
    }
}

/// Renews the lease for as long as the engine lives, and acts on what that tells.
pub(crate) async fn run(core: Arc<Core>) {
    let mut failures = 0;
    let mut back_since = Instant::now();
    loop {
        let began = Instant::now();
        let renewed = core.store.renew().await;
        core.strain.note_answer(began.elapsed());
        match renewed {
            Ok(pulse) => {
                failures = 0;
                core.metrics.renewal_time.note(began.elapsed());
                let lost = pulse.lost;
                heed(&core, pulse);
                if !lost {
                    core.health.renewed.send_modify(|renewal| renewal.good = Some(began));
                }
            }
            Err(error) => {
                failures += 1;
                core.metrics.store_errors.inc();
                debug!(%error, "the lease was not renewed");
            }
        }
        match (core.health.is_fine(), failures) {
            (true, FAILURES_MIN..) => {
                warn!("the store is out of reach: states are the last known ones until it answers");
                core.health.set_away(true);
                core.outboxes.all().iter().for_each(|outbox| outbox.welcome());
                tell_all(&core, core.health.degraded_since().unwrap_or_else(wall_ms));
            }
            (false, 0) => {
                info!("the store answers again");
                core.table.begin_no_trace_anew();
                core.health.set_away(false);
                core.health.unsettle();
                core.assert_all_again();
                core.reconcile_soon();
                back_since = Instant::now();
            }
            (true, 0) => match core.store.ailment() {
                Some(_) => tell_all(&core, core.health.degraded_since().unwrap_or_else(wall_ms)),
                None if back_since.elapsed() > BACK_TIME => tell_all(&core, 0),
                None => {}
            },
            _ => {}
        }
        let pause = core.config.renewal().mul_f64(0.9 + 0.2 * fastrand::f64());
        sleep(PAUSE_MIN).await;
        let _ = timeout(pause, core.health.asked.notified()).await;
    }
}

fn heed(core: &Arc<Core>, pulse: Pulse) {
    let born = pulse.age.and_then(|age| Instant::now().checked_sub(age));
    core.table.note_loss(born, pulse.missing);
    // One that has just been born may have lost everything, where gateways lived that have yet to find out.
    if let Some(age) = pulse.age.filter(|age| *age < SETTLE_TIME) {
        core.health.unsettle_for(SETTLE_TIME.saturating_sub(age));
    }
    if pulse.lost {
        core.metrics.losses.inc();
        warn!(
            "the lease is lost or has lapsed, others may not know of these users: all sessions are asserted again"
        );
        core.assert_all_again();
        core.reconcile_soon();
        core.orders.restore();
    }
    for lapse in pulse.lapsed {
        core.reap(lapse);
    }
}

/// Tells all sessions since when what they see is the last known state, 0 when it is the latest; nothing when that is no
/// news.
fn tell_all(core: &Core, since: u64) {
    if core.health.degraded_since.swap(since, Ordering::Relaxed) != since {
        core.metrics.degraded.set(i64::from(since > 0));
        core.outboxes.all().iter().for_each(|outbox| outbox.tell_health());
    }
}
