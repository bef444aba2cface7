//! TLS in this process: the handshake of each connection, with the certificate that is in the files now.
//!
//! A connection that was accepted keeps what it agreed on; a renewed certificate is shown to those who come after.

mod certificate;
mod metrics;
mod renewal;

#[cfg(test)]
pub(crate) mod tests;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use prometheus_client::registry::Registry;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::debug;

use crate::settings::CertificateFiles;
use crate::socket::Socket;
use metrics::{Handshake, TlsMetrics};
use renewal::Renewal;

/// The WebSocket handshake is one of HTTP/1.1.
const PROTOCOL: &[u8] = b"http/1.1";

/// A client that comes back needs one; rustls sends two by default, for clients that open several connections at a time.
const TICKETS: usize = 1;

/// What tells a client's request that it came to the wrong port, as it would be if that were the whole of HTTP.
const NOT_ENCRYPTED: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 64\r\nconnection: close\r\n\r\n\
    this port speaks TLS only: connect with https:// or with wss://\n";

/// What encrypts connections.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    metrics: TlsMetrics,
    /// What a start-up message says of the certificate.
    note: String,
}

impl Tls {
    /// Reads the files. Also answers the task that reads them again when they change.
    pub(crate) fn open(
        files: &CertificateFiles,
        registry: &mut Registry,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>)> {
        let metrics = TlsMetrics::register(registry);
        let (renewal, newest) = Renewal::open(files, metrics.clone())?;
        let note = renewal.note();
        let acceptor = TlsAcceptor::from(Arc::new(config(newest)?));
        Ok((Self { acceptor, metrics, note }, renewal.run()))
    }

    pub(crate) fn note(&self) -> &str {
        &self.note
    }

    /// Agrees with a client on how to encrypt, within `limit`. None when there is nobody to serve.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        limit: Duration,
    ) -> Option<Socket> {
        let done = timeout(limit, self.handshake(stream)).await;
        let (outcome, socket) = match done {
            Ok(Ok(Some(socket))) => (Handshake::Done, Some(socket)),
            Ok(Ok(None)) => {
                debug!(%peer, "a client spoke HTTP without TLS");
                (Handshake::NotEncrypted, None)
            }
            Ok(Err(error)) => {
                debug!(%peer, %error, "a TLS handshake failed");
                (Handshake::Failed, None)
            }
            Err(_late) => {
                debug!(%peer, "a TLS handshake took too long");
                (Handshake::TimedOut, None)
            }
        };
        self.metrics.count_handshake(outcome);
        socket
    }

    /// None when the client does not encrypt.
    async fn handshake(&self, stream: TcpStream) -> io::Result<Option<Socket>> {
        let mut first = [0];
        // A method of HTTP, where TLS begins with a number that is no letter.
        if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
            return refuse(stream).await.map(|()| None);
        }
        Ok(Some(Socket::encrypted(self.acceptor.accept(stream).await?)))
    }
}

/// Reads the request first, as far as it has come: a socket closed over unread bytes is reset, and the reset may overtake
/// the answer.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.try_read(&mut [0; 4096])?;
    stream.writable().await?;
    stream.try_write(NOT_ENCRYPTED)?;
    poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await
}

fn config(newest: Newest) -> Result<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS")?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(newest));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Who comes back within hours skips the signature, which is most of the work of a handshake, and nothing is kept here.
    config.ticketer = ring::Ticketer::new().context("TLS: no key for session tickets")?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = TICKETS;
    Ok(config)
}

/// The certificate as it was last read.
#[derive(Debug)]
struct Newest(watch::Receiver<Arc<CertifiedKey>>);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.borrow().clone())
    }
}
