//! Reads of many sessions are gathered: what a storm of sign-ins asks of the store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use presence::store::Opened;
use presence::store::embedded::EmbeddedHub;
use presence::{Config, Metrics, Presence};

use crate::client::{Client, user};
use crate::slow::Slow;

const SNAPSHOT_TIME: Duration = Duration::from_millis(100);

/// A gateway whose store takes its time for look-ups, and the store.
fn presence() -> (Presence, Arc<Slow>) {
    let Opened { store, events } = EmbeddedHub::new(Config::default()).open("g");
    let slow = Arc::new(Slow { snapshot_time: SNAPSHOT_TIME, ..Slow::new(store) });
    let opened = Opened { store: slow.clone(), events };
    (Presence::start(Config::default(), opened, Metrics::default()), slow)
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_watches_asks_the_store_a_few_times() {
    let (presence, store) = presence();
    let mut clients: Vec<Client> =
        (0..1_000).map(|n| Client::join(&presence, &format!("u{n}"), None, None)).collect();
    clients[0].live_for(Duration::from_millis(1)).await;
    let before = store.snapshots.load(Relaxed);
    for (n, client) in clients.iter().enumerate() {
        client.watch(&[&format!("x{n}"), &format!("y{n}")]);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        client.live_for(Duration::from_millis(1)).await;
        while client.view.is_empty() {
            client.live_for(SNAPSHOT_TIME).await;
        }
        assert!(client.view.contains_key(&user(&format!("x{n}"))));
        assert!(client.view.contains_key(&user(&format!("y{n}"))));
    }
    // 2,000 users in batches of 500, and some that went while few had come.
    let asked = store.snapshots.load(Relaxed) - before;
    assert!((4..=10).contains(&asked), "{asked}");
}
