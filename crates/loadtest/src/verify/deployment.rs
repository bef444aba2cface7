//! The deployment that is checked: a store and some gateways, as processes of this machine that end
//! with the check.

pub(crate) mod backing;
pub(crate) mod fill;
pub(crate) mod gateway;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::verify::args::{StoreArg, VerifyArgs};
use crate::verify::deployment::backing::Backing;
use crate::verify::deployment::gateway::{GatewayProcess, Launch};
use crate::verify::http;
use crate::verify::record::Place;

/// The start of every key in the store.
pub(crate) const PREFIX: &str = "presence";

/// Opens the gateways' calls for a backend.
pub(crate) const API_KEY: &str = "verify-0123456789abcdef";

/// The store and the gateways. Dropping it ends them.
pub(crate) struct Deployment {
    gateways: Vec<tokio::sync::Mutex<GatewayProcess>>,
    /// None when presence is kept in the gateway.
    pub(crate) backing: Option<Arc<Mutex<Backing>>>,
    pids: Pids,
    logs: tempfile::TempDir,
}

/// The processes that run, by place; the store's servers come after the gateways.
pub(crate) type Pids = Arc<Mutex<BTreeMap<usize, u32>>>;

impl Deployment {
    /// Starts the store, then the gateways, and waits until all are ready and believe it.
    pub(crate) async fn start(args: &VerifyArgs, bin: PathBuf) -> Result<Self> {
        let backing = match args.store {
            StoreArg::Embedded => None,
            store => Some(start_backing(store).await?),
        };
        let logs = tempfile::Builder::new().prefix("presence-verify-").tempdir()?;
        let url = backing.as_ref().map(|backing| backing.lock().url());
        let pids = Pids::default();
        let mut gateways = Vec::new();
        for place in 0..args.gateways as usize {
            let log = logs.path().join(format!("gateway-{}.log", place + 1));
            let launch = Launch::new(bin.clone(), args, url.as_deref(), log);
            let mut gateway = GatewayProcess::new(launch, place, pids.clone());
            gateway.start().await.with_context(|| format!("gateway {}", place + 1))?;
            gateways.push(tokio::sync::Mutex::new(gateway));
        }
        let deployment = Self { gateways, backing, pids, logs };
        deployment.note_store().await;
        // In the first seconds of a store's life, who was never seen may be one whom it lost: it is not told before.
        for gateway in deployment.gateways() {
            http::query(gateway.lock().await.addr(), &[0]).await.context("a first look-up")?;
        }
        Ok(deployment)
    }

    pub(crate) fn gateway(&self, place: Place) -> &tokio::sync::Mutex<GatewayProcess> {
        &self.gateways[place]
    }

    /// The processes that run now.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pids.lock().values().copied().collect()
    }

    pub(crate) fn gateways(&self) -> impl Iterator<Item = &tokio::sync::Mutex<GatewayProcess>> {
        self.gateways.iter()
    }

    /// Where clients of any make may connect, as any user.
    pub(crate) async fn urls(&self) -> Vec<String> {
        let mut urls = Vec::new();
        for gateway in self.gateways() {
            urls.push(format!("ws://{}/ws", gateway.lock().await.addr()));
        }
        urls
    }

    /// Does something with the store's servers, which may block.
    pub(crate) async fn with_backing<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Backing) -> T + Send + 'static,
    ) -> Result<T> {
        let backing = self.backing.clone().context("there is no Redis in this deployment")?;
        spawn_blocking(move || act(&mut backing.lock())).await.context("redis-server")
    }

    /// Finds out the processes of the store, which may be new ones.
    pub(crate) async fn note_store(&self) {
        let found = self.with_backing(Backing::pids).await.unwrap_or_default();
        let mut pids = self.pids.lock();
        pids.retain(|place, _| *place < self.gateways.len());
        pids.extend(found.into_iter().enumerate().map(|(n, pid)| (self.gateways.len() + n, pid)));
    }

    /// Leaves the gateways' logs where they are, and tells where.
    pub(crate) fn keep_logs(&mut self) -> PathBuf {
        self.logs.disable_cleanup(true);
        self.logs.path().to_owned()
    }
}

async fn start_backing(store: StoreArg) -> Result<Arc<Mutex<Backing>>> {
    let backing = spawn_blocking(move || Backing::start(store)).await;
    Ok(Arc::new(Mutex::new(backing.context("starting redis-server")?)))
}
