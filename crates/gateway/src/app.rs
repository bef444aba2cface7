//! What all connections of one gateway share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use presence::Presence;
use presence_protocol::SessionId;
use prometheus_client::registry::Registry;
use tracing::debug;

use crate::admission::Admission;
use crate::auth::{ApiKey, AuthError, Authenticator};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Shared by the HTTP routes and all sockets.
pub(crate) type SharedApp = Arc<App>;

/// One gateway's shared parts.
pub(crate) struct App {
    /// The gateway's id, new at each start.
    pub(crate) gateway: String,
    pub(crate) settings: Settings,
    pub(crate) authenticator: Authenticator,
    pub(crate) api_key: Option<ApiKey>,
    pub(crate) presence: Presence,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) admission: Admission,
    sessions_made: AtomicU64,
}

impl App {
    pub(crate) fn new(
        gateway: String,
        settings: Settings,
        authenticator: Authenticator,
        presence: Presence,
        registry: Registry,
        metrics: Metrics,
    ) -> Self {
        let api_key = settings.api_key.clone().map(ApiKey::new);
        let admission = Admission::new(&settings);
        Self {
            gateway,
            settings,
            authenticator,
            api_key,
            presence,
            registry,
            metrics,
            admission,
            sessions_made: AtomicU64::new(0),
        }
    }

    /// Somebody could not prove who they are: for the log and the metrics. The peer is not told why.
    pub(crate) fn refused(&self, error: &AuthError) {
        debug!(rule = error.rule(), %error, "a client was refused");
        self.metrics.auth.refused(error);
    }

    pub(crate) fn next_session_number(&self) -> u64 {
        self.sessions_made.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A session's id: tells an operator which gateway holds it.
    pub(crate) fn session_id(&self, number: u64) -> SessionId {
        SessionId::new(format!("{}-{number}", self.gateway))
    }
}
