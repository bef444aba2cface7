//! Why somebody is turned away: one enum that is the answer, its status and the metric's label.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tracing::debug;

use crate::app::App;
use crate::metrics::RefusalLabel;

/// Those who are refused come back at a moment spread over so many seconds. Whoever has a grace is soon tried again, and a
/// full gateway is not asked by all at once.
const RETRY_SPREAD_S: u32 = 10;

/// Why a connection, or a request for a WebSocket, is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The gateway is going away.
    Draining,
    /// There are as many sockets as may be.
    Full,
    /// More memory is used than may be.
    Memory,
    /// There are as many sockets of this address as may be.
    Address,
    /// This address has too many connections that have not said `hello`.
    Handshakes,
    /// The page that wants to connect is not one of those that may.
    Origin,
    /// A trusted proxy did not say who its client is.
    ProxyHeader,
    /// A request did not come in time.
    Late,
}

impl Refusal {
    /// The label in metrics and logs.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Full => "connections",
            Self::Memory => "memory",
            Self::Address => "address",
            Self::Handshakes => "handshakes",
            Self::Origin => "origin",
            Self::ProxyHeader => "proxy_header",
            Self::Late => "late",
        }
    }

    /// What a probe is told, and the start of what a client is told.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Draining => "this gateway is draining\n",
            Self::Full => "this gateway has as many connections as it may have\n",
            Self::Memory => "this gateway is short of memory\n",
            Self::Address => "your address has as many connections as it may have\n",
            Self::Handshakes => "your address has too many connections that have not said hello\n",
            Self::Origin => {
                "pages of this origin may not connect here: see the setting allowed_origins\n"
            }
            Self::ProxyHeader => "a connection of a proxy must begin with a PROXY header\n",
            Self::Late => "the request did not come in time\n",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Draining | Self::Full | Self::Memory => StatusCode::SERVICE_UNAVAILABLE,
            Self::Address | Self::Handshakes => StatusCode::TOO_MANY_REQUESTS,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::ProxyHeader => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }

    /// In how many seconds it is worth another try.
    fn retry_after(self) -> Option<u32> {
        match self {
            // There is another gateway.
            Self::Draining => Some(1),
            Self::Full | Self::Memory | Self::Address | Self::Handshakes => {
                Some(fastrand::u32(1..=RETRY_SPREAD_S))
            }
            Self::Origin | Self::ProxyHeader | Self::Late => None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        // It takes the place of somebody else no longer.
        let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
        let retry = self.retry_after().map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        match retry {
            Some(retry) => (self.status(), close, retry, self.sentence()).into_response(),
            None => (self.status(), close, self.sentence()).into_response(),
        }
    }
}

/// Answers a request so.
pub(crate) fn refuse(app: &App, refusal: Refusal) -> Response {
    note(app, refusal);
    refusal.into_response()
}

/// Turns a connection away before any of it is read. Whoever has written already may not get to read why.
pub(crate) async fn refuse_raw(app: &App, mut stream: TcpStream, refusal: Refusal) {
    note(app, refusal);
    let (status, sentence) = (refusal.status(), refusal.sentence());
    let retry = refusal.retry_after().map(|seconds| format!("retry-after: {seconds}\r\n"));
    let answer = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\n{}content-length: {}\r\n\r\n{sentence}",
        retry.unwrap_or_default(),
        sentence.len()
    );
    if let Err(error) = stream.write_all(answer.as_bytes()).await {
        debug!(%error, "it was gone before it was told why");
    }
}

/// Counts one who was turned away.
pub(crate) fn note(app: &App, refusal: Refusal) {
    debug!(why = refusal.label(), "refused a connection");
    app.metrics.refused_connections.get_or_create(&RefusalLabel::from(refusal)).inc();
}
