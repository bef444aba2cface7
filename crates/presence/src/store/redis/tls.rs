//! TLS to Redis: whom to trust, and who we are. Reads the files that the settings name, once, at the start.
//!
//! Never connects without the encryption that was asked for, nor to a server whose certificate does not name it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fred::rustls::crypto::ring;
use fred::rustls::pki_types::pem::PemObject;
use fred::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use fred::rustls::{ClientConfig, RootCertStore};
use fred::rustls_native_certs::load_native_certs;
use fred::types::config::TlsConfig;

use super::errors::OpenError;

/// The files that TLS to Redis takes, as PEM. Without any, the certificate authorities of this machine are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The only certificate authorities to trust.
    pub ca: Option<PathBuf>,
    /// For servers that ask who we are.
    pub client: Option<ClientFiles>,
}

/// A client certificate, with those that lead to its authority, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificates, ours first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    pub(super) fn load(&self) -> Result<TlsConfig, OpenError> {
        let roots = match &self.ca {
            Some(path) => roots_in(path)?,
            None => roots_of_this_machine()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| OpenError::Tls(error.to_string()))?
            .with_root_certificates(roots);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some(ClientFiles { cert, key }) => {
                let own = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, &error))?;
                config.with_client_auth_cert(certificates_in(cert)?, own).map_err(|error| {
                    OpenError::Tls(format!("{} and {}: {error}", cert.display(), key.display()))
                })?
            }
        };
        Ok(TlsConfig::from(config))
    }
}

fn roots_in(path: &Path) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_in(path)? {
        roots.add(certificate).map_err(|error| unread(path, &error))?;
    }
    Ok(roots)
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unread(path, &error))?;
    if found.is_empty() {
        return Err(unread(path, &"there is no certificate in it"));
    }
    Ok(found)
}

fn unread(path: &Path, error: &impl ToString) -> OpenError {
    OpenError::Tls(format!("{}: {}", path.display(), error.to_string()))
}

fn roots_of_this_machine() -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to trust none.
    let (added, _) = roots.add_parsable_certificates(load_native_certs().certs);
    if added == 0 {
        let advice = "this machine has no certificate authorities: install ca-certificates, or name a file of them";
        return Err(OpenError::Tls(advice.to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let missing = TlsFiles { ca: Some("/nowhere/ca.pem".into()), client: None };
        let error = missing.load().expect_err("it is not there").to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
        let empty = TlsFiles { ca: Some("/dev/null".into()), client: None };
        let error = empty.load().expect_err("it is empty").to_string();
        assert!(error.contains("/dev/null: there is no certificate"), "{error}");
    }
}
