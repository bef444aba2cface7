//! The command line of `verify`. Whether its values go together is checked in `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::verify::record::FaultKind;

const EXIT_CODES: &str = "\
Exit codes:
  0    every promise was kept
  1    a promise was broken
  2    the check could not be done
  3    no promise is known to be broken, but this machine was too busy to judge: what came late
       had to be excused by more than 1 s of waiting for a CPU
  130  it was stopped before its end, and no promise was broken so far";

/// Starts a deployment of its own on this machine, breaks it, and checks every promise.
///
/// Needs `redis-server` unless the store is embedded.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct VerifyArgs {
    /// How many gateways to start.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gateways: u32,
    /// How many users to simulate.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) users: u32,
    /// How many other users each session watches.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) watch: u32,
    /// How long users act and faults happen; the quiet times for comparing come on top. The
    /// scenarios gateway-kill, redis-restart and redis-pause take what they need.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// How many acts of users there are in a second, all together.
    #[arg(long, default_value_t = 60.0, value_name = "PER SECOND")]
    pub(crate) acts: f64,
    /// What the random choices follow from: the same seed makes the same history, but not the same
    /// moments, which depend on the machine as well.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How often a session shows a sign of life.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) heartbeat: Duration,
    /// The gateways' TTL: short, so that many bounds are checked in a minute.
    #[arg(long, default_value = "4s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// The gateways' grace.
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// Where presence is kept.
    #[arg(long, value_enum, default_value_t = StoreArg::Redis)]
    pub(crate) store: StoreArg,
    /// Which history to run.
    #[arg(long, value_enum, default_value_t = Scenario::Random)]
    pub(crate) scenario: Scenario,
    #[arg(long, value_name = "ALL, NONE OR A LIST", value_parser = parse_faults, help = faults_help())]
    pub(crate) faults: Option<Faults>,
    /// How long Redis is stopped in the scenario redis-pause (60s unless given), or gone in
    /// redis-restart (2s).
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) pause: Option<Duration>,
    /// First fill Redis with the keys of so many living users of other gateways.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) other_users: u64,
    /// First fill Redis with so many unrelated keys, each with a TTL.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) other_keys: u64,
    /// The gateway to check; unless given, the presence-gateway beside this program, or on PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) gateway: Option<PathBuf>,
    /// Keep the gateways' logs, and say where they are.
    #[arg(long)]
    pub(crate) keep_logs: bool,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoreArg {
    /// One gateway that keeps presence in its process
    Embedded,
    /// One Redis
    Redis,
    /// Three primaries with a replica each
    Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Users come, go, move and fall silent while random things break
    Random,
    /// The gateway of all watched users is killed; a fifth of them reconnect in time
    GatewayKill,
    /// Redis is killed and comes back empty, with everybody online
    RedisRestart,
    /// Redis is stopped for a while, and some leave meanwhile
    RedisPause,
    /// Subscriptions are cut once a second while users come and go
    SubscriberKills,
    /// A primary of the cluster is killed while users come and go
    ClusterFailover,
}

/// What may break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    All,
    These(Vec<FaultKind>),
}

fn faults_help() -> String {
    let fault = |kind: &FaultKind| {
        let kind = kind.to_possible_value()?;
        Some(format!("\n- {}: {}", kind.get_name(), kind.get_help()?))
    };
    let faults: String = FaultKind::value_variants().iter().filter_map(fault).collect();
    "What may break in the scenario random: all that can in such a deployment (unless given), none, \
     or a list such as gateway-kill,redis-pause of"
        .to_owned()
        + &faults
}

fn parse_faults(text: &str) -> Result<Faults, String> {
    match text {
        "all" => Ok(Faults::All),
        "none" => Ok(Faults::These(Vec::new())),
        list => list.split(',').map(parse_fault).collect::<Result<_, _>>().map(Faults::These),
    }
}

fn parse_fault(name: &str) -> Result<FaultKind, String> {
    FaultKind::from_str(name.trim(), false).map_err(|_| {
        let known: Vec<String> = FaultKind::value_variants().iter().map(name_of).collect();
        format!("no fault is called {name:?}: all, none, or some of {}", known.join(","))
    })
}

/// A value as it is given on the command line.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Faults {
    /// As they are given on the command line.
    pub(crate) fn as_arg(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::These(kinds) if kinds.is_empty() => "none".to_owned(),
            Self::These(kinds) => kinds.iter().map(name_of).collect::<Vec<_>>().join(","),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_fault_and_what_it_does() {
        let help = faults_help();
        assert!(help.contains("\n- gateway-kill: SIGKILL to a gateway\n"), "{help}");
        for kind in FaultKind::value_variants() {
            assert!(help.contains(&format!("\n- {}: ", name_of(kind))), "{help}");
        }
    }

    #[test]
    fn faults_are_all_or_none_or_a_list() {
        let some = Faults::These(vec![FaultKind::GatewayKill, FaultKind::RedisPause]);
        assert_eq!(parse_faults("all"), Ok(Faults::All));
        assert_eq!(parse_faults("none"), Ok(Faults::These(vec![])));
        assert_eq!(parse_faults("gateway-kill, redis-pause"), Ok(some.clone()));
        assert_eq!(some.as_arg(), "gateway-kill,redis-pause");
        let refusal = parse_faults("gateway-kil").unwrap_err();
        assert!(refusal.contains("gateway-kil\"") && refusal.contains("subscriber-kill"));
    }
}
