//! A certificate with its key, as two files hold them. Read and checked whole before it is used.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::settings::CertificateFiles;

/// What is shown to clients. Displayed as the names in it, and until when it is valid.
pub(super) struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) expires_at: SystemTime,
    /// Hosts and addresses.
    names: Vec<String>,
}

impl Certificate {
    /// Reads both files. The error is one line that names the file and what is wrong with it.
    pub(super) fn load(files: &CertificateFiles) -> Result<Self> {
        let CertificateFiles { cert, key } = files;
        let chain = chain_in(cert).with_context(|| format!("tls_cert_file {}", cert.display()))?;
        let (names, expires_at) = of_leaf(&chain[0])
            .with_context(|| format!("tls_cert_file {}: the first certificate", cert.display()))?;
        let of_key = || format!("tls_key_file {}", key.display());
        let private = PrivateKeyDer::from_pem_file(key)
            .context("no private key (PEM) can be read from it")
            .with_context(of_key)?;
        let key = CertifiedKey::from_der(chain, private, &ring::default_provider())
            .context("it cannot be the key of the first certificate in tls_cert_file")
            .with_context(of_key)?;
        Ok(Self { key: Arc::new(key), expires_at, names })
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = humantime::format_rfc3339_seconds(self.expires_at);
        write!(f, "for {}, until {until}", self.names.join(", "))
    }
}

fn chain_in(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let chain = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        bail!("there is no certificate (PEM) in it");
    }
    Ok(chain)
}

/// The names in a certificate, and when it expires.
fn of_leaf(certificate: &CertificateDer) -> Result<(Vec<String>, SystemTime)> {
    let (_, certificate) = X509Certificate::from_der(certificate)?;
    let names = match certificate.subject_alternative_name()? {
        Some(extension) => extension.value.general_names.iter().filter_map(name).collect(),
        None => Vec::new(),
    };
    let expires_at = certificate.validity().not_after.timestamp();
    let since_epoch = Duration::from_secs(expires_at.try_into().unwrap_or(0));
    Ok((names, UNIX_EPOCH + since_epoch))
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => Some((*host).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            ip.ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}
