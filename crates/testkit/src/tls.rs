//! A real Redis that speaks TLS, with certificates made for it and an authority that nobody else trusts.

use std::fs;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::keeper::Scratch;
use crate::redis::{RedisServer, Role, SAVE_NOTHING, free_port};

/// A server with a port for TLS, and another without, by which tests work on it.
pub struct TlsRedis {
    server: RedisServer,
    tls_port: u16,
    files: Scratch,
}

/// Whether the server asks clients who they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It does not.
    Ignored,
    /// Nobody is let in without one of the authority.
    Needed,
}

impl TlsRedis {
    /// Starts one whose certificate names `name`, such as `127.0.0.1`, where it is.
    pub fn start(name: &str, clients: ClientCertificates) -> Self {
        let files = make_files(name);
        let tls_port = free_port();
        let asks = if clients == ClientCertificates::Needed { "yes" } else { "no" };
        let options = [
            ["--tls-port", &tls_port.to_string()],
            ["--tls-cert-file", &files.file("server.pem")],
            ["--tls-key-file", &files.file("server.key")],
            ["--tls-ca-cert-file", &files.file("ca.pem")],
            ["--tls-auth-clients", asks],
        ];
        let server =
            RedisServer::launch(Role::Lone, &[&SAVE_NOTHING, options.as_flattened()].concat());
        Self { server, tls_port, files }
    }

    /// By its port with TLS.
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port)
    }

    /// By its port with TLS, without saying so.
    pub fn url_without_tls(&self) -> String {
        format!("redis://127.0.0.1:{}", self.tls_port)
    }

    /// By its port without TLS.
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// The certificate of the authority.
    pub fn ca_file(&self) -> String {
        self.files.file("ca.pem")
    }

    /// A certificate for a client, and its key.
    pub fn client_files(&self) -> (String, String) {
        (self.files.file("client.pem"), self.files.file("client.key"))
    }
}

fn make_files(name: &str) -> Scratch {
    let files = Scratch::new();
    let key = || KeyPair::generate().expect("a key");
    let params = |name: &str| {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let write = |who: &str, certificate: &Certificate, key: &KeyPair| {
        let written = fs::write(files.file(&format!("{who}.pem")), certificate.pem());
        written.expect("a file of this test");
        let written = fs::write(files.file(&format!("{who}.key")), key.serialize_pem());
        written.expect("a file of this test");
    };
    let mut authority = params(&format!("authority-of-{name}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = key();
    let certificate = authority.self_signed(&authority_key).expect("a certificate");
    write("ca", &certificate, &authority_key);
    let issuer = Issuer::new(authority, authority_key);
    for (who, name) in [("server", name), ("client", "gateway.test")] {
        let key = key();
        let certificate = params(name).signed_by(&key, &issuer).expect("a certificate");
        write(who, &certificate, &key);
    }
    files
}
