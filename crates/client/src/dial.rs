//! How a gateway is reached: by TCP, and by TLS over it where the URL says `wss://`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt;
use http::Uri;
use rustls_native_certs::load_native_certs;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::options::{Dial, Transport};

/// The only protocol in which a WebSocket is asked for here.
const PROTOCOL: &[u8] = b"http/1.1";

/// Which certificate authorities are trusted to say who a gateway at `wss://` is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of this machine.
    #[default]
    Machine,
    /// Only those in this PEM file.
    Only(PathBuf),
}

/// Reaches the gateway of this URL, `ws://` or `wss://`.
pub fn dial(url: Uri, trust: Trust) -> Dial {
    let route = Arc::new(Route { url, trust, connector: OnceCell::new() });
    Arc::new(move || {
        let route = route.clone();
        async move { route.connect().await }.boxed()
    })
}

struct Route {
    url: Uri,
    trust: Trust,
    /// Made once: it remembers what makes the next handshake with the same gateway a short one.
    connector: OnceCell<TlsConnector>,
}

impl Route {
    async fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let (default_port, encrypted) = match self.url.scheme_str() {
            Some("ws") => (80, false),
            Some("wss") => (443, true),
            _ => return Err(invalid("the URL must start with ws:// or wss://")),
        };
        let host = self.url.host().ok_or_else(|| invalid("the URL names no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_u16().unwrap_or(default_port);
        let stream = TcpStream::connect((host, port)).await?;
        // A frame is a whole message: holding it back for more would only delay it.
        stream.set_nodelay(true)?;
        if !encrypted {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = self.connector.get_or_try_init(|| async { connector(&self.trust) }).await?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

fn connector(trust: &Trust) -> io::Result<TlsConnector> {
    let roots = match trust {
        Trust::Machine => roots_of_this_machine()?,
        Trust::Only(path) => roots_in(path)?,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots_in(path: &Path) -> io::Result<RootCertStore> {
    let unread = |why: String| invalid(&format!("{}: {why}", path.display()));
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(path).map_err(|error| unread(error.to_string()))? {
        let certificate = found.map_err(|error| unread(error.to_string()))?;
        roots.add(certificate).map_err(|error| unread(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unread("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

fn roots_of_this_machine() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to trust none.
    let (added, _) = roots.add_parsable_certificates(load_native_certs().certs);
    if added == 0 {
        return Err(invalid("this machine has no certificate authorities: name a file of them"));
    }
    Ok(roots)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_cannot_be_dialled_is_said_with_what_would_be_right() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let table = [
            ("http", Trust::Machine, "ws:// or wss://"),
            ("wss", Trust::Only("/dev/null".into()), "/dev/null: there is no certificate in it"),
            ("wss", Trust::Only("/nowhere/ca.pem".into()), "/nowhere/ca.pem: "),
        ];
        for (scheme, trust, expected) in table {
            let dial = dial(format!("{scheme}://{addr}/ws").parse().unwrap(), trust);
            let Err(error) = dial().await else { panic!("{scheme} was dialled") };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
