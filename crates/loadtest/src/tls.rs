//! TLS to gateways: whom the tester trusts.

use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use http::Uri;
use rustls_native_certs::load_native_certs;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

/// The only protocol that is spoken.
const PROTOCOL: &[u8] = b"http/1.1";

/// Makes the client's end of TLS connections to gateways.
#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts these authorities (PEM), or those of this machine where none are given.
    pub(crate) fn new(authorities: Option<&str>) -> Result<Self> {
        let roots = match authorities {
            Some(pem) => roots_in(pem)?,
            None => roots_of_this_machine()?,
        };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // Each connection is a device of its own, and none knows the others' secrets.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// The beginning of a connection.
    pub(crate) fn begin(&self, name: ServerName<'static>) -> Result<ClientConnection> {
        Ok(ClientConnection::new(Arc::clone(&self.config), name)?)
    }

    /// A whole handshake; fails where the gateway's certificate is not trusted.
    pub(crate) async fn greet(
        &self,
        name: ServerName<'static>,
        stream: tokio::net::TcpStream,
    ) -> io::Result<()> {
        TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await.map(drop)
    }
}

/// Whom the certificate must name; none where the URL asks for no TLS.
pub(crate) fn server_name(url: &Uri) -> Result<Option<ServerName<'static>>> {
    if !matches!(url.scheme_str(), Some("wss" | "https")) {
        return Ok(None);
    }
    let host = url.host().context("the URL names no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(Some(ServerName::try_from(host.to_owned())?))
}

/// The certificates of a file, which must hold some.
pub(crate) fn read_authorities(path: &Path) -> Result<String> {
    let named = || format!("--tls-ca-file {}", path.display());
    let pem = std::fs::read_to_string(path).with_context(named)?;
    roots_in(&pem).with_context(named)?;
    Ok(pem)
}

fn roots_in(pem: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "there is no certificate in it: one in PEM is needed");
    Ok(roots)
}

fn roots_of_this_machine() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to trust none.
    let (added, _) = roots.add_parsable_certificates(load_native_certs().certs);
    ensure!(added > 0, "this machine has no certificate authorities: name some with --tls-ca-file");
    Ok(roots)
}
