//! What the engine counts, in Prometheus' form.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::store::Cause;

/// The engine's counters and gauges.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) sessions: Gauge,
    pub(crate) users: Gauge,
    pub(crate) watched_users: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) claims_waiting: Gauge,
    pub(crate) degraded: Gauge,
    pub(crate) heartbeats: Counter,
    pub(crate) pings_sent: Counter,
    pub(crate) silent_deaths: Counter,
    pub(crate) claims: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) rejoins: Counter,
    pub(crate) store_errors: Counter,
    pub(crate) transitions: Family<CauseLabel, Counter>,
    pub(crate) expired_events: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) losses: Counter,
    pub(crate) gaps: Counter,
    pub(crate) gateways_lost: Counter,
    pub(crate) flaps_hidden: Counter,
    pub(crate) reconciled: Counter,
    pub(crate) pushes: Counter,
}

/// Why a user changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CauseLabel {
    cause: &'static str,
}

impl From<Cause> for CauseLabel {
    fn from(cause: Cause) -> Self {
        Self { cause: cause.as_str() }
    }
}

impl Metrics {
    /// Makes them, and names them in the registry.
    pub fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        registry.register("sessions", "Sessions held by this gateway", m.sessions.clone());
        registry.register("users", "Users with a session on this gateway", m.users.clone());
        registry.register(
            "watched_users",
            "Users watched by a session here",
            m.watched_users.clone(),
        );
        registry.register("watches", "Watches held by sessions here", m.watches.clone());
        registry.register(
            "claims_waiting",
            "Users whose change the store was not told yet",
            m.claims_waiting.clone(),
        );
        registry.register("degraded", "1 while the store is out of reach", m.degraded.clone());
        registry.register("heartbeats", "Signs of life heard from clients", m.heartbeats.clone());
        registry.register("pings_sent", "Pings sent to silent clients", m.pings_sent.clone());
        registry.register("silent_deaths", "Sessions ended by silence", m.silent_deaths.clone());
        registry.register("claims", "Users told to the store", m.claims.clone());
        registry.register("refreshes", "Users vouched for", m.refreshes.clone());
        registry.register("rejoins", "Users that the store had lost", m.rejoins.clone());
        registry.register("store_errors", "Calls to the store that failed", m.store_errors.clone());
        registry.register("transitions", "Changes of users heard, by cause", m.transitions.clone());
        registry.register("expired_events", "Expired keys heard", m.expired_events.clone());
        registry.register("reconnects", "Returns of the store after trouble", m.reconnects.clone());
        registry.register("losses", "Times the store had lost everything", m.losses.clone());
        registry.register("gaps", "Times that events may have been missed", m.gaps.clone());
        registry.register("gateways_lost", "Gateways found dead", m.gateways_lost.clone());
        registry.register(
            "flaps_hidden",
            "Losses over before they were shown",
            m.flaps_hidden.clone(),
        );
        registry.register(
            "reconciled",
            "Differences found by comparing watched users with the store",
            m.reconciled.clone(),
        );
        registry.register("pushes", "States pushed to watchers", m.pushes.clone());
        m
    }
}
