//! Leases: each gateway renews one every half second or so, and so the others know to within that when it died.
//!
//! That is what makes the death of a gateway exact. The keys of its users expire up to three quarters of a TTL before the promised
//! moment, since they were last vouched for at different times before its death; the late lease tells the scripts to
//! hold their losses back until the TTL from the last sign of life of the gateway itself.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::types::scripts::Script;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::RedisOptions;
use super::reach::REMEMBER;
use super::scripts::{decode, run};
use crate::config::Config;
use crate::store::{Lapse, Lease, LeaseState, Pulse, StoreError};

/// How long a renewal may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Nobody needs to know of a gateway that died so long ago.
const FORGET: Duration = Duration::from_hours(1);

/// A lease is late that was not renewed for so many halves of the time from one renewal to the next: so soon that this is
/// known before any of its users' keys expires.
const LATE_HALVES: u32 = 5;

/// Within so long after the store came back, the living have renewed their leases: a second or two to connect again.
const DOUBT_TIME: Duration = Duration::from_millis(2500);

/// For so long a gateway that has just come forgives for a store that was away before it came.
const NEWCOMER_TIME: Duration = Duration::from_secs(6);

/// A gateway that has found out has asserted its users within so long, and goes on if it renewed its lease for so long.
const ASSERT_TIME: Duration = Duration::from_millis(1500);
const GOES_ON_TIME: Duration = Duration::from_secs(1);

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
    renewal: Duration,
    ttl: Duration,
    /// How long after its last renewal the users of a dead gateway are offline.
    due_after: Duration,
    state: Mutex<State>,
}

/// What the renewals told.
#[derive(Default)]
struct State {
    known: Known,
    /// The others' leases, by gateway.
    leases: HashMap<String, Renewed>,
    /// Gateways that had a lease before the store lost everything.
    missing: HashMap<String, Missing>,
    /// When (ms, by the store's clock) this gateway came.
    came_ms: Option<u64>,
    /// When (ms, by the store's clock) a lease was first renewed again after the store lost everything, since this gateway came.
    reborn_ms: Option<u64>,
}

/// A gateway that may have yet to find out that the store lost everything.
#[derive(Debug, Clone, Copy)]
struct Missing {
    /// Until when its users may live if it is dead.
    until: Instant,
    /// When its lease was first seen again.
    seen: Option<Instant>,
    /// Whether it goes on, as far as is known: else it may have been stopped before it could assert its users.
    goes_on: bool,
}

impl Missing {
    /// Until when its users are waited for.
    fn waited_for_until(&self) -> Instant {
        let asserted = self.seen.filter(|_| self.goes_on).map(|seen| seen + ASSERT_TIME);
        asserted.map_or(self.until, |asserted| asserted.min(self.until))
    }

    /// Takes over what is known of its lease now. `fresh`: of one that goes on it was not renewed for so long at most.
    fn look(&mut self, lease: Option<&Renewed>, now_ms: u64, fresh: Duration) {
        let Some(lease) = lease else { return };
        self.seen.get_or_insert_with(Instant::now);
        let renewed_for = Duration::from_millis(lease.renewed_ms.saturating_sub(lease.since_ms));
        self.goes_on = renewed_for >= GOES_ON_TIME || lease.age(now_ms) <= fresh;
    }
}

/// When (ms, by the store's clock) a lease was renewed last, and since when it is.
#[derive(Debug, Clone, Copy)]
struct Renewed {
    renewed_ms: u64,
    since_ms: u64,
}

/// What the scripts are told.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// When (ms, by the store's clock) the gateways that are late with their lease renewed it last.
    pub(super) late: HashMap<String, u64>,
    /// Until when (ms, by the store's clock) it is known of all others that they are not.
    pub(super) late_until_ms: u64,
    /// Until when (ms, by the store's clock) their users live at least: for the TTL since any of them renewed its lease.
    pub(super) good_until_ms: u64,
    /// Until when (ms, by the store's clock) the gateways that are late may have been kept from renewing by the store.
    pub(super) doubt_until_ms: u64,
    /// From when to when (ms, by the store's clock) the store was away lately, as far as others noticed.
    pub(super) away: Option<(u64, u64)>,
    /// The same, of a time before this gateway came.
    pub(super) away_before: Option<(u64, u64)>,
    /// When (ms, by the store's clock) a lease was first renewed after it lost everything, lately: who is with others as well,
    /// it may have yet to be told.
    pub(super) reborn_ms: Option<u64>,
    /// Since when (µs, by the store's clock) the store remembers.
    pub(super) born_us: u64,
    /// For how long a lease that is not late was not renewed at most.
    late_after_ms: u64,
    /// How many gateways have a lease that is not late.
    living: u32,
    /// The store's clock (ms) at an instant of ours.
    clock: Option<(u64, Instant)>,
    /// The store's clock (ms) when it told of the leases.
    told_ms: u64,
}

