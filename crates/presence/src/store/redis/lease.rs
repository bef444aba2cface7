//! Leases: each gateway renews one every half second or so, and so the others know to within that when it died.
//!
//! That is what makes the death of a gateway exact. The keys of its users expire up to three quarters of a TTL before the promised
//! moment, since they were last vouched for at different times before its death; the lapsed lease tells the scripts to
//! hold their losses back until the TTL from the last sign of life of the gateway itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::types::scripts::Script;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::RedisOptions;
use super::scripts::{decode, run};
use crate::store::{Lapse, Pulse, StoreError};

/// How long a renewal may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Nobody needs to know of a gateway that died so long ago.
const FORGET: Duration = Duration::from_hours(1);

/// How much longer than planned it may take from one renewal to the next: a dead gateway may have lived for so long
/// after its last.
const RENEWAL_DELAY_MAX: Duration = Duration::from_millis(150);

/// This gateway's lease, and what is known of the others'.
pub(super) struct Leases {
    script: Script,
    key: String,
    gateway: String,
    good_for: Duration,
    /// How long after its last renewal the users of a dead gateway are offline.
    due_after: Duration,
    renewed_before: AtomicBool,
    known: Mutex<Known>,
}

/// What the last renewal told.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// When (ms, by the store's clock) the gateways whose lease lapsed renewed it last.
    pub(super) lapsed: HashMap<String, u64>,
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
            due_after: config.ttl + config.grace.max(config.renewal() + RENEWAL_DELAY_MAX),
            renewed_before: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Renews the lease. Answers what is new.
    pub(super) async fn renew(&self, client: &Client) -> Result<Pulse, StoreError> {
        let millis = |duration: Duration| Bytes::from(duration.as_millis().to_string());
        let sent_ms = Bytes::from(self.now_ms().to_string());
        let arguments =
            vec![Bytes::from(self.gateway.clone()), millis(self.good_for), millis(FORGET), sent_ms];
        let call = run(client, &self.script, self.key.clone(), arguments);
        let too_late = |_| StoreError::Unreachable("the lease was not renewed in time".to_owned());
        let answer = timeout(RENEWAL_TIMEOUT, call).await.map_err(too_late)??;
        let (now_ms, born_us, was_good, lapsed): (u64, u64, u8, Vec<(String, u64)>) =
            decode(answer)?;
        let first = !self.renewed_before.swap(true, Ordering::Relaxed);
        let lapsed = self.note(lapsed, now_ms, born_us);
        Ok(Pulse { lost: was_good == 0 && !first, lapsed })
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

    fn note(&self, lapsed: Vec<(String, u64)>, now_ms: u64, born_us: u64) -> Vec<Lapse> {
        let mut known = self.known.lock();
        let lapse = |(gateway, renewed_ms): &(String, u64)| {
            let passed = Duration::from_millis(now_ms.saturating_sub(*renewed_ms));
            let due_in = self.due_after.saturating_sub(passed);
            (known.lapsed.get(gateway) != Some(renewed_ms))
                .then(|| Lapse { gateway: gateway.clone(), due_in })
        };
        let new = lapsed.iter().filter_map(lapse).collect();
        let lapsed = lapsed.into_iter().collect();
        *known = Known { lapsed, born_us, clock: Some((now_ms, Instant::now())) };
        new
    }
}
