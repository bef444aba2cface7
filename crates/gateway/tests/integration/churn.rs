//! Churn: users come, go and change while others watch, unwatch and query; seeded, on all gateways at once.
//! Whatever the interleaving, no version goes backwards, nobody is told of whom they forgot, and at the end all views
//! are the truth.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{
    ClientMessage, Device, Format, GatewayMessage, Hello, RequestId, Show, UserState,
};
use presence_testkit::eventually;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, name, names, user, users};
use crate::house::{HEAL_MAX, House, Kind, QUICK_AND_LENIENT, WAITING_MAX, on_both_stores};
use crate::http;

on_both_stores!(whatever_the_churn_versions_only_grow_and_every_view_ends_at_the_truth);

const SEED: u64 = 20_260_101;
const USERS: usize = 20;
const ACTS_PER_USER: usize = 60;
const WATCHERS: usize = 4;
const REQUESTS_PER_WATCHER: usize = 500;

async fn whatever_the_churn_versions_only_grow_and_every_view_ends_at_the_truth(kind: Kind) {
    let house = House::new(kind, QUICK_AND_LENIENT).await;
    let addrs = [house.here(), house.there()];
    let mut actors = JoinSet::new();
    for number in 0..USERS {
        let random = Rng::with_seed(SEED + number as u64);
        actors.spawn(Actor { name: name(number), random, addrs, sessions: Vec::new() }.live());
    }
    let mut watchers = JoinSet::new();
    let (quiet, is_quiet) = tokio::sync::watch::channel(false);
    for number in 0..WATCHERS {
        let format = if number % 2 == 0 { Format::Json } else { Format::MsgPack };
        let client = Client::join(addrs[number / 2 % 2], format, &format!("watcher{number}")).await;
        let watcher = Watcher::new(client, Rng::with_seed(SEED - number as u64 - 1));
        watchers.spawn(watcher.live(is_quiet.clone()));
    }
    let actors = actors.join_all().await;
    quiet.send(true).expect("they listen");
    let mut watchers = watchers.join_all().await;
    let asked: usize = watchers.iter().map(|watcher| watcher.asked).sum();
    println!("{kind:?}: {} acts, {asked} requests", USERS * ACTS_PER_USER);

    let expected: BTreeMap<String, bool> =
        actors.iter().map(|actor| (actor.name.clone(), actor.is_online())).collect();
    let truth = eventually(
        "all gateways tell the same truth, and all views are it",
        HEAL_MAX,
        async || {
            let [here, there] = [
                http::query(addrs[0], &names(USERS)).await,
                http::query(addrs[1], &names(USERS)).await,
            ];
            for watcher in &mut watchers {
                watcher.catch_up().await;
            }
            let told: BTreeMap<String, bool> =
                here.iter().map(|s| (s.user.to_string(), s.state.as_str() == "online")).collect();
            let agreed = here == there && told == expected;
            (agreed && watchers.iter().all(|watcher| watcher.sees(&here))).then_some(here)
        },
    );
    let truth = truth.await;
    assert!(truth.iter().any(|state| state.state.as_str() == "online"));
    assert!(truth.iter().any(|state| state.state.as_str() == "offline"));
}

/// A user with up to three sessions at a time.
struct Actor {
    name: String,
    random: Rng,
    addrs: [SocketAddr; 2],
    sessions: Vec<Client>,
}

impl Actor {
    async fn live(mut self) -> Self {
        for _ in 0..ACTS_PER_USER {
            self.act().await;
            // Now and then longer than the grace.
            let pause = if self.random.u8(..20) == 0 { 400 } else { self.random.u64(..20) };
            sleep(Duration::from_millis(pause)).await;
        }
        self.settle().await;
        self
    }

    async fn act(&mut self) {
        match self.random.u8(..10) {
            0..=3 if self.sessions.len() < 3 => self.join().await,
            _ if self.sessions.is_empty() => self.join().await,
            0..=6 => {
                let (show, text) =
                    (*self.random.choice(&Show::ALL).expect("one"), self.random.u8(..));
                let at = self.random.usize(..self.sessions.len());
                self.sessions[at].set_status(show, Some(&format!("mood {text}")));
            }
            7 => self.any_session().bye().await,
            8 => self.any_session().reset().await,
            _ => self.any_session().hang_up(),
        }
    }

    fn any_session(&mut self) -> Client {
        let at = self.random.usize(..self.sessions.len());
        self.sessions.swap_remove(at)
    }

    async fn join(&mut self) {
        let format = if self.random.bool() { Format::Json } else { Format::MsgPack };
        let addr = *self.random.choice(&self.addrs).expect("one");
        let mut client = Client::dial(addr, format).await;
        let device = *self.random.choice(&["ios", "web", "tv"]).expect("one");
        let hello = Hello {
            user: Some(user(&self.name)),
            device: self.random.bool().then(|| Device::new(device).expect("a device label")),
            show: self.random.bool().then_some(Show::Away),
            ..Hello::default()
        };
        client.hello_with(hello).await;
        self.sessions.push(client);
    }

