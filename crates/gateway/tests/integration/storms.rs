//! Storms of `watch` and `unwatch`: many sockets at full speed, of the same users, while these come and go on two gateways
//! and watchers are lost in the midst of it. Some send no more than a gateway takes, and none of that may be refused; others
//! just send. At the end every view is the truth, and when all have left nothing is kept of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{ClientMessage, ErrorCode, Format, GatewayMessage, RequestId, UserState};
use presence_testkit::{RedisServer, eventually};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, name, names, users};
use crate::house::{HEAL_MAX, LATE_MAX, QUICK_AND_LENIENT, WAITING_MAX, prefix};
use crate::http::{metric, query};
use crate::process::Process;

const SEED: u64 = 20_260_301;

/// So many that most are watched by nobody now and then, so that their places in the watch table are used again.
const USERS: usize = 120;
const ACTORS: usize = 30;
const WATCHERS: usize = 16;

/// What each watcher sends in each of its two lives.
const REQUESTS: usize = 600;
const NAMES_MAX: usize = 8;

/// How long an answer may take on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Far less than the requests would take if they were kept.
const GROWN_MAX: u64 = 64 << 20;

#[tokio::test]
async fn storms_of_watch_and_unwatch_end_at_the_truth_and_leave_nothing() {
    let redis = RedisServer::start();
    let (times, prefix) = (QUICK_AND_LENIENT, prefix());
    // A grace may begin as it becomes quiet.
    let heal_max = HEAL_MAX + LATE_MAX;
    let flags = ["--message-rate=10000"];
    let gateways = [
        Process::start(&redis, &prefix, times, &flags).await,
        Process::start(&redis, &prefix, times, &flags).await,
    ];
    let addrs = [gateways[0].addr, gateways[1].addr];
    let all = names(USERS);
    // Who is never seen is not told of in the first moments of a store.
    query(addrs[0], &all).await;
    let memory = async |addr| metric(addr, "presence_memory_bytes").await.expect("it is told");
    let before = [memory(addrs[0]).await, memory(addrs[1]).await];

    let (calm, is_calm) = watch::channel(false);
    let (mut actors, mut watchers) = (JoinSet::new(), JoinSet::new());
    for number in 0..ACTORS {
        let random = Rng::with_seed(SEED + number as u64);
        let users = (number..USERS).step_by(ACTORS).map(|user| (name(user), None)).collect();
        actors.spawn(Actor { users, addrs, random }.live(is_calm.clone()));
    }
    for number in 0..WATCHERS {
        let random = Rng::with_seed(SEED - 1 - number as u64);
        let manner = if number % 2 == 0 { Manner::Careful } else { Manner::Careless };
        watchers.spawn(live(addrs[number / 2 % 2], number, manner, random));
    }
    let mut watchers = watchers.join_all().await;
    calm.send(true).expect("they listen");
    let actors = actors.join_all().await;
    let refused: usize = watchers.iter().map(|watcher| watcher.refused).sum();
    println!("{} requests, {refused} of the last lives refused", 2 * WATCHERS * REQUESTS);

    let online: BTreeSet<&str> = actors.iter().flat_map(Actor::online).collect();
    let expected: Vec<&str> = all
        .iter()
        .map(|name| if online.contains(name.as_str()) { "online" } else { "offline" })
        .collect();
    eventually("all views are the truth", heal_max, async || {
        for watcher in &mut watchers {
            watcher.catch_up().await;
        }
        let [here, there] = [query(addrs[0], &all).await, query(addrs[1], &all).await];
        let told: Vec<&str> = here.iter().map(|state| state.state.as_str()).collect();
        let is_so = here == there && told == expected;
        (is_so && watchers.iter().all(|watcher| watcher.sees(&here))).then_some(())
    })
    .await;

    drop((watchers, actors));
    for (addr, before) in addrs.into_iter().zip(before) {
        for name in ["presence_sessions", "presence_watches", "presence_watched_users"] {
            let is_none = async || (metric(addr, name).await == Some(0)).then_some(());
            eventually(&format!("{name} is 0"), heal_max, is_none).await;
        }
        let after = memory(addr).await;
        assert!(after < before + GROWN_MAX, "{after} bytes, and {before} before");
    }
}

