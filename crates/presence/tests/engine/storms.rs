//! What many sessions ask and tell is gathered: what a storm of sign-ins, and its aftermath, costs the store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use presence::store::Opened;
use presence::store::embedded::EmbeddedHub;
use presence::{Config, Metrics, Presence};
use tokio::time::{Instant, sleep};

use crate::client::{Client, user};
use crate::slow::Slow;

const SNAPSHOT_TIME: Duration = Duration::from_millis(100);

/// A gateway whose store takes its time for look-ups, and the store.
fn presence() -> (Presence, Arc<Slow>) {
    presence_on(|store| Slow { snapshot_time: SNAPSHOT_TIME, ..store })
}

fn presence_on(change: impl FnOnce(Slow) -> Slow) -> (Presence, Arc<Slow>) {
    let Opened { store, events } = EmbeddedHub::new(Config::default()).open("g");
    let slow = Arc::new(change(Slow::new(store)));
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

/// What an overload leaves behind is not to be the next one.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_answered_is_asked_for_in_a_few_calls_with_rests() {
    let (presence, store) = presence();
    let mut clients: Vec<Client> =
        (0..1_000).map(|n| Client::join(&presence, &format!("u{n}"), None, None)).collect();
    clients[0].live_for(Duration::from_millis(1)).await;
    let before = store.snapshots.load(Relaxed);
    store.snapshots_fail.store(true, Relaxed);
    for (n, client) in clients.iter().enumerate() {
        client.watch(&[&format!("x{n}"), &format!("y{n}")]);
    }
    clients[0].live_for(Duration::from_secs(10)).await;
    let failed = store.snapshots.load(Relaxed) - before;
    assert!((6..=20).contains(&failed), "{failed}");

    store.snapshots_fail.store(false, Relaxed);
    let before = store.snapshots.load(Relaxed);
    clients[0].live_for(Duration::from_secs(5)).await;
    for client in &mut clients {
        client.live_for(Duration::from_millis(1)).await;
        assert_eq!(client.view.len(), 2);
    }
    // 2,000 users in batches of 500, of which one may have been under way as the store went on.
    let asked = store.snapshots.load(Relaxed) - before;
    assert!((3..=5).contains(&asked), "{asked}");
}

/// Each batch is a message to every gateway.
#[tokio::test(start_paused = true)]
async fn one_of_many_gateways_tells_the_first_change_at_once_and_gathers_those_after_it() {
    let (presence, store) = presence_on(|store| Slow { gateways: 51, ..store });
    let started = Instant::now();
    let mut clients = Vec::new();
    for n in 0..1_000 {
        clients.push(Client::join(&presence, &format!("u{n}"), None, None));
        sleep(Duration::from_millis(1)).await;
    }
    let batches = store.batches.lock().clone();
    assert!(batches[0] - started < Duration::from_millis(5));
    let pauses: Vec<Duration> = batches.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.iter().all(|pause| *pause >= Duration::from_millis(99)), "{pauses:?}");
    assert!((8..=11).contains(&batches.len()), "{pauses:?}");
}
