//! The engine: its store, and the thread on which both work.
//!
//! Among ten thousand tasks of busy sockets each step of a call to the store would wait for its turn, and a call has many:
//! calls would time out, and leases lapse, of a gateway that is only busy. On a thread of its own the engine gets its share.

use std::future::Future;

use anyhow::{Context, Result};
use presence::store::Opened;
use presence::store::embedded::EmbeddedHub;
use presence::store::redis::{self, KeyspaceEvents, Mode, PubSub, RedisOptions, StartupReport};
use presence::{Config, Metrics, Over, Presence, SessionLimit};
use tokio::runtime::{Builder, Runtime};

use crate::settings::{SessionsOver, Settings, Store};

/// Runs what belongs to the engine. Dropping it ends that.
pub(crate) struct EngineThread(Option<Runtime>);

impl EngineThread {
    pub(crate) fn start() -> Result<Self> {
        let mut thread = Builder::new_multi_thread();
        thread.worker_threads(1).thread_name("engine").enable_all();
        Ok(Self(Some(thread.build().context("cannot start the engine's thread")?)))
    }

    /// Whatever the future starts belongs to this thread as well.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.spawn(future).await?
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        // To wait for it is not allowed where other tasks run.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens the store and starts the engine. Also answers what to say of the store.
pub(crate) async fn start(
    settings: Settings,
    gateway: String,
    metrics: Metrics,
) -> Result<(Presence, String)> {
    let config = config(&settings);
    let (opened, store_note) = open_store(&settings, &config, &gateway).await?;
    let presence = Presence::start(config, opened, metrics);
    presence.read_orders().await.context("cannot read from the store whose tokens were revoked")?;
    Ok((presence, store_note))
}

fn config(settings: &Settings) -> Config {
    Config {
        heartbeat: settings.heartbeat,
        ttl: settings.ttl,
        grace: settings.grace,
        last_seen: settings.last_seen,
        orders_kept: settings.revocation_kept,
        watch_len_max: settings.max_watch as usize,
        unsent_bytes_max: settings.admission.max_unsent_bytes,
        sessions: SessionLimit {
            max: settings.admission.max_sessions_per_user as usize,
            over: match settings.admission.sessions_over {
                SessionsOver::Oldest => Over::OldestGivesWay,
                SessionsOver::Newest => Over::NewestIsRefused,
            },
        },
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
            let (opened, report) = Box::pin(redis::open(options))
                .await
                .with_context(|| format!("cannot use {url}"))?;
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
