//! Someone who watches while something fails, and holds every frame to the promises: no version goes backwards, and
//! nobody alive is shown offline.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use presence_protocol::{Format, GatewayMessage, UserState};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE};

pub(crate) struct Observer {
    pub(crate) client: Client,
    /// The number of its gateway.
    pub(crate) place: usize,
    view: BTreeMap<String, UserState>,
    /// Those whom it must not see offline: they are alive, and were seen.
    alive: BTreeSet<String>,
    /// How often it was told `degraded`.
    pub(crate) degraded_told: usize,
    pub(crate) is_degraded: bool,
    /// When it saw users go, the latest time for each.
    pub(crate) lost: BTreeMap<String, Instant>,
}

impl Observer {
    pub(crate) async fn join(addr: SocketAddr, place: usize) -> Self {
        let format = if place == 0 { Format::Json } else { Format::MsgPack };
        Self {
            client: Client::join(addr, format, &format!("observer{place}")).await,
            place,
            view: BTreeMap::new(),
            alive: BTreeSet::new(),
            degraded_told: 0,
            is_degraded: false,
            lost: BTreeMap::new(),
        }
    }

    pub(crate) async fn watch(&mut self, names: &[String]) {
        for state in self.client.watch(names).await {
            self.take(state, Instant::now());
        }
    }

    /// From now on this user must not be seen offline, once seen online.
    pub(crate) fn expect_alive(&mut self, name: &str) {
        self.alive.insert(name.to_owned());
    }

    /// The user may go.
    pub(crate) fn let_go(&mut self, name: &str) {
        self.alive.remove(name);
    }

    pub(crate) fn sees_online(&self, name: &str) -> bool {
        self.view.get(name).is_some_and(|state| state.state.as_str() == "online")
    }

    /// The devices that a user is shown with.
    pub(crate) fn devices(&self, name: &str) -> Vec<String> {
        let devices = self.view.get(name).map(|state| state.devices.iter());
        devices.into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Hears what comes until then.
    pub(crate) async fn observe_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Some(arrival) = self.client.next_within(left).await {
                self.hear(arrival.message, arrival.at);
            }
        }
    }

    /// Hears what has come.
    pub(crate) async fn catch_up(&mut self) {
        while let Some(arrival) = self.client.next_within(Duration::from_millis(1)).await {
            self.hear(arrival.message, arrival.at);
        }
    }

    /// Hears on until it is told that states are the last known ones, or that they are no longer.
    pub(crate) async fn observe_until_degraded(&mut self, degraded: bool) {
        let end = Instant::now() + PATIENCE;
        while self.is_degraded != degraded {
            let left = end.saturating_duration_since(Instant::now());
            let arrival = self.client.next_within(left).await;
            let arrival = arrival.unwrap_or_else(|| {
                panic!(
                    "observer {} was not told within {PATIENCE:?}: degraded {degraded}",
                    self.place
                )
            });
            self.hear(arrival.message, arrival.at);
        }
    }

    /// Hears on until this user is shown offline.
    pub(crate) async fn observe_until_offline(&mut self, name: &str) {
        let end = Instant::now() + PATIENCE;
        while self.sees_online(name) {
            let left = end.saturating_duration_since(Instant::now());
            let arrival = self.client.next_within(left).await;
            let arrival = arrival.unwrap_or_else(|| {
                panic!("observer {} still sees {name} online after {PATIENCE:?}", self.place)
            });
            self.hear(arrival.message, arrival.at);
        }
    }

    fn hear(&mut self, message: GatewayMessage, at: Instant) {
        match message {
            GatewayMessage::Presence { users } => {
                for state in users {
                    self.take(state, at);
                }
            }
            GatewayMessage::Degraded { since } => {
                assert_ne!(
                    self.is_degraded,
                    since.is_some(),
                    "observer {} is told it twice",
                    self.place
                );
                self.is_degraded = since.is_some();
                self.degraded_told += usize::from(self.is_degraded);
            }
            other => panic!("observer {}: not expected: {other:?}", self.place),
        }
    }

    fn take(&mut self, state: UserState, at: Instant) {
        let name = state.user.to_string();
        let known = self.view.get(&name);
        let backwards = known.is_some_and(|known| known.version > state.version);
        assert!(!backwards, "observer {}: backwards from {known:?}: {state:?}", self.place);
        let lost = self.sees_online(&name) && state.state.as_str() == "offline";
        assert!(
            !lost || !self.alive.contains(&name),
            "observer {} is shown {name} offline, who is alive: {state:?}, degraded {}",
            self.place,
            self.is_degraded
        );
        if lost {
            self.lost.insert(name.clone(), at);
        }
        self.view.insert(name, state);
    }
}
