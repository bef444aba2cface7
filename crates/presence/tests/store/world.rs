//! A store under test, with as many gateways on it as a case wants, and the words in which cases are written.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use presence::Config;
use presence::store::embedded::EmbeddedHub;
use presence::store::redis::{self, RedisOptions, TlsFiles};
use presence::store::view::View;
use presence::store::{
    Cause, Claim, Contribution, Event, Opened, SetStatus, Standing, Store, StoreError,
};
use presence_protocol::{Device, Show, StatusText, UserId};
use presence_testkit::{RedisCluster, RedisServer, eventually};
use tokio::time::timeout;

/// How long anything that must come may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A store may count in whole milliseconds: a hold is longer by so much then, and never shorter.
pub(crate) const ROUNDING: Duration = Duration::from_millis(2);

/// Shared by all tests that do not hurt others; each has its own prefix.
static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
static CLUSTER: LazyLock<RedisServer> = LazyLock::new(RedisServer::start_cluster);
static SHARDED: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

/// Times so long that nothing lapses during a test.
pub(crate) fn slow() -> Config {
    let minute = Duration::from_mins(1);
    Config { ttl: minute, grace: minute, last_seen: 60 * minute, ..Config::default() }
}

/// Times so short that lapses can be waited for.
pub(crate) fn quick() -> Config {
    let (ttl, grace) = (Duration::from_millis(600), Duration::from_millis(300));
    Config { heartbeat: ttl / 3, ttl, grace, ..slow() }
}

/// A TTL that can be waited for, with a loss held back for longer than any test.
pub(crate) fn quick_ttl() -> Config {
    Config { grace: slow().grace, ..quick() }
}

/// Users are forgotten so soon that it can be waited for.
pub(crate) fn forgetful() -> Config {
    Config { last_seen: 8 * quick().ttl, ..quick() }
}

/// Which store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Embedded,
    Redis,
    /// Of a single server.
    Cluster,
    /// Of three primaries.
    Sharded,
}

/// One store, empty at first.
pub(crate) struct World {
    pub(crate) config: Config,
    kind: Place,
}

enum Place {
    Embedded(EmbeddedHub),
    Redis { url: String, prefix: String },
}

impl World {
    pub(crate) fn new(kind: Kind, config: Config) -> Self {
        match kind {
            Kind::Embedded => {
                Self { kind: Place::Embedded(EmbeddedHub::new(config.clone())), config }
            }
            Kind::Redis => Self::on(&REDIS, config),
            Kind::Cluster => Self::on(&CLUSTER, config),
            Kind::Sharded => Self::at(SHARDED.url(), config),
        }
    }

    /// On a server of the test's own.
    pub(crate) fn on(server: &RedisServer, config: Config) -> Self {
        Self::at(server.url(), config)
    }

    pub(crate) fn at(url: String, config: Config) -> Self {
        Self { kind: Place::Redis { url, prefix: fresh_prefix() }, config }
    }

    pub(crate) async fn gateway(&self, name: &str) -> Gateway {
        let opened = match &self.kind {
            Place::Embedded(hub) => hub.open(name),
            Place::Redis { url, prefix } => {
                let options = RedisOptions {
                    url: url.clone(),
                    tls: TlsFiles::default(),
                    prefix: prefix.clone(),
                    gateway: name.to_owned(),
                    config: self.config.clone(),
                };
                redis::open(options).await.expect("the store opens").0
            }
        };
        Gateway { opened }
    }

    pub(crate) fn prefix(&self) -> &str {
        match &self.kind {
            Place::Embedded(_) => "",
            Place::Redis { prefix, .. } => prefix,
        }
    }
}

pub(crate) fn shared_server(kind: Kind) -> &'static RedisServer {
    match kind {
        Kind::Cluster => &CLUSTER,
        Kind::Embedded | Kind::Redis | Kind::Sharded => &REDIS,
    }
}

pub(crate) fn shared_cluster() -> &'static RedisCluster {
    &SHARDED
}

pub(crate) fn fresh_prefix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// One gateway's store.
pub(crate) struct Gateway {
    pub(crate) opened: Opened,
}

