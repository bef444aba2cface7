//! What a client is told when it is made, and the defaults with their reasons.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use presence_protocol::{Device, Format, Grant, Status, UserId};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::dial::{Trust, dial};

/// Half a second spreads a small outage; a minute keeps a long one from being hammered.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_mins(1);

/// From the dial to the `welcome`: a mobile network on a bad day needs several seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a caller of `query` waits, a reconnect in between included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything a [`Client`](crate::Client) needs to know. Start from [`Options::new`].
#[derive(Clone)]
pub struct Options {
    /// The gateway, as `ws://host:port/ws`, or `wss://` where it speaks TLS.
    pub url: Uri,
    /// Who signs in.
    pub credential: Credential,
    /// What kind of device this is.
    pub device: Option<Device>,
    /// How to be shown from the first moment, until `set_status` says otherwise.
    /// It goes with the `hello` of every connection, so that nothing flickers.
    pub status: Option<Status>,
    /// Asked for each `watch` and `query`, where the app's backend gives grants of its own.
    pub grant: Option<GrantSource>,
    /// How messages are written. `MessagePack` by default, as it is smaller.
    pub format: Format,
    /// Who gives the signs of life.
    pub heartbeat: Heartbeat,
    /// The longest first wait before reconnecting. It doubles with each failure.
    pub backoff_min: Duration,
    /// The longest wait of all.
    pub backoff_max: Duration,
    /// How long one attempt may take, from the dial to the `welcome`.
    pub connect_timeout: Duration,
    /// How long a `query` may take in all.
    pub request_timeout: Duration,
    /// How the gateway is reached: by default as the URL says, and with the certificate authorities
    /// of this machine. For others give [`dial`] with a [`Trust`]; for a proxy, a function of yours.
    pub dial: Dial,
}

impl Options {
    /// The defaults for this gateway and this user.
    pub fn new(url: Uri, credential: Credential) -> Self {
        let dial = dial(url.clone(), Trust::Machine);
        Self {
            url,
            credential,
            device: None,
            status: None,
            grant: None,
            format: Format::MsgPack,
            heartbeat: Heartbeat::Ping,
            backoff_min: BACKOFF_MIN,
            backoff_max: BACKOFF_MAX,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            dial,
        }
    }
}

/// Gives a token each time it is called: a fresh one, when the last has expired.
pub type TokenSource = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Gives a grant to watch these users, if they need one: a JWT that the app's backend signed.
pub type GrantSource = Arc<dyn Fn(&[UserId]) -> Option<Grant> + Send + Sync>;

/// How a client proves who it is.
#[derive(Clone)]
pub enum Credential {
    /// One token, for as long as it is valid. When it is refused or expires, the client ends.
    Token(String),
    /// Asked before each connection. A token that was refused is not sent again.
    TokenSource(TokenSource),
    /// Believed only by a gateway that runs without authentication.
    User(UserId),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(_) => f.write_str("Token(hidden)"),
            Self::TokenSource(_) => f.write_str("TokenSource"),
            Self::User(user) => f.debug_tuple("User").field(user).finish(),
        }
    }
}

/// Who gives the signs of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// A Ping of ours each heartbeat, a little early at random so that clients do not beat in step.
    #[default]
    Ping,
    /// Only answers to the gateway's Pings, as a browser does.
    AnswerPingsOnly,
}

/// A stream of bytes to the gateway.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Opens a [`Transport`]; called once for each attempt.
pub type Dial = Arc<dyn Fn() -> BoxFuture<'static, io::Result<Box<dyn Transport>>> + Send + Sync>;
