//! What a slow answer of the store must not do: a store whose first look-up is answered late, and whose events wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use presence::store::embedded::EmbeddedHub;
use presence::store::{Claim, Opened, Pulse, Standing, Store, StoreError};
use presence::{Config, Metrics, Presence, Request};
use presence_protocol::{Show, Status, UserId};
use tokio::sync::{Notify, mpsc};

use crate::client::{Client, user};

/// Reads at once; the answer to the first look-up comes when it is let go.
struct Late {
    store: Arc<dyn Store>,
    first: AtomicBool,
    let_go: Arc<Notify>,
}

#[async_trait]
impl Store for Late {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        self.store.apply(claims).await
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        self.store.refresh(users).await
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        let standings = self.store.snapshot(users).await;
        if self.first.swap(false, Ordering::Relaxed) {
            self.let_go.notified().await;
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

    fn gateway(&self) -> &str {
        self.store.gateway()
    }

    fn now_ms(&self) -> u64 {
        self.store.now_ms()
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_is_answered_late_takes_nothing_back() {
    const MOMENT: Duration = Duration::from_millis(20);
    let config = Config::default();
    let hub = EmbeddedHub::new(config.clone());
    let there = Presence::start(config.clone(), hub.open("there"), Metrics::default());
    let let_go = Arc::new(Notify::new());
    let late = Late {
        store: hub.open("here").store,
        first: AtomicBool::new(true),
        let_go: let_go.clone(),
    };
    // Nothing is ever heard here.
    let (_silent, events) = mpsc::channel(1);
    let here =
        Presence::start(config, Opened { store: Arc::new(late), events }, Metrics::default());

    let bo = Client::join(&there, "bo", None, None);
    let mut slow = Client::join(&here, "slow", None, None);
    let mut quick = Client::join(&here, "quick", None, None);
    quick.live_for(MOMENT).await;
    slow.watch(&["bo"]);
    quick.live_for(MOMENT).await;
    bo.session.set_status(Status { show: Show::Busy, text: None });
    quick.live_for(MOMENT).await;

    let query = || Request::Query { users: vec![user("bo")], id: None };
    quick.session.request(query());
    quick.live_for(MOMENT).await;
    assert_eq!(quick.view[&user("bo")].show, Some(Show::Busy));
    let_go.notify_one();
    slow.live_for(MOMENT).await;
    assert_eq!(slow.view[&user("bo")].show, Some(Show::Busy));
    // A client panics when a version goes backwards.
    quick.session.request(query());
    quick.live_for(MOMENT).await;
}
