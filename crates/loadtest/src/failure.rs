//! Why a connection failed or ended, in words by which it is counted.

use std::io;

use presence_protocol::CloseReason;
use thiserror::Error;
use tokio_rustls::rustls::{self, CertificateError};
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::http::StatusCode;

use crate::sources::is_taken;

/// Why a connection failed or ended. Its text is the kind it is counted under.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("no free port on the source addresses")]
    NoPort,
    #[error("TCP: {0}")]
    Tcp(io::ErrorKind),
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the upgrade was answered by HTTP {0}")]
    Upgrade(StatusCode),
    #[error("no welcome in time")]
    TimedOut,
    #[error("closed with {}", close_label(*.0))]
    Closed(Option<u16>),
    #[error("the stream ended without a close frame")]
    Ended,
    #[error("WebSocket: {0}")]
    WebSocket(String),
    #[error("a message that is none: {0}")]
    Garbage(String),
    #[error("the token could not be signed")]
    Token,
    #[error(
        "the gateway lets nobody watch more than {may} (its max_watch), and the run asks for {asked}: \
         watch fewer (--watch, contacts), or start the gateway with --max-watch {asked}"
    )]
    WatchesTooMany { may: u64, asked: u32 },
    #[error("signed in as another user than the file says: the token is of somebody else")]
    SomebodyElse,
}

impl Failure {
    /// Whether a gateway is stopping, and sends its clients elsewhere.
    pub(crate) fn is_drain(&self) -> bool {
        let drains = [CloseReason::Draining, CloseReason::GoingAway];
        matches!(self, Self::Closed(Some(code)) if drains.iter().any(|reason| reason.code() == *code))
    }

    /// Whether the gateway took the connection for dead.
    pub(crate) fn is_no_heartbeat(&self) -> bool {
        matches!(self, Self::Closed(Some(code)) if *code == CloseReason::NoHeartbeat.code())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if is_taken(&error) {
            return Self::NoPort;
        }
        let tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match (tls, error.kind()) {
            (Some(error), _) => Self::Tls(what_is_wrong(error)),
            // Encrypted, a stream must be ended as well.
            (None, io::ErrorKind::UnexpectedEof) => Self::Ended,
            (None, kind) => Self::Tcp(kind),
        }
    }
}

impl From<WsError> for Failure {
    fn from(error: WsError) -> Self {
        match error {
            WsError::Io(error) => error.into(),
            WsError::Http(response) => Self::Upgrade(response.status()),
            WsError::ConnectionClosed => Self::Ended,
            other => Self::WebSocket(other.to_string()),
        }
    }
}

/// Without the times that rustls tells, by which each would be of a kind of its own.
fn what_is_wrong(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { .. }) => {
            "the certificate has expired".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext { .. }) => {
            "the certificate is not valid yet".to_owned()
        }
        other => other.to_string(),
    }
}

/// A close code with its name, as it is counted.
pub(crate) fn close_label(code: Option<u16>) -> String {
    let name = |code| CloseReason::from_code(code).map_or("unknown", CloseReason::label);
    code.map_or_else(|| "no code".to_owned(), |code| format!("{code} {}", name(code)))
}

/// How a refused message is counted.
pub(crate) fn refusal(code: &str) -> String {
    format!("message refused: {code}")
}