impl Known {
    /// Nothing but what the store's clock (ms) says now.
    #[cfg(test)]
    pub(super) fn at(now_ms: u64) -> Self {
        Self { clock: Some((now_ms, Instant::now())), ..Self::default() }
    }

    /// What the store's clock (ms) should say now; 0 before the first renewal.
    pub(super) fn store_now_ms(&self) -> u64 {
        self.clock.map_or(0, |(ms, at)| ms + millis(at.elapsed()))
    }

    /// What the store's clock (ms) said when a call began that it answered at `now_ms`: the call may have waited in a store that was
    /// stopped, and what is known of the clock since earlier tells for how long.
    fn clock_at(&self, began: Instant, now_ms: u64) -> u64 {
        let earliest_ms = now_ms.saturating_sub(millis(began.elapsed()));
        self.clock.map_or(now_ms, |(ms, at)| {
            let expected_ms = ms + millis(began.saturating_duration_since(at));
            expected_ms.clamp(earliest_ms, now_ms)
        })
    }

    /// Whether a gateway that lived then has not renewed its lease since.
    pub(super) fn is_any_unheard_since(&self, then_ms: u64) -> bool {
        let lived = |renewed_ms: &u64| renewed_ms + self.late_after_ms >= then_ms;
        then_ms > 0 && self.late.values().any(lived)
    }
}

impl Leases {
    pub(super) fn new(options: &RedisOptions) -> Self {
        let config = &options.config;
        Self {
            script: Script::from_lua(include_str!("lua/lease.lua")),
            key: format!("{}:leases", options.prefix),
            gateway: options.gateway.clone(),
            good_for: config.lease(),
            late_after: late_after(config),
            renewal: config.renewal(),
            ttl: config.ttl,
            due_after: config.ttl + config.grace.max(config.renewal() + RENEWAL_DELAY_MAX),
            state: Mutex::default(),
        }
    }

    /// Renews the lease. Answers what is new.
    pub(super) async fn renew(&self, client: &Client) -> Result<Pulse, StoreError> {
        let numbers = [millis(self.good_for), millis(FORGET), self.now_ms()];
        let mut arguments = vec![Bytes::from(self.gateway.clone())];
        arguments.extend(numbers.map(|number| Bytes::from(number.to_string())));
        let began = Instant::now();
        let call = run(client, &self.script, self.key.clone(), arguments);
        let too_late = |_| StoreError::Unreachable("the lease was not renewed in time".to_owned());
        let answer = timeout(RENEWAL_TIMEOUT, call).await.map_err(too_late)??;
        Ok(self.note(decode(answer)?, began))
    }

    /// When the renewal began that told what is known.
    pub(super) fn renewed_at(&self) -> Instant {
        self.state.lock().known.clock.map_or_else(Instant::now, |(_, at)| at)
    }

    /// Gives the lease up.
    pub(super) async fn release(&self, client: &Client) -> Result<(), StoreError> {
        let script = Script::from_lua("return redis.call('HDEL', KEYS[1], ARGV[1])");
        let arguments = vec![Bytes::from(self.gateway.clone())];
        run(client, &script, self.key.clone(), arguments).await.map(drop)
    }

    /// What the store's clock (ms) should say now.
    pub(super) fn now_ms(&self) -> u64 {
        self.state.lock().known.store_now_ms()
    }

    /// How many gateways live: this one, if that is all that is known.
    pub(super) fn living(&self) -> u32 {
        self.state.lock().known.living.max(1)
    }

    /// All leases, this gateway's first. The others' are judged as of when they were told: while the store is away nobody can
    /// renew.
    pub(super) fn all(&self) -> Vec<Lease> {
        let state = self.state.lock();
        let now_ms = state.known.store_now_ms();
        let told_ms = state.known.told_ms;
        let own = Renewed { renewed_ms: told_ms, since_ms: state.came_ms.unwrap_or(told_ms) };
        let others = state.leases.iter().map(|(gateway, lease)| (gateway, lease, told_ms));
        let all = [(&self.gateway, &own, now_ms)].into_iter().chain(others);
        all.map(|(gateway, lease, judged_ms)| Lease {
            gateway: gateway.clone(),
            age: lease.age(now_ms),
            held_for: Duration::from_millis(now_ms.saturating_sub(lease.since_ms)),
            state: self.judge(lease.age(judged_ms)),
        })
        .collect()
    }

    fn judge(&self, age: Duration) -> LeaseState {
        if age > self.good_for {
            LeaseState::Lapsed
        } else if age > self.late_after {
            LeaseState::Late
        } else {
            LeaseState::Good
        }
    }

    /// What the scripts are told of it.
    pub(super) fn known(&self) -> Known {
        self.state.lock().known.clone()
    }

