//! What the sockets count, in Prometheus' form. Authentication and the engine count the rest.

mod process;

use presence_protocol::CloseReason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::admission::Refusal;
use crate::auth::{AuthMetrics, GrantError};
pub(crate) use process::ProcessUse;

/// The sockets' counters and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) closes: Family<CloseLabel, Counter>,
    pub(crate) accept_errors: Counter,
    pub(crate) auth: AuthMetrics,
    pub(crate) accept_pauses: Family<PauseLabel, Counter>,
    pub(crate) refused_connections: Family<RefusalLabel, Counter>,
    pub(crate) handshakes: Gauge,
    pub(crate) memory: Gauge,
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

/// Why a connection was turned away.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RefusalLabel {
    why: &'static str,
}

impl From<Refusal> for RefusalLabel {
    fn from(refusal: Refusal) -> Self {
        Self { why: refusal.label() }
    }
}

/// Why nothing was accepted for a while.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PauseLabel {
    why: &'static str,
}

impl PauseLabel {
    /// As many connections have come as may in this time.
    pub(crate) const RATE: Self = Self { why: "rate" };
    /// As many connections as may be have not said `hello`.
    pub(crate) const HANDSHAKES: Self = Self { why: "handshakes" };
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
        let m = Self { auth: AuthMetrics::register(registry), ..Self::default() };
        registry.register("connections", "Open WebSockets", m.connections.clone());
        registry.register("accepted", "Accepted TCP connections", m.accepted.clone());
        registry.register("closes", "Closed WebSockets, by reason", m.closes.clone());
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
        registry.register(
            "accept_pauses",
            "Times that connections had to wait before they were accepted, by reason",
            m.accept_pauses.clone(),
        );
        registry.register(
            "refused_connections",
            "Connections turned away, by reason",
            m.refused_connections.clone(),
        );
        registry.register(
            "handshakes",
            "Connections that have not said hello, or that are no WebSockets",
            m.handshakes.clone(),
        );
        registry.register_with_unit(
            "memory",
            "Memory of this process, and the kernel's for its sockets",
            Unit::Bytes,
            m.memory.clone(),
        );
        m
    }
}
