//! A store that takes its time, in front of one that does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use presence::store::{Claim, Pulse, Standing, Store, StoreError};
use presence_protocol::UserId;
use tokio::sync::Notify;
use tokio::time::sleep;

pub(crate) struct Slow {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) is_first: AtomicBool,
    /// How long every look-up takes.
    pub(crate) snapshot_time: Duration,
    /// How many look-ups there were.
    pub(crate) snapshots: AtomicUsize,
    /// How long it takes before claims are taken over.
    pub(crate) apply_time: Duration,
    /// The first look-up is read at once, and answered when this is notified.
    pub(crate) first_answer: Option<Arc<Notify>>,
    /// Calls are held up.
    pub(crate) has_stalled: AtomicBool,
}

impl Slow {
    /// Not slow yet.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_first: AtomicBool::new(true),
            snapshot_time: Duration::ZERO,
            snapshots: AtomicUsize::new(0),
            apply_time: Duration::ZERO,
            first_answer: None,
            has_stalled: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Store for Slow {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        sleep(self.apply_time).await;
        self.store.apply(claims).await
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        self.store.refresh(users).await
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        self.snapshots.fetch_add(1, Relaxed);
        sleep(self.snapshot_time).await;
        let standings = self.store.snapshot(users).await;
        if let Some(let_go) =
            self.first_answer.as_ref().filter(|_| self.is_first.swap(false, Relaxed))
        {
            let_go.notified().await;
        }
        standings
    }

    async fn disconnect(&self, user: UserId) -> Result<(), StoreError> {
        self.store.disconnect(user).await
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

    fn gateway(&self) -> &str {
        self.store.gateway()
    }

    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }
}
