//! A gateway from start to stop: starts the engine, binds, serves, drains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::info;

use crate::app::{App, SharedApp};
use crate::auth::{Authenticator, Keepers};
use crate::consent::Consent;
use crate::engine::{self, EngineThread};
use crate::metrics::{Metrics, ProcessUse};
use crate::server::Server;
use crate::settings::Settings;
use crate::tls::Tls;

/// How often a drain looks whether the last close frames have left.
const CLOSED_POLL: Duration = Duration::from_millis(10);

const GATEWAY_ID_LEN: usize = 8;
const METRICS_PREFIX: &str = "presence";

/// A running gateway. Dropping it ends its listener and its engine; its sockets live on until the runtime ends.
pub struct Gateway {
    app: SharedApp,
    server: Server,
    tls: Option<Arc<Tls>>,
    store_note: String,
    _keepers: Keepers,
    _renewal: JoinSet<()>,
    _engine: EngineThread,
}

impl Gateway {
    /// Opens the store, starts the engine and accepts connections.
    pub async fn start(settings: Settings) -> Result<Self> {
        let authenticator = Authenticator::from_settings(&settings)?;
        let gateway = new_id();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessUse));
        let ours = registry.sub_registry_with_prefix(METRICS_PREFIX);
        let engine_metrics = presence::Metrics::register(ours);
        let metrics = Metrics::register(ours);
        let keepers = Keepers::start(&settings, &authenticator, &metrics.auth).await?;
        let mut renewals = JoinSet::new();
        let tls = match &settings.tls {
            None => None,
            Some(files) => {
                let (tls, renewal) = Tls::open(files, ours)?;
                renewals.spawn(renewal);
                Some(Arc::new(tls))
            }
        };
        let engine = EngineThread::start()?;
        let (presence, store_note) =
            engine.run(engine::start(settings.clone(), gateway.clone(), engine_metrics)).await?;
        let listen = settings.listen;
        let consent = Consent::from_settings(&settings, &presence, ours)?;
        let app = App::new(gateway, settings, authenticator, consent, presence, registry, metrics);
        let app = Arc::new(app);
        let server = Server::bind(listen, app.clone(), tls.clone()).map_err(|error| {
            anyhow!(
                "cannot listen on {listen}: {error:#}; choose where with --listen (PRESENCE_LISTEN), \
                 as in --listen 127.0.0.1:9000"
            )
        })?;
        Ok(Self {
            app,
            server,
            tls,
            store_note,
            _keepers: keepers,
            _renewal: renewals,
            _engine: engine,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// What to say at the start: the main settings, and what was found.
    pub fn summary(&self) -> Vec<(&'static str, String)> {
        let mut lines = self.app.settings.summary();
        lines.insert(0, ("gateway", self.app.gateway.clone()));
        lines.push(("keys", self.app.authenticator.described_keys()));
        lines.push(("found", self.store_note.clone()));
        if let Some(tls) = &self.tls {
            lines.push(("certificate", tls.note().to_owned()));
        }
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
        let left = self.app.metrics.connections.get();
        match gone {
            Ok(()) => info!("drained"),
            Err(_late) if left > 0 => {
                info!(sockets = left, "the drain time is over, the rest is closed");
            }
            Err(_late) => info!("the drain time is over, and nobody is left"),
        }
    }
}

fn new_id() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .take(GATEWAY_ID_LEN)
        .collect()
}
