//! A crowd on some gateways, for the time in which something fails: users who stay, on one gateway or on all, and users
//! who leave, come, or move to another gateway meanwhile. An observer on each gateway watches them all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use presence_protocol::Format;
use tokio::time::{Instant, sleep};

use crate::client::{Client, PATIENCE};
use crate::house::{HEAL_MAX, Times};
use crate::http;
use crate::observer::Observer;

/// As short as lets a test tell TTL, grace and healing apart.
pub(crate) const TIMES: Times = Times {
    heartbeat: Duration::from_millis(500),
    ttl: Duration::from_secs(2),
    grace: Duration::from_millis(1500),
};

/// Whoever lapsed is held for all of the five seconds, and for as long again when a machine is so busy that calls take
/// longer than one: no more than this is let pass.
const STALL_MAX: Duration = Duration::from_secs(3);

/// How late whatever a fault could lead to may come, after TTL and grace.
const LATE_MAX: Duration = Duration::from_millis(500);

const STAYING: usize = 6;
const MOVING: usize = 4;
const LEAVING: usize = 4;
const COMING: usize = 4;

pub(crate) struct Crowd {
    addrs: Vec<SocketAddr>,
    /// One on each gateway that was not lost.
    pub(crate) observers: Vec<Observer>,
    /// The sessions of everybody who is online, and on which gateway they are.
    online: BTreeMap<String, Vec<(usize, Client)>>,
}

/// About whom views must be right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Online,
    All,
}

fn names(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{what}{number}")).collect()
}

fn all_names() -> Vec<String> {
    let groups = [("stays", STAYING), ("moves", MOVING), ("leaves", LEAVING), ("comes", COMING)];
    let singles = groups.into_iter().flat_map(|(what, count)| names(what, count));
    singles.chain(["everywhere".to_owned()]).collect()
}

impl Crowd {
    /// Everybody is there, and seen by all observers.
    pub(crate) async fn gather(addrs: impl IntoIterator<Item = SocketAddr>) -> Self {
        let addrs: Vec<_> = addrs.into_iter().collect();
        let mut crowd = Self { addrs, observers: Vec::new(), online: BTreeMap::new() };
        for place in 0..crowd.addrs.len() {
            crowd.observe(place).await;
        }
        for group in [names("stays", STAYING), names("moves", MOVING), names("leaves", LEAVING)] {
            for (number, name) in group.iter().enumerate() {
                crowd.join(name, number % crowd.addrs.len()).await;
            }
        }
        for place in 0..crowd.addrs.len() {
            crowd.join("everywhere", place).await;
        }
        crowd.expect_truth().await;
        crowd
    }

    async fn observe(&mut self, place: usize) {
        let mut observer = Observer::join(self.addrs[place], place).await;
        observer.watch(&all_names()).await;
        self.observers.push(observer);
    }

    async fn join(&mut self, name: &str, place: usize) {
        let format = if place == 0 { Format::MsgPack } else { Format::Json };
        let client = Client::join(self.addrs[place], format, name).await;
        self.online.entry(name.to_owned()).or_default().push((place, client));
        for observer in &mut self.observers {
            observer.expect_alive(name);
        }
    }

    /// A gateway is dead: its sessions are gone, and so is its observer.
    pub(crate) fn lose(&mut self, place: usize) {
        self.observers.retain(|observer| observer.place != place);
        for (name, sessions) in &mut self.online {
            sessions.retain(|(at, _)| *at != place);
            if sessions.is_empty() {
                self.observers.iter_mut().for_each(|observer| observer.let_go(name));
            }
        }
        self.online.retain(|_, sessions| !sessions.is_empty());
    }

    /// A gateway that was lost is back at its address, and some of those who were on it come back.
    pub(crate) async fn come_back(&mut self, place: usize) {
        self.observe(place).await;
        for name in names("stays", STAYING).into_iter().chain(names("moves", MOVING)) {
            if !self.online.contains_key(&name) {
                self.join(&name, place).await;
            }
        }
    }

    /// Those who are there now may be seen to go: it is only to be right in the end.
    pub(crate) fn expect_nobody(&mut self) {
        for name in self.online.keys() {
            self.observers.iter_mut().for_each(|observer| observer.let_go(name));
        }
    }

    /// The same, of those who are on this gateway only.
    pub(crate) fn expect_nobody_of(&mut self, place: usize) {
        for name in self.only_on(place) {
            self.observers.iter_mut().for_each(|observer| observer.let_go(&name));
        }
    }

    /// One user after the other comes, and goes again; their changes may be told when the next is made already.
    pub(crate) async fn churn(&mut self) {
        for name in names("comes", COMING) {
            let place = fastrand::usize(..self.addrs.len());
            self.join(&name, place).await;
            self.observers.iter_mut().for_each(|observer| observer.let_go(&name));
            self.observe_for(Duration::from_millis(20)).await;
            for (_, client) in self.online.remove(&name).expect("it is there") {
                if fastrand::bool() { client.bye().await } else { client.hang_up() }
            }
        }
    }