/// Some users, each of whom is here with one session, or is not.
struct Actor {
    users: Vec<(String, Option<Client>)>,
    addrs: [SocketAddr; 2],
    random: Rng,
}

impl Actor {
    async fn live(mut self, is_calm: watch::Receiver<bool>) -> Self {
        while !*is_calm.borrow() {
            let at = self.random.usize(..self.users.len());
            let (name, session) = &mut self.users[at];
            match (session.take(), self.random.u8(..3)) {
                (None, _) => {
                    let addr = *self.random.choice(&self.addrs).expect("one");
                    *session = Some(Client::join(addr, Format::MsgPack, name).await);
                }
                (Some(client), 0) => client.bye().await,
                (Some(client), 1) => client.reset().await,
                (Some(client), _) => client.hang_up(),
            }
            sleep(Duration::from_millis(self.random.u64(..10))).await;
        }
        self
    }

    fn online(&self) -> impl Iterator<Item = &str> {
        self.users.iter().filter(|(_, session)| session.is_some()).map(|(name, _)| name.as_str())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Lets no more wait than a gateway takes.
    Careful,
    /// Sends without a pause, and reads what came of it afterwards.
    Careless,
}

/// Twice the same: the first life ends in the midst of its requests.
async fn live(addr: SocketAddr, number: usize, manner: Manner, mut random: Rng) -> Watcher {
    let format = if number % 4 < 2 { Format::Json } else { Format::MsgPack };
    let user = format!("watcher{number}");
    let mut first = Watcher::join(addr, format, &user, manner, random.fork()).await;
    first.storm().await;
    first.client.hang_up();
    let mut second = Watcher::join(addr, format, &user, manner, random).await;
    second.storm().await;
    second.settle().await;
    second
}

/// A request that waits for its answer.
struct Asked {
    id: RequestId,
    /// Users who were unwatched before this was asked: with its answer, that is handled.
    forgotten: Vec<String>,
}

/// Someone who watches, and holds every frame to the rules.
struct Watcher {
    client: Client,
    manner: Manner,
    random: Rng,
    waiting: VecDeque<Asked>,
    /// What was answered last, and not refused.
    handled: Option<RequestId>,
    refused: usize,
    /// Of whom it was told, and is told from now on.
    watching: BTreeSet<String>,
    /// Of these nothing may be pushed.
    forgotten: BTreeSet<String>,
    highest: HashMap<String, u64>,
    view: BTreeMap<String, UserState>,
}

impl Watcher {
    async fn join(
        addr: SocketAddr,
        format: Format,
        user: &str,
        manner: Manner,
        random: Rng,
    ) -> Self {
        Self {
            client: Client::join(addr, format, user).await,
            manner,
            random,
            waiting: VecDeque::new(),
            handled: None,
            refused: 0,
            watching: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            highest: HashMap::new(),
            view: BTreeMap::new(),
        }
    }

    async fn storm(&mut self) {
        for _ in 0..REQUESTS {
            let count = self.random.usize(1..=NAMES_MAX);
            let names: Vec<String> = (0..count).map(|_| name(self.random.usize(..USERS))).collect();
            if self.random.bool() {
                self.watch(names);
            } else {
                self.unwatch(names);
            }
            // An `unwatch` here has a second message behind it.
            while self.manner == Manner::Careful && self.waiting.len() > WAITING_MAX / 2 - 1 {
                self.hear_next().await;
            }
        }
    }

    /// Whatever was refused, it knows afterwards whom it watches.
    async fn settle(&mut self) {
        if self.manner == Manner::Careless {
            self.fence().await;
            self.unwatch(names(USERS));
            let some = names(USERS).into_iter().filter(|_| self.random.bool()).collect();
            self.watch(some);
        }
        self.fence().await;
    }