    /// `began`: when the renewal was sent. This process may have been stopped since.
    fn note(&self, renewal: Renewal, began: Instant) -> Pulse {
        let Renewal { now_ms, born_us, was_good, away, leases } = renewal;
        let lease = |(gateway, renewed_ms, since_ms)| (gateway, Renewed { renewed_ms, since_ms });
        let leases: HashMap<String, Renewed> = leases.into_iter().map(lease).collect();
        let mut state = self.state.lock();
        let is_first = state.came_ms.is_none();
        let came_ms = *state.came_ms.get_or_insert(now_ms);
        // Also where our lease is good: it may be this call's first attempt, whose answer was lost, that made it so.
        let is_reborn = born_us != state.known.born_us;
        if is_reborn && !is_first {
            state.reborn_ms = Some(born_us / 1000);
        }
        state.note_missing(born_us, self.due_after);
        for (name, gateway) in &mut state.missing {
            gateway.look(leases.get(name), now_ms, 2 * self.renewal);
        }
        let now = Instant::now();
        state.missing.retain(|_, gateway| gateway.until > now);
        let late: HashMap<String, u64> = leases
            .iter()
            .filter(|(_, lease)| lease.age(now_ms) > self.late_after)
            .map(|(gateway, lease)| (gateway.clone(), lease.renewed_ms))
            .collect();
        let doubts = is_first && !late.is_empty() && !self.has_long_been_served(&leases, now_ms);
        let lapsed = self.newly_lapsed(&state, &leases, now_ms);
        let (away_since_ms, back_ms) = away;
        let is_newcomer =
            now_ms.saturating_sub(came_ms) < millis(NEWCOMER_TIME) && away_since_ms < came_ms;
        // A clock that was put back, as by a failover, is no recent one.
        let is_recent =
            |ms: &u64| now_ms.checked_sub(*ms).is_some_and(|ago| ago < millis(REMEMBER));
        let was_away = back_ms > 0 && is_recent(&back_ms);
        let away = was_away.then_some((away_since_ms, back_ms));
        state.known = Known {
            late_after_ms: millis(self.late_after),
            living: (leases.len() - late.len()) as u32,
            late,
            late_until_ms: now_ms + millis(self.late_after),
            good_until_ms: now_ms + millis(self.ttl.saturating_sub(self.late_after)),
            doubt_until_ms: if doubts {
                now_ms + millis(DOUBT_TIME)
            } else {
                state.known.doubt_until_ms
            },
            away: away.filter(|_| !is_newcomer),
            away_before: away.filter(|_| is_newcomer),
            reborn_ms: state.reborn_ms.filter(is_recent),
            born_us,
            clock: Some((state.known.clock_at(began, now_ms), began)),
            told_ms: now_ms,
        };
        state.leases = leases;
        let missing =
            state.missing.iter().map(|(name, gateway)| (name, gateway.waited_for_until()));
        let missing = missing.filter(|(_, until)| *until > now);
        let missing = missing.map(|(name, until)| (name.clone(), until));
        Pulse {
            lost: (was_good == 0 || is_reborn) && !is_first,
            age: Some(Duration::from_micros((now_ms * 1000).saturating_sub(born_us))),
            missing: missing.collect(),
            lapsed,
        }
    }

    /// Whether any gateway shows that the store has been there for a while.
    fn has_long_been_served(&self, leases: &HashMap<String, Renewed>, now_ms: u64) -> bool {
        let long_since = now_ms.saturating_sub(millis(DOUBT_TIME));
        leases
            .values()
            .any(|lease| lease.age(now_ms) <= self.late_after && lease.since_ms <= long_since)
    }

    fn newly_lapsed(
        &self,
        before: &State,
        leases: &HashMap<String, Renewed>,
        now_ms: u64,
    ) -> Vec<Lapse> {
        let before_ms = before.known.told_ms;
        let lapse = |(gateway, lease): (&String, &Renewed)| {
            let is_same = |told: &&Renewed| told.renewed_ms == lease.renewed_ms;
            let told = before.leases.get(gateway).filter(is_same);
            let told = told.is_some_and(|told| told.age(before_ms) > self.good_for);
            let due_in = self.due_after.saturating_sub(lease.age(now_ms));
            (lease.age(now_ms) > self.good_for && !told)
                .then(|| Lapse { gateway: gateway.clone(), due_in })
        };
        leases.iter().filter_map(lapse).collect()
    }
}

impl Renewed {
    fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.renewed_ms))
    }
}

impl State {
    /// Who had a lease in a store that has lost everything since, may have yet to find out.
    fn note_missing(&mut self, born_us: u64, due_after: Duration) {
        let Some((ms, at)) = self.known.clock.filter(|_| born_us > self.known.born_us) else {
            return;
        };
        let missing = |lease: &Renewed| Missing {
            until: at + due_after.saturating_sub(lease.age(ms)),
            seen: None,
            goes_on: false,
        };
        let had = self.leases.iter().map(|(gateway, lease)| (gateway.clone(), missing(lease)));
        self.missing.extend(had);
    }
}

