//! What a client tells the application.

use std::time::Duration;

use presence_protocol::{CloseReason, ErrorMessage, UserState, Welcome};
use thiserror::Error;

/// Something the application may want to show or log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Signed in. Everybody on the watch list is being asked for again.
    Connected(Welcome),
    /// The connection is gone, or an attempt to connect failed. States are stale until confirmed.
    Disconnected {
        /// What happened.
        reason: DisconnectReason,
        /// When the next attempt starts.
        retry_in: Duration,
    },
    /// Watched users whose state differs from the view that was: each at most once, the latest.
    Changed(Vec<UserState>),
    /// Since when (ms since the Unix epoch) the gateway only knows last known states; none when
    /// that is over.
    Degraded(Option<u64>),
    /// The gateway is going away; the client moves to another one after this time.
    Draining {
        /// How long until then.
        reconnect_in: Duration,
    },
    /// The gateway refused one message; all else goes on.
    Refused(ErrorMessage),
    /// The last event: the client does not come back by itself.
    Ended(CloseReason),
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DisconnectReason {
    /// Dial, upgrade or sign-in failed.
    #[error("the gateway cannot be reached: {0}")]
    Unreachable(String),
    /// The gateway, or a proxy before it, answered the upgrade request otherwise.
    #[error("refused with HTTP {status}")]
    Refused {
        /// The status code.
        status: u16,
        /// The least time to wait that it told, if it told one.
        retry_after: Option<Duration>,
    },
    /// The gateway closed the socket, and said why.
    #[error("closed by the gateway: {}", .0.text())]
    Closed(CloseReason),
    /// The socket was closed with a code that the contract does not know.
    #[error("closed with the unknown code {0}")]
    ClosedWith(u16),
    /// Nothing was heard from the gateway for the TTL.
    #[error("nothing was heard from the gateway for the TTL")]
    Silent,
    /// The gateway is draining, and the time it gave is over.
    #[error("the gateway is going away")]
    Draining,
    /// The network failed.
    #[error("the connection was lost: {0}")]
    Lost(String),
}
