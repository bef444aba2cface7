//! Calls that the gateway itself makes over HTTP, such as for the keys of tokens.
//!
//! One client for all of them, which keeps its connections. It follows no redirect, and takes no more of an answer and no
//! more time than it is told: whoever is called may be slow, or hostile. It must not be called by a connection's task.

mod trust;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

pub(crate) use trust::TrustError;

/// How long a connection is kept that nobody uses: shorter than servers keep theirs, so that a call rarely meets a closed
/// one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The client.
#[derive(Clone)]
pub(crate) struct Outbound {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// What one call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// From the look-up of the name to the last byte of the answer.
    pub(crate) time: Duration,
    /// The largest body of an answer.
    pub(crate) body_bytes: usize,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    /// It took too long.
    #[error("there was no whole answer within {0:?}")]
    TooSlow(Duration),
    /// Its body is larger than allowed.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// No connection, no trust, or one that broke.
    #[error("{0}")]
    Unreachable(String),
}

impl Outbound {
    /// A client that trusts the certificate authorities in this PEM file, or those of this machine.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, TrustError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(
                ClientConfig::builder_with_provider(trust::provider())
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(trust::roots(ca_file)?)
                    .with_no_client_auth(),
            )
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(https);
        Ok(Self { client })
    }

    /// Sends one request, and waits for its whole answer, whatever its status.
    pub(crate) async fn call(
        &self,
        request: Request<Full<Bytes>>,
        limits: CallLimits,
    ) -> Result<Response<Bytes>, CallError> {
        let answer = timeout(limits.time, self.answer(request, limits.body_bytes)).await;
        answer.map_err(|_late| CallError::TooSlow(limits.time))?
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        body_bytes: usize,
    ) -> Result<Response<Bytes>, CallError> {
        let answer = self.client.request(request).await.map_err(|error| {
            // With its causes: alone it says no more than that there was no connection.
            CallError::Unreachable(format!("{:#}", anyhow::Error::new(error)))
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, body_bytes).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                CallError::TooLarge(body_bytes)
            } else {
                CallError::Unreachable(format!("the answer broke off: {error}"))
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}
