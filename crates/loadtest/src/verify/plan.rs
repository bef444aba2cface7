//! Whether a check can be done, found out before anything is started.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::limits::Limits;
use crate::report::written::counted;
use crate::verify::args::{Scenario, StoreArg, VerifyArgs, name_of};
use crate::verify::history::scenarios::kinds;
use crate::verify::record::FaultKind;

/// The gateway's program, as it is called beside this one or on PATH.
const GATEWAY: &str = "presence-gateway";

/// Users and faults need some time.
const DURATION_MIN: Duration = Duration::from_secs(1);

const HEARTBEAT_MIN: Duration = Duration::from_millis(100);

/// So few milliseconds are lost in what a machine does besides.
const GRACE_MIN_MS: u128 = 500;

/// What is needed for a check.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) gateway: PathBuf,
    pub(crate) limits: Limits,
}

impl Plan {
    pub(crate) fn of(args: &VerifyArgs) -> Result<Self> {
        check_numbers(args)?;
        check_scenario(args)?;
        check_store(args)?;
        let limits = Limits::of_this_process()?;
        // Up to three sessions a user, though rarely.
        let sessions = args.users.saturating_mul(2);
        let addresses = sessions.div_ceil(crate::sources::CONNECTIONS_PER_ADDRESS);
        let shortfalls = limits.shortfalls(sessions, addresses);
        ensure!(shortfalls.is_empty(), "this machine cannot carry it: {}", shortfalls.join("; "));
        Ok(Self { gateway: gateway(args.gateway.as_deref())?, limits })
    }
}

fn check_numbers(args: &VerifyArgs) -> Result<()> {
    ensure!(
        args.watch < args.users,
        "--watch {}: each of --users {} has {} to watch",
        args.watch,
        args.users,
        counted(u64::from(args.users) - 1, "other")
    );
    ensure!(
        args.ttl >= 3 * args.heartbeat,
        "--ttl: at least three heartbeats, so that none of a busy machine's is missed"
    );
    ensure!(args.grace.as_millis() >= GRACE_MIN_MS, "--grace: at least {GRACE_MIN_MS}ms");
    ensure!(args.heartbeat >= HEARTBEAT_MIN, "--heartbeat: at least {HEARTBEAT_MIN:?}");
    ensure!(args.duration >= DURATION_MIN, "--duration: at least {DURATION_MIN:?}");
    ensure!(args.acts.is_finite() && args.acts > 0.0, "--acts: a number above 0 a second");
    Ok(())
}

/// What a scenario would not heed is refused.
fn check_scenario(args: &VerifyArgs) -> Result<()> {
    let scenario = name_of(&args.scenario);
    ensure!(
        args.faults.is_none() || args.scenario == Scenario::Random,
        "--faults: it is for --scenario random, and {scenario} has faults of its own: give one of \
         the two only"
    );
    let Some(pause) = args.pause else { return Ok(()) };
    ensure!(
        matches!(args.scenario, Scenario::RedisPause | Scenario::RedisRestart),
        "--pause: it is for --scenario redis-pause or redis-restart, not for {scenario}"
    );
    ensure!(!pause.is_zero(), "--pause: longer than 0s");
    Ok(())
}

fn check_store(args: &VerifyArgs) -> Result<()> {
    let one_only = args.store == StoreArg::Embedded;
    ensure!(!one_only || args.gateways == 1, "--store embedded: use --gateways 1");
    let cluster = args.store == StoreArg::Cluster;
    match args.scenario {
        Scenario::GatewayKill => {
            ensure!(args.gateways > 1, "--scenario gateway-kill: others must be left to tell");
        }
        Scenario::RedisRestart | Scenario::RedisPause | Scenario::SubscriberKills => {
            ensure!(args.store == StoreArg::Redis, "--scenario: this one needs --store redis");
        }
        Scenario::ClusterFailover => {
            ensure!(cluster, "--scenario cluster-failover: use --store cluster");
        }
        Scenario::Random => {}
    }
    for kind in kinds(args) {
        let of_redis = !kind.is_of_gateway();
        ensure!(!of_redis || !one_only, "--faults: there is no Redis with --store embedded");
        let needs_others = matches!(kind, FaultKind::GatewayKill | FaultKind::GatewayRestart);
        ensure!(!needs_others || !one_only, "--faults: an embedded store dies with its gateway");
        let of_cluster = matches!(kind, FaultKind::ClusterFailover | FaultKind::ClusterHang);
        ensure!(cluster || !of_cluster, "--faults {}: use --store cluster", name_of(&kind));
    }
    let filled = args.other_users + args.other_keys > 0;
    ensure!(
        !filled || args.store == StoreArg::Redis,
        "--other-users, --other-keys: only with --store redis"
    );
    Ok(())
}

fn gateway(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        ensure!(path.is_file(), "--gateway {}: there is no such file", path.display());
        return Ok(path.to_owned());
    }
    let own = env::current_exe().context("where this program is")?;
    let beside = own.parent().map(|folder| folder.join(GATEWAY));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(GATEWAY));
    match beside.into_iter().chain(on_path).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!(
            "no {GATEWAY} beside this program or on PATH: build it \
             (cargo build --release --package {GATEWAY}) or name it with --gateway"
        ),
    }
}
