//! Handshakes that come to nothing, and files that are wrong. What works is in the integration tests.

use std::fs;
use std::path::PathBuf;

use presence_testkit::Authority;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::certificate::Certificate;
use super::*;

const NAME: &str = "127.0.0.1";

/// TLS with a certificate for [`server_name`], and whose that is.
pub(crate) fn open() -> (Authority, Tls) {
    let authority = Authority::new();
    authority.certify("server", NAME);
    let (tls, _renewal) = Tls::open(&files(&authority), &mut Registry::default()).unwrap();
    (authority, tls)
}

/// A client that trusts this authority.
pub(crate) fn connector(authority: &Authority) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca_file()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

pub(crate) fn server_name() -> ServerName<'static> {
    NAME.try_into().unwrap()
}

fn files(authority: &Authority) -> CertificateFiles {
    let (cert, key) = (authority.cert_file("server"), authority.key_file("server"));
    CertificateFiles { cert: cert.into(), key: key.into() }
}

#[tokio::test]
async fn who_says_nothing_in_the_handshake_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let (_authority, tls) = open();
    assert!(tls.accept(stream, peer, Duration::from_millis(20)).await.is_none());
}

#[test]
fn files_that_are_wrong_are_named_with_what_is_wrong() {
    let authority = Authority::new();
    authority.certify("server", NAME);
    authority.certify("other", NAME);
    let good = files(&authority);
    let path = |name: &str| PathBuf::from(name);
    let bent = authority.cert_file("bent");
    fs::write(&bent, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let table = [
        (path("/nowhere/cert.pem"), good.key.clone(), "tls_cert_file /nowhere/cert.pem: "),
        (path("/dev/null"), good.key.clone(), "there is no certificate (PEM) in it"),
        (path(&bent), good.key.clone(), "the first certificate: "),
        (good.cert.clone(), path("/nowhere/key.pem"), "tls_key_file /nowhere/key.pem: "),
        (good.cert.clone(), good.cert.clone(), "no private key (PEM) can be read from it"),
        (
            good.cert.clone(),
            path(&authority.key_file("other")),
            "it cannot be the key of the first",
        ),
    ];
    for (cert, key, expected) in table {
        let files = CertificateFiles { cert, key };
        let Err(error) = Certificate::load(&files) else { panic!("{files:?} were taken") };
        let error = format!("{error:#}");
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let note = Certificate::load(&good).unwrap().to_string();
    assert_eq!(note, "for 127.0.0.1, until 4096-01-01T00:00:00Z");
}
