//! The orders of the app's backend, as this gateway knows them: whose tokens count only if they are newer, and about whom
//! it is to be asked again.
//!
//! They are heard as the store's notices. What may have been missed is read from the store: at the start, after a gap, and
//! once a minute. A store that has lost them is told of them again by every gateway that knows them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;
use presence_protocol::UserId;
use tokio::sync::{Notify, broadcast};
use tokio::time::timeout;
use tracing::debug;

use crate::engine::Core;
use crate::store::notice::{Dated, Order};
use crate::store::{ORDERS_LEN_MAX, StoreError};

/// How often the store is looked into for what was missed, give or take a tenth.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

/// How soon again when that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The first looks are whole: gateways may be telling a store that was emptied of orders with earlier dates.
const WHOLE_LOOKS: u64 = 3;

/// A refresh that is older than this is forgotten: there are many, and a gateway that was cut off for longer is rare.
const REFRESH_KEPT: Duration = Duration::from_hours(1);

/// So many refreshed users may wait for those who want to hear of them.
const REFRESHED_LEN_MAX: usize = 1024;

/// The orders that are known here.
pub(crate) struct Orders {
    known: RwLock<HashMap<Order, u64>>,
    /// Up to which date the store was read; only ever moved by reading, since notices may be missed.
    read_until_s: AtomicU64,
    looks: AtomicU64,
    /// The store has lost them, and is to be told.
    is_lost: AtomicBool,
    wanted: Notify,
    refreshed: broadcast::Sender<UserId>,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            read_until_s: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            wanted: Notify::new(),
            refreshed: broadcast::Sender::new(REFRESHED_LEN_MAX),
        }
    }
}

impl Orders {
    /// The first second that an order does not cover; none when it is not known.
    pub(crate) fn date_of(&self, order: &Order) -> Option<u64> {
        self.known.read().get(order).copied()
    }

    pub(crate) fn refreshed(&self) -> broadcast::Receiver<UserId> {
        self.refreshed.subscribe()
    }

    pub(crate) fn len(&self) -> usize {
        self.known.read().len()
    }

    /// Something may have been missed.
    pub(crate) fn look_again(&self) {
        self.wanted.notify_one();
    }

    /// The store has lost all that it was told.
    pub(crate) fn restore(&self) {
        self.is_lost.store(true, Relaxed);
        self.look_again();
    }

    pub(crate) fn note(&self, Dated { order, from_s }: Dated) {
        if let Order::Refresh(user) = &order {
            // Nobody has to listen.
            let _ = self.refreshed.send(user.clone());
        }
        let mut known = self.known.write();
        let date = known.entry(order).or_default();
        *date = (*date).max(from_s);
    }

    fn is_news(&self, dated: &Dated, core: &Core) -> bool {
        let is_known = |date: u64| date >= dated.from_s;
        dated.from_s >= oldest_s(core, &dated.order)
            && !self.date_of(&dated.order).is_some_and(is_known)
    }

    fn forget_old(&self, core: &Core) {
        let mut known = self.known.write();
        known.retain(|order, from_s| *from_s >= oldest_s(core, order));
        if known.len() <= known.capacity() / 4 {
            known.shrink_to_fit();
        }
    }

    fn all(&self) -> Vec<(Order, Option<u64>)> {
        let known = self.known.read();
        known.iter().map(|(order, from_s)| (order.clone(), Some(*from_s))).collect()
    }
}

/// Reads what was missed, for as long as the engine lives.
pub(crate) async fn run(core: std::sync::Arc<Core>) {
    loop {
        let pause = match catch_up(&core).await {
            Ok(()) => LOOK_INTERVAL.mul_f64(0.9 + 0.2 * fastrand::f64()),
            Err(error) => {
                debug!(%error, "the orders of the app's backend could not be read");
                RETRY_PAUSE
            }
        };
        // Either way it is time to look.
        let _ = timeout(pause, core.orders.wanted.notified()).await;
        core.orders.forget_old(&core);
    }
}

/// The earliest date that counts of an order of this kind.
fn oldest_s(core: &Core, order: &Order) -> u64 {
    let kept = match order {
        Order::Refresh(_) => core.config.orders_kept.min(REFRESH_KEPT),
        Order::Revoke(_) => core.config.orders_kept,
    };
    (core.store.now_ms() / 1000).saturating_sub(kept.as_secs())
}

/// Brings this gateway up to the orders that the store remembers, and a store that has lost them up to those known here.
pub(crate) async fn catch_up(core: &Core) -> Result<(), StoreError> {
    let orders = &core.orders;
    if orders.is_lost.load(Relaxed) {
        for batch in orders.all().chunks(ORDERS_LEN_MAX) {
            core.store.record(batch.to_vec()).await?;
        }
        orders.is_lost.store(false, Relaxed);
        orders.looks.store(0, Relaxed);
    }
    let is_whole = orders.looks.load(Relaxed) < WHOLE_LOOKS;
    let mut from_s = if is_whole { 0 } else { orders.read_until_s.load(Relaxed) };
    let mut skip = 0;
    loop {
        let page = core.store.orders(from_s, skip).await?;
        let is_last = page.len() < ORDERS_LEN_MAX;
        if let Some(last_s) = page.last().map(|dated| dated.from_s) {
            let before = if last_s == from_s { skip } else { 0 };
            skip = before + page.iter().filter(|dated| dated.from_s == last_s).count();
            from_s = last_s;
        }
        for dated in page.into_iter().filter(|dated| orders.is_news(dated, core)) {
            core.obey(dated);
        }
        if is_last {
            break;
        }
    }
    orders.read_until_s.store(from_s, Relaxed);
    orders.looks.fetch_add(1, Relaxed);
    Ok(())
}
