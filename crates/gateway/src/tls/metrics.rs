//! What TLS counts. Registered only where TLS is on, so that an expiry of 0 wakes nobody.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The counters and the gauge of TLS; clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsMetrics {
    handshakes: Family<ResultLabel, Counter>,
    renewals: Family<ResultLabel, Counter>,
    /// In s since the Unix epoch.
    expiry: Gauge,
}

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    Done,
    /// The client spoke HTTP without TLS, and was told so.
    NotEncrypted,
    Failed,
    TimedOut,
}

/// How the reading of changed files ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Done,
    /// The certificate before is kept.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

impl Handshake {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotEncrypted => "not_encrypted",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
        }
    }
}

impl TlsMetrics {
    /// Makes them, and names them in the registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        registry.register("tls_handshakes", "TLS handshakes, by result", m.handshakes.clone());
        registry.register(
            "tls_renewals",
            "Changes of the TLS certificate's files, by whether they could be used",
            m.renewals.clone(),
        );
        registry.register_with_unit(
            "tls_certificate_expiry",
            "When the TLS certificate expires, in s since the Unix epoch",
            Unit::Seconds,
            m.expiry.clone(),
        );
        m
    }

    pub(super) fn count_handshake(&self, handshake: Handshake) {
        self.handshakes.get_or_create(&ResultLabel { result: handshake.label() }).inc();
    }

    pub(super) fn count_renewal(&self, reading: Reading) {
        let result = match reading {
            Reading::Done => "done",
            Reading::Failed => "failed",
        };
        self.renewals.get_or_create(&ResultLabel { result }).inc();
    }

    pub(super) fn set_expiry(&self, expires_at: SystemTime) {
        let since_epoch = expires_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.expiry.set(since_epoch.as_secs() as i64);
    }
}
