//! A server that publishes keys (JWKS), and does what a test tells it to: answers another thing, or nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// 200 with this body.
    Body(String),
    /// This status line, with headers.
    Status(&'static str),
    /// A body that does not end.
    Endless,
    /// Nothing, for as long as the other side waits.
    Silence,
}

/// The server. Dropping it stops it, with all its connections.
pub(crate) struct KeyServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    certificate: Option<String>,
}

struct Shared {
    reply: Mutex<Reply>,
    asked: AtomicUsize,
}

/// A body of these keys.
pub(crate) fn key_set<const N: usize>(keys: [Value; N]) -> Reply {
    Reply::Body(json!({ "keys": Vec::from(keys) }).to_string())
}

impl KeyServer {
    /// Starts one on a free port, without TLS.
    pub(crate) async fn start(reply: Reply) -> Self {
        Self::bind("127.0.0.1:0", reply, None).await
    }

    /// Starts one at an address where one was before.
    pub(crate) async fn start_at(addr: SocketAddr, reply: Reply) -> Self {
        Self::bind(&addr.to_string(), reply, None).await
    }

    /// Starts one with TLS, and a certificate of its own for `localhost`.
    pub(crate) async fn start_with_tls(reply: Reply) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .expect("a key for the certificate");
        let tls = TlsAcceptor::from(Arc::new(config));
        let mut server = Self::bind("127.0.0.1:0", reply, Some(tls)).await;
        server.certificate = Some(cert.pem());
        server
    }

    async fn bind(addr: &str, reply: Reply, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(addr).await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { reply: Mutex::new(reply), asked: AtomicUsize::new(0) });
        let task = tokio::spawn(accept(listener, shared.clone(), tls));
        Self { addr, shared, task, certificate: None }
    }

    /// The flag that names it.
    pub(crate) fn flag(&self) -> String {
        match self.certificate {
            None => format!("--jwks-url=http://{}/keys?key=hush", self.addr),
            Some(_) => format!("--jwks-url=https://localhost:{}/keys", self.addr.port()),
        }
    }

    /// Its certificate, as PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.certificate.as_deref().expect("it has TLS")
    }

    /// Answers this from now on.
    pub(crate) fn set(&self, reply: Reply) {
        *self.shared.reply.lock().expect("no panic") = reply;
    }

    /// How many requests came.
    pub(crate) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Stops it, and waits until nobody listens there.
    pub(crate) async fn stop(mut self) -> SocketAddr {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.addr
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<TlsAcceptor>) {
    // They end with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        connections.spawn(serve(stream, shared.clone(), tls.clone()));
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, tls: Option<TlsAcceptor>) {
    match tls {
        None => answer_all(stream, &shared).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => answer_all(stream, &shared).await,
            Err(_untrusted) => {}
        },
    }
}

async fn answer_all(mut stream: impl AsyncRead + AsyncWrite + Unpin, shared: &Shared) {
    let mut request = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&bytes[..read]),
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        shared.asked.fetch_add(1, Ordering::Relaxed);
        let reply = shared.reply.lock().expect("no panic").clone();
        let head = match &reply {
            Reply::Body(body) => {
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            }
            Reply::Status(status) => format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"),
            Reply::Endless => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
            Reply::Silence => std::future::pending().await,
        };
        let mut sent = stream.write_all(head.as_bytes()).await;
        while sent.is_ok() && matches!(reply, Reply::Endless) {
            sent = stream.write_all(&[b' '; 4096]).await;
            tokio::time::sleep(Duration::from_micros(10)).await;
        }
        if sent.is_err() {
            return;
        }
    }
}
