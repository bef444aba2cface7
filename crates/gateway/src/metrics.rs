//! What the sockets count, in Prometheus' form. Authentication and the engine count the rest.

use presence_protocol::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::auth::AuthMetrics;

/// The sockets' counters and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) closes: Family<CloseLabel, Counter>,
    pub(crate) refused_messages: Family<CodeLabel, Counter>,
    pub(crate) accept_errors: Counter,
    pub(crate) auth: AuthMetrics,
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

impl Metrics {
    /// Makes them, and names them in the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let m = Self { auth: AuthMetrics::register(registry), ..Self::default() };
        registry.register("connections", "Open WebSockets", m.connections.clone());
        registry.register("accepted", "Accepted TCP connections", m.accepted.clone());
        registry.register("closes", "Closed WebSockets, by reason", m.closes.clone());
        registry.register(
            "refused_messages",
            "Client messages answered by an error, by code",
            m.refused_messages.clone(),
        );
        registry.register("accept_errors", "TCP accepts that failed", m.accept_errors.clone());
        m
    }
}
