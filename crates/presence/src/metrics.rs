//! What the engine counts, in Prometheus' form.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use presence_protocol::ErrorCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::store::Cause;
use crate::store::notice::Notice;

/// The engine's counters and gauges.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) sessions: Gauge,
    pub(crate) users: Gauge,
    pub(crate) watched_users: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) claims_waiting: Gauge,
    pub(crate) degraded: Gauge,
    pub(crate) lag: Gauge<f64, AtomicU64>,
    pub(crate) heartbeats: Counter,
    pub(crate) pings_sent: Counter,
    pub(crate) silent_deaths: Counter,
    pub(crate) claims: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) rejoins: Counter,
    pub(crate) store_errors: Counter,
    pub(crate) transitions: Family<CauseLabel, Counter>,
    pub(crate) lateness: Lateness,
    pub(crate) renewal_time: RenewalTime,
    pub(crate) expired_events: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) losses: Counter,
    pub(crate) gaps: Counter,
    pub(crate) gateways_lost: Counter,
    pub(crate) flaps_hidden: Counter,
    pub(crate) reconciled: Counter,
    pub(crate) pushes: Counter,
    pub(crate) answers_dropped: Counter,
    pub(crate) refused_messages: Family<CodeLabel, Counter>,
    pub(crate) notices: Family<NoticeLabel, Counter>,
    pub(crate) orders: Gauge,
}

/// The bounds of the lateness histogram, in seconds: 1 s is promised, and milliseconds are usual.
const LATENESS_BOUNDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];

/// How late watchers were told of changes, by cause.
#[derive(Debug)]
pub(crate) struct Lateness(Family<CauseLabel, Histogram, fn() -> Histogram>);

impl Lateness {
    pub(crate) fn note(&self, label: &CauseLabel, late: Duration) {
        self.0.get_or_create(label).observe(late.as_secs_f64());
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(LATENESS_BOUNDS)))
    }
}

/// The bounds of the renewal histogram, in seconds: a store nearby answers within a millisecond, and one that takes a second
/// is given up.
const RENEWAL_BOUNDS: [f64; 11] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// How long the store took to renew the lease.
#[derive(Debug)]
pub(crate) struct RenewalTime(Histogram);

impl RenewalTime {
    pub(crate) fn note(&self, took: Duration) {
        self.0.observe(took.as_secs_f64());
    }
}

impl Default for RenewalTime {
    fn default() -> Self {
        Self(Histogram::new(RENEWAL_BOUNDS))
    }
}

/// Why a user changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CauseLabel {
    cause: &'static str,
}

impl CauseLabel {
    /// Nobody told of the change: it was found by comparing.
    pub(crate) const FOUND: Self = Self { cause: "found" };
}

impl From<Cause> for CauseLabel {
    fn from(cause: Cause) -> Self {
        Self { cause: cause.as_str() }
    }
}

/// Why a client's message was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CodeLabel {
    code: &'static str,
}

impl From<ErrorCode> for CodeLabel {
    fn from(code: ErrorCode) -> Self {
        Self { code: code.as_str() }
    }
}

/// What was told to all gateways.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct NoticeLabel {
    kind: &'static str,
}

impl From<&Notice> for NoticeLabel {
    fn from(notice: &Notice) -> Self {
        Self { kind: notice.kind() }
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
        registry.register_with_unit(
            "lag",
            "How late timers fire, on average over a second: what this process lacks of CPU time",
            Unit::Seconds,
            m.lag.clone(),
        );
        registry.register("heartbeats", "Signs of life heard from clients", m.heartbeats.clone());
        registry.register("pings_sent", "Pings sent to silent clients", m.pings_sent.clone());
        registry.register("silent_deaths", "Sessions ended by silence", m.silent_deaths.clone());
        registry.register("claims", "Users told to the store", m.claims.clone());
        registry.register("refreshes", "Users vouched for", m.refreshes.clone());
        registry.register("rejoins", "Users that the store had lost", m.rejoins.clone());
        registry.register("store_errors", "Calls to the store that failed", m.store_errors.clone());
        registry.register("transitions", "Changes of users heard, by cause", m.transitions.clone());
        registry.register_with_unit(
            "lateness",
            "How much later than ideal watchers were told of a change, by cause: a bye at once, a close after the grace, \
             a silent or lost user after the TTL and the grace",
            Unit::Seconds,
            m.lateness.0.clone(),
        );
        registry.register_with_unit(
            "renewal_time",
            "How long the store took to renew this gateway's lease, twice a second or so",
            Unit::Seconds,
            m.renewal_time.0.clone(),
        );
        registry.register("expired_events", "Expired keys heard", m.expired_events.clone());
        registry.register("reconnects", "Returns of the store after trouble", m.reconnects.clone());
        registry.register(
            "losses",
            "Times this gateway's lease was lost or had lapsed",
            m.losses.clone(),
        );
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
        registry.register(
            "answers_dropped",
            "Answers dropped since too many waited for a client that does not read",
            m.answers_dropped.clone(),
        );
        registry.register(
            "refused_messages",
            "Client messages answered by an error, by code",
            m.refused_messages.clone(),
        );
        registry.register(
            "notices",
            "What the app's backend ordered and asked, and gateways answered, by kind",
            m.notices.clone(),
        );
        registry.register(
            "orders",
            "Orders of the app's backend that are remembered: revoked and refreshed users",
            m.orders.clone(),
        );
        m
    }
}
