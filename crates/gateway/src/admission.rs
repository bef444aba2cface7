//! Who comes in. Connections are counted from the moment they are accepted, and what would be too much is refused while it
//! is cheap: before there is a WebSocket.
//!
//! ```text
//! accepted -- Handshake --> request, upgrade, hello --> session
//!                              \------------- Seat -----------> closed
//! ```
//!
//! It must not know what is said on a socket.

mod address;
mod forwarded;
mod memory;
mod origin;
mod pace;
mod proxy;
mod refusal;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::debug;

use crate::app::{App, SharedApp};
use crate::metrics::{Metrics, PauseLabel};
use crate::settings::Settings;
use address::{Address, Tally};
use memory::Memory;
pub(crate) use memory::{Figures as MemoryFigures, resident, watch as watch_memory};
pub(crate) use pace::Pace;
pub(crate) use refusal::{Refusal, note, refuse, refuse_raw};

/// An address may hold one in so many of the handshakes.
const SHARE_OF_AN_ADDRESS: u32 = 4;

/// While half of all handshakes are under way, each has one in so many parts of its time.
const HURRY: u32 = 5;

/// Counts whoever comes in.
pub(crate) struct Admission {
    handshakes: Arc<Semaphore>,
    handshakes_max: u32,
    handshakes_by_address: Tally,
    sockets_by_address: Tally,
    memory: Memory,
}

/// A connection that has not said `hello`, or has another request to make. Dropping it makes room for the next.
pub(crate) struct Handshake {
    app: SharedApp,
    /// Who is at the other end, as far as the connection itself tells.
    peer: IpAddr,
    address: Option<Address>,
    _place: OwnedSemaphorePermit,
}

/// The place of a WebSocket among all others, and among those of its address. Dropping it gives it up.
pub(crate) struct Seat {
    pub(crate) app: SharedApp,
    address: Option<Address>,
}

impl Admission {
    pub(crate) fn new(settings: &Settings) -> Self {
        let limits = &settings.admission;
        let max = limits.max_handshakes;
        Self {
            handshakes: Arc::new(Semaphore::new(max as usize)),
            handshakes_max: max,
            handshakes_by_address: Tally::new(max.div_ceil(SHARE_OF_AN_ADDRESS)),
            sockets_by_address: Tally::new(limits.max_connections_per_address),
            memory: Memory::new(limits.max_memory),
        }
    }

    /// Waits until one more connection may be accepted. Those that wait their turn meanwhile do so in the kernel, where they
    /// cost next to nothing, and see nothing but a slow network.
    pub(crate) async fn turn(&self, pace: &mut Pace, metrics: &Metrics) {
        if let Some(wait) = pace.take() {
            metrics.accept_pauses.get_or_create(&PauseLabel::RATE).inc();
            tokio::time::sleep(wait).await;
        }
        if self.handshakes.available_permits() == 0 {
            metrics.accept_pauses.get_or_create(&PauseLabel::HANDSHAKES).inc();
        }
        drop(self.place().await);
    }

    /// A place among the handshakes. There is one, for whoever waited for its turn.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        self.handshakes.clone().acquire_owned().await.expect("it is never closed")
    }

    /// How long a handshake may take over what has so much `time` at ease. When many are under way those that make no
    /// progress are in the way of others, and who means well needs far less.
    pub(crate) fn patience(&self, time: Duration) -> Duration {
        let is_busy = self.handshakes.available_permits() < self.handshakes_max as usize / 2;
        if is_busy { time / HURRY } else { time }
    }

    /// Whether more memory is used than may be.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.memory.is_short()
    }

    /// How much memory there is.
    pub(crate) fn memory(&self) -> MemoryFigures {
        self.memory.figures()
    }

    /// Why a new socket would be refused, whoever came.
    pub(crate) fn why_closed(&self, app: &App) -> Option<Refusal> {
        if app.presence.is_draining() {
            Some(Refusal::Draining)
        } else if self.memory.is_short() {
            Some(Refusal::Memory)
        } else if app.metrics.connections.get() >= i64::from(app.settings.max_connections) {
            Some(Refusal::Full)
        } else {
            None
        }
    }

    /// Brings the gauges up to date, before they are read.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        let free = self.handshakes.available_permits();
        metrics.handshakes.set(i64::from(self.handshakes_max) - free as i64);
        let used = Memory::used(metrics.connections.get()).unwrap_or_default();
        metrics.memory.set(used as i64);
    }
}

impl Handshake {
    /// Finds out who is at the other end, which may take a PROXY header.
    pub(crate) async fn begin(
        app: &SharedApp,
        stream: &mut TcpStream,
        peer: SocketAddr,
        place: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, Refusal> {
        let proxies = &app.settings.admission.proxies;
        let mut peer = peer.ip();
        if proxies.speak_proxy_protocol && proxies.trusted.contain(peer) {
            let time = app.admission.patience(app.settings.admission.http_timeout);
            let header = timeout(time, proxy::read_header(stream)).await;
            let told = header.map_err(|_late| Refusal::Late)?.map_err(|error| {
                debug!(%peer, %error, "a trusted proxy sent no good PROXY header");
                Refusal::ProxyHeader
            })?;
            peer = told.unwrap_or(peer);
        }
        // Many clients come by one proxy.
        let address = Address::of(peer).filter(|_| !proxies.trusted.contain(peer));
        if !app.admission.handshakes_by_address.enter(address) {
            return Err(Refusal::Handshakes);
        }
        Ok(Arc::new(Self { app: app.clone(), peer, address, _place: place }))
    }

    /// Where the client of a request is: behind the proxies that are trusted.
    pub(crate) fn client(&self, headers: &HeaderMap) -> IpAddr {
        forwarded::client(&self.app.settings.admission.proxies, self.peer, headers).to_canonical()
    }

    /// Lets a client's WebSocket in, or says why not.
    pub(crate) fn seat(&self, client: IpAddr, headers: &HeaderMap) -> Result<Seat, Refusal> {
        let (app, limits) = (&self.app, &self.app.settings.admission);
        if let Some(refusal) = app.admission.why_closed(app) {
            return Err(refusal);
        }
        if !origin::is_allowed(&limits.allowed_origins, headers) {
            return Err(Refusal::Origin);
        }
        let address = Address::of(client).filter(|_| !limits.proxies.trusted.contain(client));
        if !app.admission.sockets_by_address.enter(address) {
            return Err(Refusal::Address);
        }
        let others = app.metrics.connections.inc();
        let seat = Seat { app: app.clone(), address };
        // Some may have come since that was looked at.
        if others < i64::from(app.settings.max_connections) { Ok(seat) } else { Err(Refusal::Full) }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.app.admission.handshakes_by_address.leave(self.address);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.app.metrics.connections.dec();
        self.app.admission.sockets_by_address.leave(self.address);
    }
}