    /// All views, and what all gateways answer, are the truth.
    pub(crate) async fn expect_truth(&mut self) {
        self.expect_by(Instant::now() + PATIENCE, Whom::All).await;
    }

    /// Some leave, some come, and some move to the next gateway.
    pub(crate) async fn shuffle(&mut self) {
        for (number, name) in names("leaves", LEAVING).iter().enumerate() {
            for observer in &mut self.observers {
                observer.let_go(name);
            }
            for (_, client) in self.online.remove(name).expect("it is there") {
                if number < LEAVING / 2 { client.bye().await } else { client.hang_up() }
            }
        }
        for name in names("moves", MOVING) {
            let place = self.online.remove(&name).expect("it is there")[0].0;
            self.join(&name, (place + 1) % self.addrs.len()).await;
        }
        for (number, name) in names("comes", COMING).iter().enumerate() {
            self.join(name, number % self.addrs.len()).await;
        }
    }

    /// Those of a gateway who move go elsewhere.
    pub(crate) async fn move_from(&mut self, place: usize) {
        for name in names("moves", MOVING) {
            if self.online[&name][0].0 == place {
                self.online.remove(&name);
                self.join(&name, (place + 1) % self.addrs.len()).await;
            }
        }
    }

    /// Those who are on this gateway only.
    pub(crate) fn only_on(&self, place: usize) -> Vec<String> {
        let only = |sessions: &Vec<(usize, Client)>| sessions.iter().all(|(at, _)| *at == place);
        let found = self.online.iter().filter(|(_, sessions)| only(sessions));
        found.map(|(name, _)| name.clone()).collect()
    }

    /// Only signs of life: many, so that it would show if they cost anything.
    pub(crate) fn beat(&self) {
        for _ in 0..20 {
            self.online.values().flatten().for_each(|(_, client)| client.heartbeat());
        }
    }

    /// What the gateways have yet to tell the store is never more than one claim a user, whatever happens meanwhile.
    pub(crate) async fn expect_bounded(&self) {
        let users = all_names().len() as u64 + self.observers.len() as u64;
        for addr in &self.addrs {
            let waiting = http::metric(*addr, "presence_claims_waiting").await.expect("it is told");
            assert!(waiting <= users, "{waiting} claims wait, of {users} users");
        }
    }

    pub(crate) async fn expect_degraded(&mut self, degraded: bool) {
        for observer in &mut self.observers {
            observer.observe_until_degraded(degraded).await;
        }
    }

    /// All observers hear what comes for so long.
    pub(crate) async fn observe_for(&mut self, time: Duration) {
        join_all(self.observers.iter_mut().map(|observer| observer.observe_for(time))).await;
    }

    /// Waits until nobody is told `degraded` any more, every view is the truth, and the gateways answer nothing else.
    /// Those who left have their grace on top.
    pub(crate) async fn expect_healed(&mut self, healed: Instant) {
        self.expect_by(healed + HEAL_MAX, Whom::Online).await;
        self.expect_by(healed + HEAL_MAX + TIMES.grace + STALL_MAX, Whom::All).await;
        // Nor does anything come later that could come from it.
        let quiet = healed + TIMES.ttl + TIMES.grace + LATE_MAX;
        self.observe_for(quiet.saturating_duration_since(Instant::now())).await;
        self.expect_by(Instant::now(), Whom::All).await;
        for (_, client) in self.online.values_mut().flatten() {
            client.fence().await;
        }
        for observer in &self.observers {
            assert_eq!(http::get(self.addrs[observer.place], "/readyz").await.status, 200);
        }
    }

    /// What is not the truth yet, in the views and in what the gateways answer.
    async fn differences(&mut self, whom: Whom) -> Vec<String> {
        let names = all_names();
        let mut found = Vec::new();
        for observer in &mut self.observers {
            observer.catch_up().await;
        }
        for observer in &self.observers {
            let place = observer.place;
            let answer = http::try_query(self.addrs[place], &names).await.unwrap_or_default();
            for (number, name) in names.iter().enumerate() {
                let truth = self.online.contains_key(name);
                if whom == Whom::Online && !truth {
                    continue;
                }
                if observer.sees_online(name) != truth {
                    found.push(format!("{place} sees {name} online: {}", !truth));
                }
                let answered = answer.get(number).map(|state| state.state.as_str() == "online");
                if answered != Some(truth) {
                    found.push(format!("{place} answers that {name} is online: {answered:?}"));
                }
            }
            if observer.is_degraded {
                found.push(format!("{place} was told degraded"));
            }
        }
        found
    }

    async fn expect_by(&mut self, deadline: Instant, whom: Whom) {
        loop {
            let found = self.differences(whom).await;
            if found.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "too late for the truth: {found:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}