impl Gateway {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.opened.store
    }

    pub(crate) async fn apply(&self, claim: Claim) {
        self.store().apply(vec![claim]).await.expect("the claim is taken");
    }

    pub(crate) async fn join(&self, name: &str, device: &str) {
        self.apply(join(name, device)).await;
    }

    pub(crate) async fn leave(&self, name: &str, cause: Cause) {
        self.apply(leave(name, cause)).await;
    }

    pub(crate) async fn refresh(&self, names: &[&str]) -> Vec<UserId> {
        let users = names.iter().map(|name| user(name)).collect();
        self.store().refresh(users).await.expect("the refresh is taken")
    }

    pub(crate) async fn look(&self, name: &str) -> Standing {
        let mut standings = self.store().snapshot(vec![user(name)]).await.expect("a snapshot");
        assert_eq!(standings.len(), 1);
        standings.remove(0)
    }

    /// What watchers see.
    pub(crate) async fn shown(&self, name: &str) -> View {
        self.look(name).await.shown().clone()
    }

    /// Looks until the user stands as wanted.
    pub(crate) async fn look_until(
        &self,
        what: &str,
        name: &str,
        wanted: impl Fn(&Standing) -> bool,
    ) -> Standing {
        let look = async || Some(self.look(name).await).filter(|standing| wanted(standing));
        eventually(what, PATIENCE, look).await
    }

    pub(crate) async fn event(&mut self) -> Event {
        let event = timeout(PATIENCE, self.opened.events.recv()).await;
        event.expect("an event in time").expect("the store lives")
    }

    /// The next transition of a user; other events before it are passed over.
    pub(crate) async fn heard(&mut self, name: &str) -> Standing {
        loop {
            if let Event::Transitions(transitions) = self.event().await {
                let of_user = |standing: &Standing| standing.user == user(name);
                if let Some(found) = transitions.into_iter().find(of_user) {
                    return found;
                }
            }
        }
    }

    /// Passes over events until one is as wanted.
    pub(crate) async fn event_until(&mut self, wanted: impl Fn(&Event) -> bool) {
        while !wanted(&self.event().await) {}
    }

    /// Applies until the store takes it: for the time after a fault.
    pub(crate) async fn apply_until_taken(&self, claim: Claim) {
        let apply = async || self.store().apply(vec![claim.clone()]).await.ok();
        eventually("the store takes claims again", PATIENCE, apply).await;
    }

    /// Applies until the store is found out of reach.
    pub(crate) async fn apply_until_unreachable(&self, claim: Claim) {
        let apply = async || {
            let result = self.store().apply(vec![claim.clone()]).await;
            result.err().filter(|error| matches!(error, StoreError::Unreachable(_)))
        };
        eventually("the store is out of reach", PATIENCE, apply).await;
    }
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user id")
}

pub(crate) fn device(label: &str) -> Device {
    Device::new(label).expect("a device label")
}

pub(crate) fn text(text: &str) -> StatusText {
    StatusText::new(text).expect("a status text")
}

pub(crate) fn join(name: &str, label: &str) -> Claim {
    Claim {
        user: user(name),
        contribution: Some(Contribution {
            devices: vec![device(label)],
            ..Contribution::default()
        }),
        cause: Cause::Joined,
        age: Duration::ZERO,
        silence: Duration::ZERO,
    }
}

pub(crate) fn leave(name: &str, cause: Cause) -> Claim {
    Claim { contribution: None, cause, ..join(name, "web") }
}

/// A session of this device sets its status.
pub(crate) fn set_status(name: &str, label: &str, show: Show, line: &str, age: Duration) -> Claim {
    let status = SetStatus { show, text: Some(text(line)).filter(|_| !line.is_empty()), age };
    let contribution = Contribution {
        devices: vec![device(label)],
        status: Some(status),
        online_for: Duration::ZERO,
    };
    Claim { contribution: Some(contribution), cause: Cause::Status, ..join(name, label) }
}

/// The device labels of a view.
pub(crate) fn labels(view: &View) -> Vec<&str> {
    view.devices.iter().map(Device::as_str).collect()
}
