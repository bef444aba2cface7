//! Sessions that end while the store is slow: what is told of them is still held back for the grace.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use presence::store::embedded::EmbeddedHub;
use presence::store::{Claim, Opened, Pulse, Standing, Store, StoreError};
use presence::{Config, Metrics, Presence};
use presence_protocol::{Availability, UserId};
use tokio::time::sleep;

use crate::client::Client;

/// A store that takes a while to be told.
struct Slow(Arc<dyn Store>);

#[async_trait]
impl Store for Slow {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        sleep(Duration::from_millis(100)).await;
        self.0.apply(claims).await
    }
    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        self.0.refresh(users).await
    }
    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        self.0.snapshot(users).await
    }
    async fn disconnect(&self, user: UserId) -> Result<(), StoreError> {
        self.0.disconnect(user).await
    }
    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }
    async fn renew(&self) -> Result<Pulse, StoreError> {
        self.0.renew().await
    }
    fn gateway(&self) -> &str {
        self.0.gateway()
    }
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_lost_between_two_batches_has_the_grace_to_come_back() {
    let config = Config::default();
    let Opened { store, events } = EmbeddedHub::new(config.clone()).open("g");
    let opened = Opened { store: Arc::new(Slow(store)), events };
    let presence = Presence::start(config.clone(), opened, Metrics::default());
    let names: Vec<String> = (0..1000).map(|number| format!("u{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();

    let mut watcher = Client::join(&presence, "ana", None, None);
    let join = |device| -> Vec<Client> {
        names.iter().map(|name| Client::join(&presence, name, Some(device), None)).collect()
    };
    let phones = join("ios");
    watcher.live_for(config.grace).await;
    watcher.watch(&names);
    watcher.live_for(Duration::from_millis(50)).await;
    assert!(watcher.view.values().all(|state| state.state == Availability::Online));

    // Tablets join: two batches, one after the other. While the first is in flight, everybody's network is gone.
    let tablets = join("tablet");
    watcher.live_for(Duration::from_millis(50)).await;
    drop((phones, tablets));
    watcher.live_for(Duration::from_secs(1)).await;
    let off = watcher.view.values().filter(|state| state.state == Availability::Offline).count();
    assert_eq!(off, 0, "shown offline within the grace");
}
