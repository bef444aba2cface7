//! What the engine does while its store cannot serve, and when it is back: a store that a test can break.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use presence::store::embedded::EmbeddedHub;
use presence::store::notice::{Dated, Notice, Order};
use presence::store::view::View;
use presence::store::{
    Cause, Claim, Contribution, Lease, Opened, Pulse, Standing, Store, StoreError,
};
use presence::{Config, Metrics, Presence, Request, Veils};
use presence_protocol::{Availability, UserId};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::client::{Client, user};
use crate::slow::Slow;

/// Longer than TTL and grace.
const OUTAGE: Duration = Duration::from_secs(40);

#[derive(Clone, Copy, PartialEq)]
enum State {
    Fine,
    Away,
    /// Takes no writes, and has lost all it knew: a replica of an empty server.
    Emptied,
    /// Takes writes again, and was not told yet of those who are here.
    Empty,
}

/// A store that breaks as it is told, and notes what it was told.
struct Fragile {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    /// When each batch of claims came, and whom it was about.
    batches: Mutex<Vec<(Instant, Vec<UserId>)>>,
}

impl Fragile {
    fn check(&self, works_in: &[State]) -> Result<(), StoreError> {
        let works = works_in.contains(&*self.state.lock());
        works.then_some(()).ok_or_else(|| StoreError::Unreachable("broken on purpose".to_owned()))
    }

    fn turn(&self, state: State) {
        *self.state.lock() = state;
    }
}

