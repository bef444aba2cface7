//! A gateway from start to stop: opens the store, starts the engine, binds, serves, drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use presence::store::Opened;
use presence::store::embedded::EmbeddedHub;
use presence::store::redis::{self, KeyspaceEvents, Mode, PubSub, RedisOptions, StartupReport};
use presence::{Config, Presence};
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::app::{App, SharedApp};
use crate::auth::Authenticator;
use crate::metrics::Metrics;
use crate::server::Server;
use crate::settings::{Settings, Store};

/// How often a drain looks whether the last close frames have left.
const CLOSED_POLL: Duration = Duration::from_millis(10);

const GATEWAY_ID_LEN: usize = 8;
const METRICS_PREFIX: &str = "presence";

/// A running gateway. Dropping it ends its listener; its sockets live on until the runtime ends.
pub struct Gateway {
    app: SharedApp,
    server: Server,
    store_note: String,
}

impl Gateway {
    /// Opens the store, starts the engine and accepts connections.
    pub async fn start(settings: Settings) -> Result<Self> {
        let authenticator = Authenticator::from_settings(&settings)?;
        let gateway = new_id();
        let config = engine_config(&settings);
        let (opened, store_note) = open_store(&settings, &config, &gateway).await?;
        let mut registry = Registry::with_prefix(METRICS_PREFIX);
        let engine_metrics = presence::Metrics::register(&mut registry);
        let metrics = Metrics::register(&mut registry);
        let presence = Presence::start(config, opened, engine_metrics);
        let listen = settings.listen;
        let app = Arc::new(App::new(gateway, settings, authenticator, presence, registry, metrics));
        let server = Server::bind(listen, app.clone())
            .with_context(|| format!("cannot listen on {listen}"))?;
        Ok(Self { app, server, store_note })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// What to say at the start: everything that was set, and what was found.
    pub fn summary(&self) -> Vec<(&'static str, String)> {
        let mut lines = self.app.settings.summary();
        lines.insert(0, ("gateway", self.app.gateway.clone()));
        lines.push(("found", self.store_note.clone()));
        lines
    }

    /// Lets nobody in any more, sends all clients elsewhere, and ends when they are gone or when `time` is over.
    /// HTTP goes on meanwhile, so that readiness is seen to fail.
    pub async fn drain(self, time: Duration) {
        let gone = timeout(time, async {
            self.app.presence.drain(time).await;
            while self.app.metrics.connections.get() > 0 {
                sleep(CLOSED_POLL).await;
            }
        })
        .await;
        let left = self.app.presence.session_count();
        if gone.is_ok() {
            info!("drained");
        } else {
            info!(sessions = left, "the drain time is over, the rest is closed");
        }
    }
}

fn new_id() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .take(GATEWAY_ID_LEN)
        .collect()
}

fn engine_config(settings: &Settings) -> Config {
    Config {
        heartbeat: settings.heartbeat,
        ttl: settings.ttl,
        grace: settings.grace,
        last_seen: settings.last_seen,
        watch_len_max: settings.max_watch as usize,
        ..Config::default()
    }
}

async fn open_store(
    settings: &Settings,
    config: &Config,
    gateway: &str,
) -> Result<(Opened, String)> {
    match &settings.store {
        Store::Embedded => {
            let opened = EmbeddedHub::new(config.clone()).open(gateway);
            Ok((opened, "in this process".to_owned()))
        }
        Store::Redis(url) => {
            let options = RedisOptions {
                url: url.expose().to_owned(),
                tls: settings.redis_tls.clone(),
                prefix: settings.prefix.clone(),
                gateway: gateway.to_owned(),
                config: config.clone(),
            };
            let (opened, report) =
                redis::open(options).await.with_context(|| format!("cannot use {url}"))?;
            Ok((opened, describe(&report)))
        }
    }
}

fn describe(report: &StartupReport) -> String {
    let servers = match report.mode {
        Mode::Standalone => "one server".to_owned(),
        Mode::Sentinel => "one server, named by sentinels".to_owned(),
        Mode::Cluster { primaries } => format!("a cluster of {primaries} primaries"),
    };
    let events = match &report.keyspace_events {
        KeyspaceEvents::AlreadyOn => "expired events were on",
        KeyspaceEvents::TurnedOn => "expired events turned on",
        KeyspaceEvents::Refused { .. } => "expired events off (see the warning)",
    };
    let channels = match report.pubsub {
        PubSub::Plain => "one channel",
        PubSub::Sharded => "sharded channels",
    };
    format!("Redis {}, {servers}, {channels}, {events}", report.version)
}
