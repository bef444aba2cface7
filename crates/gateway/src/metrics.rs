//! What the sockets count, in Prometheus' form. The engine counts the rest.

use presence_protocol::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::auth::GrantError;

/// The sockets' counters and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) closes: Family<CloseLabel, Counter>,
    pub(crate) refused_messages: Family<CodeLabel, Counter>,
    pub(crate) accept_errors: Counter,
    pub(crate) grants_refused: Family<GrantLabel, Counter>,
    pub(crate) api_calls: Family<ApiLabel, Counter>,
}

/// Why a socket closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CloseLabel {
    reason: &'static str,
}

impl From<CloseReason> for CloseLabel {
    fn from(reason: CloseReason) -> Self {
        Self { reason: reason.label() }
    }
}

impl CloseLabel {
    /// The peer closed, or was gone.
    pub(crate) const PEER: Self = Self { reason: "peer" };
}

/// The error code of a refused message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CodeLabel {
    pub(crate) code: &'static str,
}

/// Which rule a grant broke.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct GrantLabel {
    rule: &'static str,
}

impl From<&GrantError> for GrantLabel {
    fn from(error: &GrantError) -> Self {
        Self { rule: error.label() }
    }
}

/// With which API key a call came, counted from 1; 0 for one that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ApiLabel {
    pub(crate) key: u32,
}

impl Metrics {
    /// Makes them, and names them in the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        registry.register("connections", "Open WebSockets", m.connections.clone());
        registry.register("accepted", "Accepted TCP connections", m.accepted.clone());
        registry.register("closes", "Closed WebSockets, by reason", m.closes.clone());
        registry.register(
            "refused_messages",
            "Client messages answered by an error, by code",
            m.refused_messages.clone(),
        );
        registry.register(
            "grants_refused",
            "Grants to watch users that count for nothing, by the rule that they broke",
            m.grants_refused.clone(),
        );
        registry.register(
            "api_calls",
            "Calls under /v1, by the API key's place in the settings; 0 without a good one",
            m.api_calls.clone(),
        );
        registry.register("accept_errors", "TCP accepts that failed", m.accept_errors.clone());
        m
    }
}