    /// Ends in a state that is known: all is left, or the last session says plainly how it is.
    async fn settle(&mut self) {
        if self.random.bool() {
            for session in std::mem::take(&mut self.sessions) {
                session.hang_up();
            }
        } else if self.sessions.is_empty() {
            self.join().await;
        }
        for session in &mut self.sessions {
            session.fence().await;
        }
        // A status is stamped with whole milliseconds, and the latest must be the latest.
        sleep(Duration::from_millis(10)).await;
        if let Some(session) = self.sessions.last_mut() {
            session.set_status(Show::Busy, Some("settled"));
            session.fence().await;
        }
    }

    fn is_online(&self) -> bool {
        !self.sessions.is_empty()
    }
}

/// A request that waits for its answer.
struct Asked {
    id: RequestId,
    names: Vec<String>,
    /// Users who were unwatched before this was asked: with its answer, that is handled.
    forgotten: Vec<String>,
}

/// Someone who watches, and holds every frame to the rules.
struct Watcher {
    client: Client,
    random: Rng,
    asked: usize,
    waiting: VecDeque<Asked>,
    watching: BTreeSet<String>,
    /// Of these nothing may be pushed.
    forgotten: BTreeSet<String>,
    highest: HashMap<String, u64>,
    view: BTreeMap<String, UserState>,
}

impl Watcher {
    fn new(client: Client, random: Rng) -> Self {
        Self {
            client,
            random,
            asked: 0,
            waiting: VecDeque::new(),
            watching: BTreeSet::new(),
            forgotten: names(USERS).into_iter().collect(),
            highest: HashMap::new(),
            view: BTreeMap::new(),
        }
    }

    async fn live(mut self, quiet: tokio::sync::watch::Receiver<bool>) -> Self {
        while !*quiet.borrow() || self.asked < REQUESTS_PER_WATCHER {
            while self.waiting.len() < WAITING_MAX / 2 && self.random.u8(..4) > 0 {
                self.ask();
            }
            let pause = Duration::from_millis(self.random.u64(..5));
            while let Some(arrival) = self.client.next_within(pause).await {
                self.hear(arrival.message);
            }
        }
        while !self.waiting.is_empty() {
            let arrival = self.client.next().await;
            self.hear(arrival.message);
        }
        self
    }

    fn ask(&mut self) {
        let count = self.random.usize(1..=USERS / 2);
        let mut names = names(USERS);
        self.random.shuffle(&mut names);
        names.truncate(count);
        let id = self.client.fresh_id();
        let mut forgotten = Vec::new();
        let users = users(&names);
        let act = self.random.u8(..3);
        if act == 0 {
            self.watching.extend(names.iter().cloned());
            self.forgotten.retain(|name| !names.contains(name));
            for earlier in &mut self.waiting {
                earlier.forgotten.retain(|name| !names.contains(name));
            }
            self.client.send(&ClientMessage::Watch { users, id: Some(id.clone()), grant: None });
        } else {
            if act == 1 {
                self.client.send(&ClientMessage::Unwatch { users: users.clone() });
                self.watching.retain(|name| !names.contains(name));
                self.view.retain(|name, _| !names.contains(name));
                forgotten.clone_from(&names);
            }
            self.client.send(&ClientMessage::Query { users, id: Some(id.clone()), grant: None });
        }
        self.asked += 1;
        self.waiting.push_back(Asked { id, names, forgotten });
    }

    fn hear(&mut self, message: GatewayMessage) {
        match message {
            GatewayMessage::Presence { users } => {
                for state in users {
                    let forgotten = self.forgotten.contains(state.user.as_str());
                    assert!(!forgotten, "pushed after its unwatch was handled: {state:?}");
                    self.take(state);
                }
            }
            GatewayMessage::Snapshot { id, users } => {
                let asked = self.waiting.pop_front().expect("an answer to a request");
                assert_eq!(id, Some(asked.id), "answers come in the order of the requests");
                let answered: Vec<&str> = users.iter().map(|state| state.user.as_str()).collect();
                assert_eq!(answered, asked.names);
                self.forgotten.extend(asked.forgotten);
                for state in users {
                    self.take(state);
                }
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    fn take(&mut self, state: UserState) {
        let highest = self.highest.entry(state.user.to_string()).or_default();
        assert!(state.version >= *highest, "backwards from {highest}: {state:?}");
        *highest = state.version;
        if self.watching.contains(state.user.as_str()) {
            self.view.insert(state.user.to_string(), state);
        }
    }

    /// Hears what has come meanwhile.
    async fn catch_up(&mut self) {
        while let Some(arrival) = self.client.next_within(Duration::from_millis(1)).await {
            self.hear(arrival.message);
        }
    }

    fn sees(&self, truth: &[UserState]) -> bool {
        let watched = |state: &&UserState| self.watching.contains(state.user.as_str());
        truth.iter().filter(watched).all(|state| self.view.get(state.user.as_str()) == Some(state))
    }
}
