//! Leases: each gateway renews one every half second or so, and so the others know to within that when it died.
//!
//! That is what makes the death of a gateway exact. The keys of its users expire up to three quarters of a TTL before the promised
//! moment, since they were last vouched for at different times before its death; the late lease tells the scripts to
//! hold their losses back until the TTL from the last sign of life of the gateway itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::types::scripts::Script;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::RedisOptions;
use super::scripts::{decode, run};
use crate::config::Config;
use crate::store::{Lapse, Pulse, StoreError};

/// How long a renewal may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Nobody needs to know of a gateway that died so long ago.
const FORGET: Duration = Duration::from_hours(1);

/// A lease is late that was not renewed for so many halves of the time from one renewal to the next: so soon that this is
/// known before any of its users' keys expires.
const LATE_HALVES: u32 = 5;

/// For so long after it came, a gateway that finds all leases late gives the others the chance to live.
const DOUBT_TIME: Duration = Duration::from_millis(1500);

/// How much longer than planned it may take from one renewal to the next: a dead gateway may have lived for so long
/// after its last.
const RENEWAL_DELAY_MAX: Duration = Duration::from_millis(150);

/// This gateway's lease, and what is known of the others'.
pub(super) struct Leases {
    script: Script,
    key: String,
    gateway: String,
    good_for: Duration,
    late_after: Duration,
    /// How long after its last renewal the users of a dead gateway are offline.
    due_after: Duration,
    renewed_before: AtomicBool,
    known: Mutex<Known>,
}

/// What the last renewal told.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// When (ms, by the store's clock) the gateways that are late with their lease renewed it last.
    pub(super) late: HashMap<String, u64>,
    /// Until when (ms, by the store's clock) it is known of all others that they are not.
    pub(super) late_until_ms: u64,
    /// Until when (ms, by the store's clock) the gateways that are late may have been kept from renewing by the store.
    pub(super) doubt_until_ms: u64,
    /// Since when (µs, by the store's clock) the store remembers.
    pub(super) born_us: u64,
    /// The store's clock (ms) at an instant of ours.
    clock: Option<(u64, Instant)>,
}

impl Known {
    /// What the store's clock (ms) should say now; 0 before the first renewal.
    pub(super) fn store_now_ms(&self) -> u64 {
        self.clock.map_or(0, |(ms, at)| ms + at.elapsed().as_millis() as u64)
    }
}

impl Leases {
    pub(super) fn new(options: &RedisOptions) -> Self {
        let config = &options.config;
        Self {
            script: Script::from_lua(include_str!("lua/lease.lua")),
            key: format!("{}:gateways", options.prefix),
            gateway: options.gateway.clone(),
            good_for: config.lease(),
            late_after: late_after(config),
            due_after: config.ttl + config.grace.max(config.renewal() + RENEWAL_DELAY_MAX),
            renewed_before: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Renews the lease. Answers what is new.
    pub(super) async fn renew(&self, client: &Client) -> Result<Pulse, StoreError> {
        let millis = |duration: Duration| Bytes::from(duration.as_millis().to_string());
        let sent_ms = Bytes::from(self.now_ms().to_string());
        let arguments = vec![
            Bytes::from(self.gateway.clone()),
            millis(self.good_for),
            millis(FORGET),
            sent_ms,
            millis(self.late_after),
        ];
        let call = run(client, &self.script, self.key.clone(), arguments);
        let too_late = |_| StoreError::Unreachable("the lease was not renewed in time".to_owned());
        let answer = timeout(RENEWAL_TIMEOUT, call).await.map_err(too_late)??;
        let renewal: Renewal = decode(answer)?;
        let first = !self.renewed_before.swap(true, Ordering::Relaxed);
        let lost = renewal.was_good == 0 && !first;
        let age = Duration::from_micros((renewal.now_ms * 1000).saturating_sub(renewal.born_us));
        Ok(Pulse { lost, age: Some(age), lapsed: self.note(renewal, first) })
    }

    /// Gives the lease up.
    pub(super) async fn release(&self, client: &Client) -> Result<(), StoreError> {
        let script = Script::from_lua("return redis.call('HDEL', KEYS[1], ARGV[1])");
        let arguments = vec![Bytes::from(self.gateway.clone())];
        run(client, &script, self.key.clone(), arguments).await.map(drop)
    }

    /// What the store's clock (ms) should say now.
    pub(super) fn now_ms(&self) -> u64 {
        self.known.lock().store_now_ms()
    }

    /// What the scripts are told of it.
    pub(super) fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// Answers the leases that are newly lapsed.
    fn note(&self, renewal: Renewal, first: bool) -> Vec<Lapse> {
        let Renewal { now_ms, born_us, all_late, late, .. } = renewal;
        let after = |duration: Duration| now_ms + duration.as_millis() as u64;
        let mut known = self.known.lock();
        let before_ms = known.clock.map_or(0, |(before_ms, _)| before_ms);
        let lapse = |(gateway, renewed_ms): &(String, u64)| {
            let passed = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(*renewed_ms));
            let told =
                known.late.get(gateway) == Some(renewed_ms) && passed(before_ms) > self.good_for;
            let due_in = self.due_after.saturating_sub(passed(now_ms));
            (passed(now_ms) > self.good_for && !told)
                .then(|| Lapse { gateway: gateway.clone(), due_in })
        };
        let new = late.iter().filter_map(lapse).collect();
        let doubts = first && all_late == 1;
        *known = Known {
            late: late.into_iter().collect(),
            late_until_ms: after(self.late_after),
            doubt_until_ms: if doubts { after(DOUBT_TIME) } else { known.doubt_until_ms },
            born_us,
            clock: Some((now_ms, Instant::now())),
        };
        new
    }
}

/// What `lease.lua` answers, in this order.
#[derive(Deserialize)]
struct Renewal {
    now_ms: u64,
    born_us: u64,
    was_good: u8,
    all_late: u8,
    late: Vec<(String, u64)>,
}

fn late_after(config: &Config) -> Duration {
    config.renewal() * LATE_HALVES / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vouch::vouch_interval;

    #[test]
    fn a_lease_is_known_to_be_late_before_the_first_key_expires() {
        for ttl_ms in [2000, 4000, 10_000, 30_000, 120_000] {
            let config = Config { ttl: Duration::from_millis(ttl_ms), ..Config::default() };
            let known_after = late_after(&config) + config.renewal().mul_f64(1.1);
            let expires_after = config.ttl.saturating_sub(vouch_interval(&config));
            assert!(known_after < expires_after.mul_f64(0.8), "{ttl_ms}: {known_after:?}");
        }
    }
}
