//! The listener: accepts TCP connections and serves HTTP/1.1 on each. A connection that becomes a WebSocket leaves its
//! HTTP task behind, and all that belonged to it.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{Domain, Protocol, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::app::SharedApp;
use crate::http::router;
use crate::socket::Socket;
use crate::tls::Tls;

/// How many connections the kernel keeps ready for us: as many as it allows by default.
const BACKLOG: i32 = 4096;

/// How long a client may take over the head of a request, and over a TLS handshake before it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// After an accept failed (mostly for want of file descriptors), this long nothing is accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    // Linux hands it on to every socket that is accepted: one call for all.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(StdListener::from(socket))?)
}

async fn accept(listener: TcpListener, app: SharedApp, tls: Option<Arc<Tls>>) {
    let router = router(app.clone());
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                app.metrics.accepted.inc();
                tokio::spawn(serve(stream, peer, router.clone(), tls.clone()));
            }
            Err(error) => {
                app.metrics.accept_errors.inc();
                warn!(%error, "cannot accept a connection: raise the limit of open files, or lower max_connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, tls: Option<Arc<Tls>>) {
    let socket = match tls {
        None => Some(Socket::Plain(stream)),
        // In a box, which is gone when the handshake is over.
        Some(tls) => Box::pin(async move { tls.accept(stream, peer, HEADER_TIMEOUT).await }).await,
    };
    let Some(socket) = socket else { return };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router))
        .with_upgrades()
        .await;
    if let Err(error) = served {
        debug!(%peer, %error, "an HTTP connection ended early");
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
