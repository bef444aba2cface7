//! What all connections of one gateway share.

use std::sync::Arc;

use presence::Presence;
use presence_protocol::UserId;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tracing::debug;

use crate::admission::Admission;
use crate::auth::{ApiKeys, AuthError, Authenticator, Identity};
use crate::consent::Consent;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Shared by the HTTP routes and all sockets.
pub(crate) type SharedApp = Arc<App>;

/// One gateway's shared parts.
pub(crate) struct App {
    /// The gateway's id, new at each start.
    pub(crate) gateway: String,
    pub(crate) started: Instant,
    pub(crate) settings: Settings,
    pub(crate) authenticator: Authenticator,
    pub(crate) api_keys: ApiKeys,
    /// Asks the app's backend who may watch whom, where it is to be asked.
    pub(crate) consent: Option<Consent>,
    pub(crate) presence: Presence,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) admission: Admission,
}

impl App {
    pub(crate) fn new(
        gateway: String,
        settings: Settings,
        authenticator: Authenticator,
        consent: Option<Consent>,
        presence: Presence,
        registry: Registry,
        metrics: Metrics,
    ) -> Self {
        let api_keys = ApiKeys::new(settings.api_keys.clone());
        let admission = Admission::new(&settings);
        Self {
            gateway,
            started: Instant::now(),
            settings,
            authenticator,
            api_keys,
            consent,
            presence,
            registry,
            metrics,
            admission,
        }
    }

    /// Somebody could not prove who they are: for the log and the metrics. The peer is not told why.
    pub(crate) fn refused(&self, error: &AuthError) {
        debug!(rule = error.rule(), %error, "a client was refused");
        self.metrics.auth.refused(error);
    }

    /// Whether what let a user in counts no more: a token of an earlier second than the app's backend says.
    pub(crate) fn is_revoked(&self, user: &UserId, issued_at_s: u64) -> bool {
        self.authenticator.wants_token()
            && self.presence.revoked_until(user).is_some_and(|from_s| issued_at_s < from_s)
    }

    /// An identity that was not revoked.
    pub(crate) fn unrevoked(&self, identity: Identity) -> Result<Identity, AuthError> {
        let is_revoked = self.is_revoked(&identity.user, identity.issued_at_s);
        if is_revoked { Err(AuthError::Revoked) } else { Ok(identity) }
    }
}
