//! The URL with published keys (JWKS): fetched at the start, then every few minutes, and early when a token names a key
//! that is not known.
//!
//! While it is out of reach the keys of before go on being used, and it is tried again, ever more rarely.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode, header};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::super::keys::{Freshness, KeyRing, Reach, Source, jwks};
use super::super::metrics::{AuthMetrics, Outcome};
use crate::outbound::{CallLimits, Outbound};
use crate::settings::OutboundUrl;

/// What one fetch may take. A set of 64 keys with certificates has about 200 KB.
const LIMITS: CallLimits = CallLimits { time: Duration::from_secs(5), body_bytes: 512 << 10 };

/// How soon a failed fetch is tried again; doubled each time.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Where keys are published, and where they go.
pub(super) struct KeyUrl {
    pub(super) url: OutboundUrl,
    pub(super) outbound: Outbound,
    pub(super) keys: Arc<KeyRing>,
    /// Of those keys.
    pub(super) freshness: Arc<Freshness>,
    pub(super) metrics: AuthMetrics,
    /// Failed fetches in a row.
    pub(super) failures: u32,
}

impl KeyUrl {
    /// Fetches for ever: every `interval`, or earlier when asked, or sooner after a failure.
    pub(super) async fn keep(mut self, interval: Duration) {
        loop {
            tokio::select! {
                () = sleep(self.pause(interval)) => {}
                () = self.freshness.asked() => {}
            }
            self.refresh().await;
        }
    }

    /// Fetches once. Keys that cannot be had leave those of before in their place.
    pub(super) async fn refresh(&mut self) {
        self.freshness.begin();
        let fetched = self.fetch().await;
        let (outcome, reach) = match &fetched {
            Ok(()) => (Outcome::Ok, Reach::Good),
            Err((outcome, _)) => (*outcome, Reach::Lost),
        };
        self.metrics.jwks_refreshed(outcome);
        match fetched {
            Ok(()) => {
                if self.failures > 0 {
                    info!(url = %self.url, "the keys at jwks_url are within reach again");
                }
                self.failures = 0;
            }
            Err((_, error)) => self.fail(&error),
        }
        self.freshness.finish(reach);
    }

    async fn fetch(&self) -> Result<(), (Outcome, String)> {
        let request = Request::get(self.url.uri())
            .header(header::ACCEPT, "application/jwk-set+json, application/json")
            .body(Full::<Bytes>::default())
            .map_err(|error| (Outcome::Unreachable, error.to_string()))?;
        let answer = self.outbound.call(request, LIMITS).await;
        let answer = answer.map_err(|error| (Outcome::Unreachable, error.to_string()))?;
        if answer.status() != StatusCode::OK {
            return Err((Outcome::Refused, format!("it answered {}, not 200", answer.status())));
        }
        let found = jwks::keys_in(answer.body()).map_err(|why| (Outcome::Unusable, why))?;
        let before = self.keys.described(Source::Url);
        self.keys.replace(Source::Url, found.keys);
        self.metrics.count_keys(&self.keys);
        let now = self.keys.described(Source::Url);
        if before != now {
            info!(keys = now, passed_over = found.passed_over, "the keys at jwks_url have changed");
        }
        Ok(())
    }

    fn fail(&mut self, error: &str) {
        self.failures = self.failures.saturating_add(1);
        let kept = self.keys.count(Source::Url);
        // Once for each outage.
        if self.failures == 1 {
            warn!(url = %self.url, error, kept, "the keys at jwks_url cannot be had; those of before go on being used");
        } else {
            debug!(url = %self.url, error, kept, failures = self.failures, "the keys at jwks_url still cannot be had");
        }
    }

    /// Spread, so that many gateways do not ask in step.
    fn pause(&self, interval: Duration) -> Duration {
        let Some(doublings) = self.failures.checked_sub(1) else {
            return interval.mul_f32(0.9 + 0.2 * fastrand::f32());
        };
        let backoff = RETRY_MIN.saturating_mul(1 << doublings.min(10)).min(RETRY_MAX).min(interval);
        backoff.mul_f32(0.5 + 0.5 * fastrand::f32())
    }
}
