//! The listener: accepts TCP connections and serves HTTP/1.1 on each. A connection that becomes a WebSocket leaves its
//! HTTP task behind, and all that belonged to it.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::middleware::AddExtension;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::Layer;
use tracing::{debug, warn};

use crate::admission::{self, Handshake, Pace, Refusal};
use crate::app::SharedApp;
use crate::http::router;
use crate::socket::Socket;
use crate::tls::Tls;

/// How many connections the kernel keeps ready for us: as many as it allows by default.
const BACKLOG: i32 = 4096;

/// The most bytes that the kernel takes of what a client does not read, of which it makes twice as much. It would take
/// megabytes for a connection that once was fast.
const SEND_BUFFER_LEN: usize = 128 * 1024;

/// The longest head of a request: room for a large token.
const HEAD_LEN_MAX: usize = 16 * 1024;

/// The most that is kept of a connection that is no WebSocket, each way.
const HTTP_BUFFER_LEN: usize = 64 * 1024;

/// A connection that stays with HTTP is asked to close after so many times the time of a request: whoever does not read
/// answers would stay for ever.
const HTTP_REQUEST_TIMES: u32 = 6;

/// After an accept failed (mostly for want of file descriptors), this long nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The routes, and who asks.
type HttpService = TowerToHyperService<AddExtension<Router, Arc<Handshake>>>;

/// A connection that was accepted, and its place among those that have yet to say who they are.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
}

/// A bound listener and its tasks.
pub(crate) struct Server {
    addr: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) fn bind(listen: SocketAddr, app: SharedApp, tls: Option<Arc<Tls>>) -> Result<Self> {
        let listener = listener(listen)?;
        let addr = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(admission::watch_memory(app.clone()));
        tasks.spawn(accept(listener, app, tls));
        Ok(Self { addr, _tasks: tasks })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

fn listener(listen: SocketAddr) -> Result<TcpListener> {
    let socket =
        socket2::Socket::new(Domain::for_address(listen), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Linux hands both on to every socket that is accepted: one call for all.
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_LEN)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(StdListener::from(socket))?)
}

async fn accept(listener: TcpListener, app: SharedApp, tls: Option<Arc<Tls>>) {
    let router = router(app.clone());
    let mut pace = Pace::new(app.settings.admission.handshake_rate);
    loop {
        app.admission.turn(&mut pace, &app.metrics).await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                app.metrics.accepted.inc();
                let arrival = Arrival { stream, peer, place: app.admission.place().await };
                tokio::spawn(welcome(arrival, app.clone(), router.clone(), tls.clone()));
            }
            Err(error) => {
                app.metrics.accept_errors.inc();
                warn!(%error, "cannot accept a connection: raise the limit of open files, or lower max_connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Finds out who came, and serves or refuses them.
async fn welcome(arrival: Arrival, app: SharedApp, router: Router, tls: Option<Arc<Tls>>) {
    let Arrival { mut stream, peer, place } = arrival;
    let handshake = match Handshake::begin(&app, &mut stream, peer, place).await {
        Ok(handshake) => handshake,
        // Who expects TLS cannot read a refusal without it, and to encrypt one is dear.
        Err(refusal) if tls.is_some() => return admission::note(&app, refusal),
        Err(refusal) => return admission::refuse_raw(&app, stream, refusal).await,
    };
    let time = app.admission.patience(app.settings.admission.http_timeout);
    let socket = match tls {
        None => Some(Socket::Plain(stream)),
        // In a box, which is gone when the handshake is over.
        Some(tls) => Box::pin(async move { tls.accept(stream, peer, time).await }).await,
    };
    if let Some(socket) = socket {
        let router = Extension(handshake).layer(router);
        serve(socket, peer, &app, TowerToHyperService::new(router)).await;
    }
}

async fn serve(socket: Socket, peer: SocketAddr, app: &SharedApp, router: HttpService) {
    let time = app.admission.patience(app.settings.admission.http_timeout);
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(time)
            .max_header_size(HEAD_LEN_MAX)
            .max_buf_size(HTTP_BUFFER_LEN)
            .serve_connection(TokioIo::new(socket), router)
            .with_upgrades()
    );
    let mut end = timeout(time * HTTP_REQUEST_TIMES, &mut served).await;
    if end.is_err() {
        served.as_mut().graceful_shutdown();
        end = timeout(time, served).await;
    }
    match end {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            if error.is_timeout() {
                admission::note(app, Refusal::Late);
            }
            debug!(%peer, %error, "an HTTP connection ended early");
        }
        Err(_late) => admission::note(app, Refusal::Late),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_is_accepted_is_answered_without_delay() {
        let listener = listener(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(accepted.nodelay().unwrap());
    }
}
