//! What authentication counts: refusals by the rule that was broken, and how the keys are kept fresh.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::AuthError;
use super::keys::{KeyRing, Source};

/// The counters and gauges.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthMetrics {
    refused: Family<RuleLabel, Counter>,
    keys: Family<SourceLabel, Gauge>,
    jwks_refreshes: Family<ResultLabel, Counter>,
    key_file_reads: Family<ResultLabel, Counter>,
}

/// What came of looking for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// They are in their place.
    Ok,
    /// There was no answer, or the file cannot be read.
    Unreachable,
    /// The answer has another status than 200.
    Refused,
    /// What there is holds no keys that can be used.
    Unusable,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabel {
    rule: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl AuthMetrics {
    /// Makes them, and names them in the registry.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        let refused = "Clients refused for their token, by the rule that it broke";
        registry.register("auth_refused", refused, m.refused.clone());
        registry.register("auth_keys", "Keys that verify tokens, by source", m.keys.clone());
        let refreshes = "Attempts to fetch the keys at jwks_url, by result";
        registry.register("jwks_refresh", refreshes, m.jwks_refreshes.clone());
        let reads = "Times that a changed jwt_public_key_file was read, by result";
        registry.register("key_file_reads", reads, m.key_file_reads.clone());
        m
    }

    /// Somebody was refused.
    pub(crate) fn refused(&self, error: &AuthError) {
        self.refused.get_or_create(&RuleLabel { rule: error.rule() }).inc();
    }

    /// How many keys there are now.
    pub(super) fn count_keys(&self, keys: &KeyRing) {
        for source in Source::ALL {
            let label = SourceLabel { source: source.label() };
            self.keys.get_or_create(&label).set(keys.count(source) as i64);
        }
    }

    pub(super) fn jwks_refreshed(&self, outcome: Outcome) {
        self.jwks_refreshes.get_or_create(&outcome.label()).inc();
    }

    pub(super) fn key_file_read(&self, outcome: Outcome) {
        self.key_file_reads.get_or_create(&outcome.label()).inc();
    }
}

impl Outcome {
    fn label(self) -> ResultLabel {
        let result = match self {
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Unusable => "unusable",
        };
        ResultLabel { result }
    }
}
