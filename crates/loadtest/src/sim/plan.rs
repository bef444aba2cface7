//! What a simulation does, checked before anything is started.

use std::time::Duration;

use anyhow::{Result, ensure};
use presence::Config;
use presence_protocol::UserId;

use crate::contacts::random::RandomContacts;
use crate::report::written::counted;
use crate::scenario::Rate;
use crate::sim::args::{Path, SimArgs};

/// As many bytes as the gateway's own prefix has, so that keys take as much memory.
pub(crate) const KEY_PREFIX: &str = "loadtest";

const USER_PREFIX: &str = "user-";

/// What a gateway keeps for a month would be left behind in a Redis that was given.
const LAST_SEEN: Duration = Duration::from_mins(10);

/// How much longer than the grace a session that ended stays away, so that it is shown offline.
const AWAY_BEYOND_GRACE: Duration = Duration::from_secs(2);

/// A simulation that can be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) path: Path,
    pub(crate) sessions: u32,
    pub(crate) gateways: u32,
    pub(crate) watch: u32,
    /// Sessions that end in a second.
    pub(crate) churn: f64,
    pub(crate) time: Duration,
    pub(crate) config: Config,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn of(args: &SimArgs) -> Result<Self> {
        let SimArgs { sessions, heartbeat, ttl, grace, watch, .. } = *args;
        ensure!(heartbeat >= Duration::from_millis(100), "--heartbeat: at least 100ms");
        ensure!(ttl >= 2 * heartbeat, "--ttl: at least twice --heartbeat");
        ensure!(!args.duration.is_zero(), "--duration: more than nothing");
        ensure!(
            watch < sessions,
            "--watch {watch}: each of --sessions {sessions} has {} to watch",
            counted(u64::from(sessions) - 1, "other")
        );
        let is_plain = |url: &String| url.starts_with("redis://") || url.starts_with("valkey://");
        ensure!(
            args.redis_url.as_ref().is_none_or(is_plain),
            "--redis-url: one server without TLS is measured here, as in redis://127.0.0.1:6379"
        );
        let plan = Self {
            path: args.path,
            sessions,
            gateways: args.gateways,
            watch,
            churn: args.churn.map_or(0.0, Rate::per_second),
            time: args.duration,
            config: Config {
                heartbeat,
                ttl,
                grace,
                last_seen: match args.redis_url {
                    Some(_) => LAST_SEEN.max(2 * ttl),
                    None => Config::default().last_seen,
                },
                watch_len_max: watch.max(1) as usize,
                ..Config::default()
            },
            seed: args.seed,
        };
        ensure!(
            plan.churn * plan.away().as_secs_f64() <= f64::from(sessions) / 2.0,
            "--churn {}/s: each stays away for {:?}, which would be more than half of the sessions",
            plan.churn,
            plan.away()
        );
        ensure!(
            plan.path == Path::Engine || (watch == 0 && plan.churn == 0.0),
            "--path set-ex: nobody watches and nobody leaves without an engine"
        );
        Ok(plan)
    }

    /// How long a session that ended stays away.
    pub(crate) fn away(&self) -> Duration {
        self.config.grace + AWAY_BEYOND_GRACE
    }

    /// Heartbeats in a second.
    pub(crate) fn beats_per_sec(&self) -> f64 {
        f64::from(self.sessions) / self.config.heartbeat.as_secs_f64()
    }

    /// Whom the n-th session watches.
    pub(crate) fn watched_by(&self, index: u32) -> Vec<UserId> {
        let contacts = RandomContacts::new(self.sessions, self.watch, self.seed);
        contacts.watched_by(index).into_iter().map(user).collect()
    }
}

/// The n-th user.
pub(crate) fn user(index: u32) -> UserId {
    UserId::new(&format!("{USER_PREFIX}{index}")).expect("it is short and not empty")
}

/// The inverse of [`user`]; none for somebody else's user.
pub(crate) fn index_of(user: &UserId) -> Option<u32> {
    user.as_str().strip_prefix(USER_PREFIX)?.parse().ok()
}
