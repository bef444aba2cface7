//! What a store that takes its time must not do to what watchers are shown.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use presence::store::embedded::EmbeddedHub;
use presence::store::{BATCH_LEN_MAX, Event, Opened};
use presence::{Config, Metrics, Presence, Request, Veils};
use presence_protocol::{Availability, Show, Status};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::client::{Client, user};
use crate::slow::Slow;

/// A gateway whose store takes so long to take claims over.
fn slow_to_tell(hub: &EmbeddedHub, gateway: &str, apply_time: Duration) -> Presence {
    let Opened { store, events } = hub.open(gateway);
    let store = Arc::new(Slow { apply_time, ..Slow::new(store) });
    Presence::start(Config::default(), Opened { store, events }, Metrics::default())
}

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
    let presence = slow_to_tell(&EmbeddedHub::new(config.clone()), "g", Duration::from_millis(100));
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

#[tokio::test(start_paused = true)]
async fn whoever_is_told_to_be_in_is_known_to_the_store() {
    const APPLY: Duration = Duration::from_millis(100);
    let presence = slow_to_tell(&EmbeddedHub::new(Config::default()), "g", APPLY);
    let start = Instant::now();
    let mut first = Client::join(&presence, "ana", Some("ios"), None);
    first.live_for(APPLY / 2).await;
    let mut second = Client::join(&presence, "ana", Some("ios"), None);
    tokio::join!(first.live_for(2 * APPLY), second.live_for(2 * APPLY));
    let waited = |client: &Client| client.welcomed.expect("it is in") - start;
    assert!(waited(&first) >= APPLY);
    assert!(waited(&second) >= 2 * APPLY, "the first call was under way when it came");
    let joined = Instant::now();
    let mut third = Client::join(&presence, "ana", Some("ios"), None);
    third.live_for(APPLY / 2).await;
    assert_eq!(
        third.welcomed,
        Some(joined),
        "it changes nothing that the store would have to know"
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_back_while_the_store_is_told_of_the_loss_is_in_when_it_knows_of_the_return() {
    const APPLY: Duration = Duration::from_millis(100);
    let presence = slow_to_tell(&EmbeddedHub::new(Config::default()), "g", APPLY);
    let mut first = Client::join(&presence, "ana", None, None);
    first.live_for(2 * APPLY).await;
    let lost = Instant::now();
    drop(first);
    tokio::time::sleep(APPLY / 2).await;
    let mut second = Client::join(&presence, "ana", None, None);
    second.live_for(3 * APPLY).await;
    assert!(second.welcomed.expect("it is in") >= lost + 2 * APPLY);
}

/// After a fault everybody is told of again.
#[tokio::test(start_paused = true)]
async fn newcomers_do_not_wait_for_those_who_are_told_of_again() {
    const APPLY: Duration = Duration::from_millis(300);
    const BATCHES: usize = 12;
    let store = EmbeddedHub::new(Config::default()).open("g").store;
    let store = Arc::new(Slow { apply_time: APPLY, ..Slow::new(store) });
    let (tell, events) = mpsc::channel(1);
    let presence = Presence::start(Config::default(), Opened { store, events }, Metrics::default());
    let names = (0..BATCHES * BATCH_LEN_MAX).map(|number| format!("u{number}"));
    let crowd: Vec<Client> = names.map(|name| Client::join(&presence, &name, None, None)).collect();
    tokio::time::sleep(APPLY * 2 * BATCHES as u32).await;
    tell.send(Event::Reconnected).await.expect("it is heard");
    // By then all of them wait.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let joined = Instant::now();
    let mut newcomer = Client::join(&presence, "ana", None, None);
    newcomer.live_for(APPLY * 2 * BATCHES as u32).await;
    let waited = newcomer.welcomed.expect("it is in") - joined;
    assert!(waited <= 2 * APPLY, "{waited:?}");
    drop(crowd);
}

/// The new session's gateway is slower than the old one's: that would have the last word.
#[tokio::test(start_paused = true)]
async fn who_signs_out_where_it_was_when_it_is_in_elsewhere_is_never_offline() {
    let hub = EmbeddedHub::new(Config::default());
    let there = Presence::start(Config::default(), hub.open("there"), Metrics::default());
    let here = slow_to_tell(&hub, "here", Duration::from_millis(100));
    let mut watcher = Client::join(&there, "ana", None, None);
    let old = Client::join(&there, "bo", None, None);
    watcher.watch(&["bo"]);
    watcher.live_for(Duration::from_secs(1)).await;
    let before = watcher.pushed;
    let mut new = Client::join(&here, "bo", None, None);
    while new.welcomed.is_none() {
        new.live_for(Duration::from_millis(1)).await;
    }
    old.session.bye();
    watcher.live_for(Duration::from_secs(1)).await;
    assert_eq!(watcher.view[&user("bo")].state, Availability::Online);
    assert_eq!(watcher.pushed, before);
}
