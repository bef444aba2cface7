//! A real Redis that speaks TLS, with certificates made for it and an authority that nobody else trusts.

use crate::authority::Authority;
use crate::redis::{RedisServer, Role, SAVE_NOTHING, free_port};

/// A server with a port for TLS, and another without, by which tests work on it.
pub struct TlsRedis {
    server: RedisServer,
    tls_port: u16,
    authority: Authority,
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
        let authority = Authority::new();
        authority.certify("server", name);
        authority.certify("client", "gateway.test");
        let tls_port = free_port();
        let asks = if clients == ClientCertificates::Needed { "yes" } else { "no" };
        let options = [
            ["--tls-port", &tls_port.to_string()],
            ["--tls-cert-file", &authority.cert_file("server")],
            ["--tls-key-file", &authority.key_file("server")],
            ["--tls-ca-cert-file", &authority.ca_file()],
            ["--tls-auth-clients", asks],
        ];
        let server =
            RedisServer::launch(Role::Lone, &[&SAVE_NOTHING, options.as_flattened()].concat());
        Self { server, tls_port, authority }
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
        self.authority.ca_file()
    }

    /// A certificate for a client, and its key.
    pub fn client_files(&self) -> (String, String) {
        (self.authority.cert_file("client"), self.authority.key_file("client"))
    }
}
