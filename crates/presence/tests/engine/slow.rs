//! A store that takes its time, in front of one that does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use presence::store::notice::{Dated, Notice, Order};
use presence::store::{Claim, Lease, Pulse, Standing, Store, StoreError};
use presence_protocol::UserId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub(crate) struct Slow {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) is_first: AtomicBool,
    /// How long every look-up takes.
    pub(crate) snapshot_time: Duration,
    /// How many look-ups there were.
    pub(crate) snapshots: AtomicUsize,
    /// Look-ups fail, when they have taken their time.
    pub(crate) snapshots_fail: AtomicBool,
    /// How long it takes before claims are taken over.
    pub(crate) apply_time: Duration,
    /// The first look-up is read at once, and answered when this is notified.
    pub(crate) first_answer: Option<Arc<Notify>>,
    /// Calls are held up.
    pub(crate) has_stalled: AtomicBool,
    /// How many gateways it says there are.
    pub(crate) gateways: u32,
    /// When each batch of claims came.
    pub(crate) batches: Mutex<Vec<Instant>>,
}

impl Slow {
    /// Not slow yet.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_first: AtomicBool::new(true),
            snapshot_time: Duration::ZERO,
            snapshots: AtomicUsize::new(0),
            snapshots_fail: AtomicBool::new(false),
            apply_time: Duration::ZERO,
            first_answer: None,
            has_stalled: AtomicBool::new(false),
            gateways: 1,
            batches: Mutex::default(),
        }
    }
}

#[async_trait]
impl Store for Slow {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        self.batches.lock().push(Instant::now());
        sleep(self.apply_time).await;
        self.store.apply(claims).await
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        self.store.refresh(users).await
    }

    async fn outdo(&self, shown: Vec<(UserId, u64)>) -> Result<(), StoreError> {
        self.store.outdo(shown).await
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        self.snapshots.fetch_add(1, Relaxed);
        sleep(self.snapshot_time).await;
        if self.snapshots_fail.load(Relaxed) {
            return Err(StoreError::Unreachable("it fails on purpose".to_owned()));
        }
        let standings = self.store.snapshot(users).await;
        if let Some(let_go) =
            self.first_answer.as_ref().filter(|_| self.is_first.swap(false, Relaxed))
        {
            let_go.notified().await;
        }
        standings
    }

    async fn tell(&self, notice: Notice) -> Result<(), StoreError> {
        self.store.tell(notice).await
    }

    async fn record(&self, orders: Vec<(Order, Option<u64>)>) -> Result<u64, StoreError> {
        self.store.record(orders).await
    }

    async fn orders(&self, from_s: u64, skip: usize) -> Result<Vec<Dated>, StoreError> {
        self.store.orders(from_s, skip).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.store.release().await
    }

    async fn renew(&self) -> Result<Pulse, StoreError> {
        self.store.renew().await
    }

    fn has_stalled(&self) -> bool {
        self.has_stalled.load(Relaxed)
    }

    fn gateways(&self) -> u32 {
        self.gateways
    }

    fn leases(&self) -> Vec<Lease> {
        self.store.leases()
    }

    fn gateway(&self) -> &str {
        self.store.gateway()
    }

    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }
}
