//! What a store that takes its time must not do to what watchers are shown.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use presence::store::Opened;
use presence::store::embedded::EmbeddedHub;
use presence::{Config, Metrics, Presence, Request, Veils};
use presence_protocol::{Availability, Show, Status};
use tokio::sync::{Notify, mpsc};

use crate::client::{Client, user};
use crate::slow::Slow;

#[tokio::test(start_paused = true)]
async fn a_look_up_that_is_answered_late_takes_nothing_back() {
    const MOMENT: Duration = Duration::from_millis(20);
    let config = Config::default();
    let hub = EmbeddedHub::new(config.clone());
    let there = Presence::start(config.clone(), hub.open("there"), Metrics::default());
    let let_go = Arc::new(Notify::new());
    let late = Slow { first_answer: Some(let_go.clone()), ..Slow::new(hub.open("here").store) };
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

    let query = || Request::Query { users: vec![user("bo")], veils: Veils::new(), id: None };
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

#[tokio::test(start_paused = true)]
async fn who_is_lost_between_two_batches_has_the_grace_to_come_back() {
    let config = Config::default();
    let Opened { store, events } = EmbeddedHub::new(config.clone()).open("g");
    let slow = Slow { apply_time: Duration::from_millis(100), ..Slow::new(store) };
    let opened = Opened { store: Arc::new(slow), events };
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

/// What is asked again for a session may be answered when the session has watched the user anew, and was refused once more.
#[tokio::test(start_paused = true)]
async fn who_is_watched_anew_while_the_store_is_asked_again_is_told_of_all_the_same() {
    const ANSWER: Duration = Duration::from_millis(100);
    const AFTER: Duration = Duration::from_millis(10);
    let Opened { store, events } = EmbeddedHub::new(Config::default()).open("g");
    let slow = Arc::new(Slow { snapshot_time: ANSWER, ..Slow::new(store) });
    let opened = Opened { store: slow.clone(), events };
    let presence = Presence::start(Config::default(), opened, Metrics::default());
    let mut ana = Client::join(&presence, "ana", None, None);
    ana.live_for(AFTER).await;
    slow.snapshots_fail.store(true, Relaxed);
    ana.watch(&["bo"]);
    ana.live_for(ANSWER + AFTER).await;

    // The store is asked again, and with care: twice.
    slow.snapshots_fail.store(false, Relaxed);
    slow.has_stalled.store(true, Relaxed);
    let asked = slow.snapshots.load(Relaxed);
    while slow.snapshots.load(Relaxed) == asked {
        ana.live_for(Duration::from_millis(1)).await;
    }
    ana.live_for(ANSWER + AFTER).await;
    slow.snapshots_fail.store(true, Relaxed);
    ana.session.request(Request::Unwatch { users: vec![user("bo")] });
    ana.watch(&["bo"]);
    ana.live_for(ANSWER + AFTER).await;
    assert_eq!(slow.snapshots.load(Relaxed), asked + 2, "the second answer is still to come");
    slow.snapshots_fail.store(false, Relaxed);
    slow.has_stalled.store(false, Relaxed);
    ana.live_for(Duration::from_secs(5)).await;
    assert!(ana.view.contains_key(&user("bo")), "{:?}", ana.view);
}