/// What `lease.lua` answers, in this order.
#[derive(Deserialize)]
struct Renewal {
    now_ms: u64,
    born_us: u64,
    was_good: u8,
    away: (u64, u64),
    leases: Vec<(String, u64, u64)>,
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn late_after(config: &Config) -> Duration {
    config.renewal() * LATE_HALVES / 2
}

#[cfg(test)]
mod tests {
    use super::super::TlsFiles;
    use super::*;
    use crate::here::vouch::vouch_interval;

    #[test]
    fn a_lease_is_known_to_be_late_before_the_first_key_expires() {
        for ttl_ms in [2000, 4000, 10_000, 30_000, 120_000] {
            let config = Config { ttl: Duration::from_millis(ttl_ms), ..Config::default() };
            let known_after = late_after(&config) + config.renewal().mul_f64(1.1);
            let expires_after = config.ttl.saturating_sub(vouch_interval(&config));
            assert!(known_after < expires_after.mul_f64(0.8), "{ttl_ms}: {known_after:?}");
        }
    }

    #[test]
    fn a_store_that_was_born_again_has_lost_what_it_was_told_whoever_renewed_the_lease_since() {
        let leases = Leases::new(&RedisOptions {
            url: String::new(),
            tls: TlsFiles::default(),
            prefix: "p".to_owned(),
            gateway: "g".to_owned(),
            config: Config::default(),
        });
        let renewed = |born_us, was_good| {
            let leases = Vec::new();
            Renewal { now_ms: 9, born_us, was_good, away: (0, 0), leases }
        };
        for (born_us, was_good, lost) in
            [(1, 0, false), (1, 1, false), (2, 1, true), (2, 1, false), (2, 0, true), (3, 0, true)]
        {
            let pulse = leases.note(renewed(born_us, was_good), Instant::now());
            assert_eq!(pulse.lost, lost, "{born_us} {was_good}");
        }
    }

    #[test]
    fn the_clock_of_the_store_is_known_though_a_renewal_waited_in_it() {
        let now = Instant::now();
        let ago = |ms| now - Duration::from_millis(ms);
        let known = Known { clock: Some((10_000, ago(5_000))), ..Known::default() };
        // Sent a second ago, when the clock said 14,000, and run then or only now.
        for now_ms in [14_000, 14_600, 15_000] {
            assert_eq!(known.clock_at(ago(1_000), now_ms), 14_000, "{now_ms}");
        }
        // A clock that was put forward or back.
        assert_eq!(known.clock_at(now, 20_000), 20_000);
        assert_eq!(known.clock_at(now, 2_000), 2_000);
        assert_eq!(Known::default().clock_at(ago(1_000), 7_000), 7_000, "the first word of it");
    }

    #[test]
    fn only_a_gateway_that_lived_when_the_store_went_away_is_unheard_since() {
        let late = HashMap::from([("g".to_owned(), 5_000)]);
        let known = Known { late, late_after_ms: 1_000, ..Known::default() };
        for (away_since_ms, is_unheard) in
            [(0, false), (5_500, true), (6_000, true), (6_001, false)]
        {
            assert_eq!(known.is_any_unheard_since(away_since_ms), is_unheard, "{away_since_ms}");
        }
    }

    #[test]
    fn a_gateway_that_was_missing_is_waited_for_until_it_has_asserted_its_users() {
        let lease = |renewed_ms, since_ms| Renewed { renewed_ms, since_ms };
        let (due_after, fresh) = (Duration::from_secs(30), Duration::from_secs(1));
        let before = Known { clock: Some((1000, Instant::now())), ..Known::default() };
        let leases = HashMap::from([("g2".to_owned(), lease(900, 0))]);
        let mut state = State { known: before, leases, ..State::default() };
        state.note_missing(1, due_after);
        let mut gateway = state.missing["g2"];
        let waits = |gateway: &Missing| {
            gateway.waited_for_until().saturating_duration_since(Instant::now()).as_secs()
        };
        assert_eq!(waits(&gateway), 29, "it may be dead");
        for (now_ms, seen, expected) in [
            (2_000, None, 29),
            (2_500, Some(lease(2_400, 2_400)), 1),
            (3_500, Some(lease(2_400, 2_400)), 29),
            (9_000, Some(lease(8_900, 2_400)), 1),
            (20_000, Some(lease(8_900, 2_400)), 1),
        ] {
            gateway.look(seen.as_ref(), now_ms, fresh);
            assert_eq!(waits(&gateway), expected, "at {now_ms}");
        }
    }
}
