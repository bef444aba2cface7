//! Whom calls over TLS trust: the certificate authorities of a file, or else those of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tracing::warn;

/// Why nobody can be trusted.
#[derive(Debug, Error)]
pub(crate) enum TrustError {
    /// The file cannot be used.
    #[error("outbound_ca_file: {}: {why}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The library refused.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// The one that Redis' TLS uses as well: another would be a second library of cryptography.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

pub(super) fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TrustError> {
    match ca_file {
        Some(path) => roots_in(path),
        None => Ok(roots_of_this_machine()),
    }
}

fn roots_in(path: &Path) -> Result<RootCertStore, TrustError> {
    let unusable = |why: String| TrustError::File { path: path.to_owned(), why };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// May be none: then only calls without TLS work, as to this machine itself.
fn roots_of_this_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to trust none.
    let (added, _) =
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        warn!(
            "this machine has no certificate authorities, so no call over https can succeed: install ca-certificates, \
             or set outbound_ca_file"
        );
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        for (path, why) in
            [("/nowhere/ca.pem", "/nowhere/ca.pem"), ("/dev/null", "there is no certificate")]
        {
            let error = roots(Some(Path::new(path))).expect_err(path).to_string();
            assert!(error.contains("outbound_ca_file") && error.contains(why), "{error}");
        }
    }
}