    fn watch(&mut self, names: Vec<String>) {
        self.forgotten.retain(|name| !names.contains(name));
        for earlier in &mut self.waiting {
            earlier.forgotten.retain(|name| !names.contains(name));
        }
        let users = users(&names);
        self.watching.extend(names);
        let id = self.ask(Vec::new());
        self.client.send(&ClientMessage::Watch { users, id: Some(id), grant: None });
    }

    fn unwatch(&mut self, names: Vec<String>) {
        self.client.send(&ClientMessage::Unwatch { users: users(&names) });
        for name in &names {
            self.watching.remove(name);
            self.view.remove(name);
        }
        self.ask_behind(names);
    }

    /// Is answered when all before is handled.
    fn ask_behind(&mut self, forgotten: Vec<String>) -> RequestId {
        let id = self.ask(forgotten);
        self.client.send(&ClientMessage::Query {
            users: Vec::new(),
            id: Some(id.clone()),
            grant: None,
        });
        id
    }

    fn ask(&mut self, forgotten: Vec<String>) -> RequestId {
        let id = self.client.fresh_id();
        self.waiting.push_back(Asked { id: id.clone(), forgotten });
        id
    }

    /// All is handled, and nothing waits. What is sent without a pause is asked again: it may have been refused, and of
    /// many answers that were due at once some were dropped.
    async fn fence(&mut self) {
        let is_careless = self.manner == Manner::Careless;
        loop {
            let id = self.ask_behind(Vec::new());
            while self.waiting.iter().any(|asked| asked.id == id) {
                let arrival = self.client.next_within(ANSWER_MAX).await;
                assert!(arrival.is_some() || is_careless, "no answer within {ANSWER_MAX:?}");
                let Some(arrival) = arrival else { break };
                self.hear(arrival.message);
            }
            if self.handled == Some(id) {
                return;
            }
        }
    }

    async fn hear_next(&mut self) {
        let message = self.client.next().await.message;
        self.hear(message);
    }

    /// Hears what has come meanwhile.
    async fn catch_up(&mut self) {
        while let Some(arrival) = self.client.next_within(Duration::from_millis(1)).await {
            self.hear(arrival.message);
        }
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
                let asked = self.answered(id.as_ref()).expect("it was asked");
                if self.manner == Manner::Careful {
                    self.forgotten.extend(asked.forgotten);
                }
                self.handled = Some(asked.id);
                for state in users {
                    self.take(state);
                }
            }
            GatewayMessage::Error(error)
                if self.manner == Manner::Careless && error.code == ErrorCode::RateLimited =>
            {
                self.refused += 1;
                // A refusal does not wait for the answers before it.
                self.waiting.retain(|asked| Some(&asked.id) != error.id.as_ref());
            }
            other => panic!("not expected: {other:?}"),
        }
    }

    fn answered(&mut self, id: Option<&RequestId>) -> Option<Asked> {
        let at = self.waiting.iter().position(|asked| Some(&asked.id) == id)?;
        assert!(at == 0 || self.manner == Manner::Careless, "each is answered, in order");
        self.waiting.drain(..=at).next_back()
    }

    fn take(&mut self, state: UserState) {
        let highest = self.highest.entry(state.user.to_string()).or_default();
        assert!(state.version >= *highest, "backwards from {highest}: {state:?}");
        *highest = state.version;
        if self.watching.contains(state.user.as_str()) {
            self.view.insert(state.user.to_string(), state);
        }
    }

    /// Nobody is told of what changes but the version and the age: so with a user who was back within the grace, or just
    /// as it ended.
    fn sees(&self, truth: &[UserState]) -> bool {
        let watched = |state: &&UserState| self.watching.contains(state.user.as_str());
        truth.iter().filter(watched).all(|state| {
            let seen = self.view.get(state.user.as_str());
            seen.is_some_and(|seen| {
                let UserState { version, since, .. } = *state;
                seen.version <= version && UserState { version, since, ..seen.clone() } == *state
            })
        })
    }
}