#[async_trait]
impl Store for Fragile {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        self.check(&[State::Fine, State::Empty])?;
        let users = claims.iter().map(|claim| claim.user.clone()).collect();
        self.batches.lock().push((Instant::now(), users));
        self.store.apply(claims).await
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        self.check(&[State::Fine, State::Empty])?;
        self.store.refresh(users).await
    }

    async fn outdo(&self, shown: Vec<(UserId, u64)>) -> Result<(), StoreError> {
        self.store.outdo(shown).await
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        self.check(&[State::Fine, State::Emptied, State::Empty])?;
        if self.check(&[State::Fine]).is_err() {
            let no_trace = |user| Standing::settled(user, View::NO_TRACE);
            return Ok(users.into_iter().map(no_trace).collect());
        }
        self.store.snapshot(users).await
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
        self.check(&[State::Fine, State::Empty])?;
        self.store.renew().await
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

fn start(config: &Config) -> (Presence, Arc<Fragile>) {
    let Opened { store, events } = EmbeddedHub::new(config.clone()).open("g");
    let batches = Mutex::default();
    let fragile = Arc::new(Fragile { store, state: Mutex::new(State::Fine), batches });
    let opened = Opened { store: fragile.clone(), events };
    (Presence::start(config.clone(), opened, Metrics::default()), fragile)
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_sessions_are_asserted_again_in_paced_batches_whatever_was_heard_meanwhile()
{
    const USERS: usize = 5000;
    let (presence, store) = start(&Config::default());
    let name = |number| format!("u{number}");
    let clients: Vec<_> =
        (0..USERS).map(|number| Client::join(&presence, &name(number), None, None)).collect();
    sleep(Duration::from_secs(1)).await;

    store.turn(State::Away);
    let end = Instant::now() + OUTAGE;
    while Instant::now() < end {
        sleep(Duration::from_secs(1)).await;
        for client in &clients {
            client.session.heard();
        }
    }
    store.batches.lock().clear();
    store.turn(State::Fine);
    sleep(Duration::from_secs(5)).await;

    let batches = store.batches.lock();
    let largest = batches.iter().map(|(_, users)| users.len()).max().expect("there are some");
    assert!(largest <= USERS / 20, "{largest} users at once");
    let took = batches[batches.len() - 1].0 - batches[0].0;
    assert!(took > Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    let mut times = HashMap::new();
    for user in batches.iter().flat_map(|(_, users)| users) {
        *times.entry(user).or_insert(0) += 1;
    }
    assert_eq!(times.len(), USERS);
    // Once, and once more who was found lapsed meanwhile: no heartbeat was kept.
    assert!(times.values().all(|times| *times <= 2));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_no_writes_and_knows_nobody_is_not_believed() {
    // Read so often that there are many answers, also before it is known that the store is out of reach.
    let config = Config { sweep: Duration::from_millis(100), ..Config::default() };
    let (presence, store) = start(&config);
    let _bo = Client::join(&presence, "bo", None, None);
    let mut ana = Client::join(&presence, "ana", None, None);
    sleep(Duration::from_secs(1)).await;
    ana.watch(&["bo"]);
    ana.live_for(Duration::from_secs(1)).await;
    assert!(ana.view.contains_key(&user("bo")));

    store.turn(State::Emptied);
    // Longer than a user without a trace is held, and not so long that one lapses.
    ana.live_for(Duration::from_secs(8)).await;
    assert!(presence.degraded_since().is_some());
    store.turn(State::Empty);
    ana.live_for(Duration::from_secs(2)).await;
    store.turn(State::Fine);
    ana.live_for(Duration::from_secs(20)).await;
    assert!(presence.degraded_since().is_none());
    assert_eq!(ana.pushed, 0, "nobody went");
}

/// Events go at most once: here a loss is never told.
#[tokio::test(start_paused = true)]
async fn what_was_never_told_is_found_by_the_sweep_and_counted() {
    let config = Config::default();
    let hub = EmbeddedHub::new(config.clone());
    let Opened { store, events: mut told } = hub.open("g");
    let deaf = Arc::new(AtomicBool::new(false));
    let (tell, events) = mpsc::channel(100);
    let misses = deaf.clone();
    tokio::spawn(async move {
        while let Some(event) = told.recv().await {
            if !misses.load(Relaxed) {
                tell.send(event).await.expect("the engine listens");
            }
        }
    });
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let reconciled = || {
        let mut page = String::new();
        encode(&mut page, &registry).expect("a page");
        page.lines().any(|line| line.starts_with("reconciled_total 1"))
    };
    let presence = Presence::start(config.clone(), Opened { store, events }, metrics);
    let other = Presence::start(config.clone(), hub.open("h"), Metrics::default());
    let bo = Client::join(&other, "bo", None, None);
    let mut ana = Client::join(&presence, "ana", None, None);
    ana.watch(&["bo"]);
    ana.live_for(Duration::from_secs(1)).await;
    assert!(ana.view[&user("bo")].state == Availability::Online);

    deaf.store(true, Relaxed);
    bo.session.bye();
    ana.live_for(Duration::from_secs(5)).await;
    deaf.store(false, Relaxed);
    assert!(ana.view[&user("bo")].state == Availability::Online && !reconciled());
    ana.live_for(config.sweep * 2).await;
    assert!(ana.view[&user("bo")].state == Availability::Offline && reconciled());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_watched_while_the_store_is_away_is_told_of_all_the_same() {
    let (presence, store) = start(&Config::default());
    let mut eve = Client::join(&presence, "eve", None, None);
    let mut ana = Client::join(&presence, "ana", None, None);
    let (_bo, _cy) =
        (Client::join(&presence, "bo", None, None), Client::join(&presence, "cy", None, None));
    eve.watch(&["bo"]);
    eve.live_for(Duration::from_secs(1)).await;

    store.turn(State::Away);
    ana.watch(&["bo", "cy"]);
    ana.live_for(Duration::from_secs(1)).await;
    assert!(ana.view.contains_key(&user("bo")), "known here, since eve watches it");
    assert!(!ana.view.contains_key(&user("cy")));
    store.turn(State::Fine);
    ana.live_for(Duration::from_secs(3)).await;
    assert!(ana.view.contains_key(&user("cy")), "long before the next comparison");
}

#[tokio::test(start_paused = true)]
async fn who_is_veiled_is_known_no_sooner_than_anybody_while_the_store_is_away() {
    let (presence, store) = start(&Config::default());
    let mut eve = Client::join(&presence, "eve", None, None);
    let mut ana = Client::join(&presence, "ana", None, None);
    let (_bo, _cy) =
        (Client::join(&presence, "bo", None, None), Client::join(&presence, "cy", None, None));
    eve.watch(&["bo"]);
    eve.live_for(Duration::from_secs(1)).await;

    store.turn(State::Away);
    let veils = Veils::from([(user("bo"), 5_000_007), (user("cy"), 6_000_008)]);
    let users = vec![user("bo"), user("cy")];
    ana.session.request(Request::Watch { users, veils, id: None });
    ana.live_for(Duration::from_secs(1)).await;
    assert!(ana.view.contains_key(&user("bo")), "as it would be known without the veil");
    assert!(!ana.view.contains_key(&user("cy")));
    store.turn(State::Fine);
    ana.live_for(Duration::from_secs(3)).await;
    for (name, since_ms) in [("bo", 5_000), ("cy", 6_000)] {
        let seen = &ana.view[&user(name)];
        assert_eq!((seen.state, seen.since), (Availability::Offline, Some(since_ms)), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_was_refused_is_told_of_those_whom_others_have_asked_for_since() {
    let (presence, store) = start(&Config::default());
    let mut ana = Client::join(&presence, "ana", None, None);
    let mut eve = Client::join(&presence, "eve", None, None);
    let _cy = Client::join(&presence, "cy", None, None);
    ana.live_for(Duration::from_secs(1)).await;
    store.turn(State::Away);
    ana.live_for(Duration::from_secs(5)).await;
    ana.watch(&["cy"]);
    ana.live_for(Duration::from_secs(1)).await;
    store.turn(State::Fine);
    eve.watch(&["cy"]);
    eve.live_for(Duration::from_millis(10)).await;
    assert!(eve.view.contains_key(&user("cy")), "it is known here now");
    ana.live_for(Duration::from_secs(5)).await;
    assert!(ana.view.contains_key(&user("cy")));
}

#[tokio::test(start_paused = true)]
async fn who_watches_as_the_store_comes_back_empty_is_not_told_of_living_users_as_unknown() {
    let (presence, store) = start(&Config::default());
    let _bo = Client::join(&presence, "bo", None, None);
    sleep(Duration::from_secs(1)).await;
    store.turn(State::Away);
    sleep(Duration::from_secs(5)).await;
    assert!(presence.degraded_since().is_some());
    store.turn(State::Empty);
    while !presence.is_ready() {
        sleep(Duration::from_millis(10)).await;
    }
    let mut ana = Client::join(&presence, "ana", None, None);
    ana.watch(&["bo"]);
    ana.live_for(Duration::from_secs(1)).await;
    assert!(ana.view.is_empty(), "{:?}", ana.view);
    store.turn(State::Fine);
    ana.live_for(Duration::from_secs(3)).await;
    assert_eq!(ana.view[&user("bo")].state, Availability::Online);
    assert_eq!(ana.pushed, 0, "its first answer was right");
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_is_answered_though_the_store_is_lost_again_meanwhile() {
    let (presence, store) = start(&Config::default());
    let mut ana = Client::join(&presence, "ana", None, None);
    ana.live_for(Duration::from_secs(1)).await;
    for round in 0..2 {
        store.turn(State::Away);
        ana.live_for(Duration::from_secs(5)).await;
        store.turn(State::Fine);
        while !presence.is_ready() {
            ana.live_for(Duration::from_millis(10)).await;
        }
        if round == 0 {
            ana.watch(&["nobody"]);
            ana.live_for(Duration::from_secs(1)).await;
        }
    }
    ana.live_for(Duration::from_secs(10)).await;
    assert!(ana.view.contains_key(&user("nobody")));
}

/// The news of a return can be held up like the question whether a loss is final.
#[tokio::test(start_paused = true)]
async fn a_loss_that_is_due_while_calls_are_held_up_is_not_final_before_returns_have_arrived() {
    let config = Config::default();
    let hub = EmbeddedHub::new(config.clone());
    let Opened { store, events } = hub.open("here");
    let slow = Arc::new(Slow::new(store));
    let opened = Opened { store: slow.clone(), events };
    let here = Presence::start(config.clone(), opened, Metrics::default());
    let there = hub.open("there").store;
    there.apply(vec![claim("bo", Cause::Joined)]).await.expect("bo is there");
    let mut ana = Client::join(&here, "ana", None, None);
    ana.watch(&["bo"]);
    ana.live_for(Duration::from_secs(1)).await;

    there.apply(vec![claim("bo", Cause::Closed)]).await.expect("bo is gone");
    slow.has_stalled.store(true, Relaxed);
    ana.live_for(config.grace + Duration::from_millis(100)).await;
    there.apply(vec![claim("bo", Cause::Joined)]).await.expect("bo is back");
    ana.live_for(Duration::from_secs(2)).await;
    assert_eq!(ana.pushed, 0, "bo came back in time");
}

fn claim(name: &str, cause: Cause) -> Claim {
    let contribution = (cause == Cause::Joined).then(Contribution::default);
    let (age, silence) = (Duration::ZERO, Duration::ZERO);
    Claim { user: user(name), contribution, cause, age, silence }
}
