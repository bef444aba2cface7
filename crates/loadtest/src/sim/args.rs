//! The command line of `sim`. Whether its values go together is checked in `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::scenario::Rate;

/// Drive virtual sessions, without sockets, into the presence engine and a real Redis.
///
/// Exits with 1 when anybody who was online was shown or read offline.
#[derive(Clone, Debug, Args)]
pub(crate) struct SimArgs {
    /// How many sessions to hold, each of its own user.
    #[arg(long, short = 'n', default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sessions: u32,
    /// Over how many gateways to spread them, all in this process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gateways: u32,
    /// How often each session is heard.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) heartbeat: Duration,
    /// The gateways' TTL.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Duration,
    /// The gateways' grace.
    #[arg(long, default_value = "3s", value_parser = humantime::parse_duration)]
    pub(crate) grace: Duration,
    /// How many random other users each session watches.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) watch: u32,
    /// How many sessions a second end, as 100/s, to come back on the next gateway when their users
    /// were shown offline; every other one signs out, the others just close.
    #[arg(long, value_name = "RATE")]
    pub(crate) churn: Option<Rate>,
    /// How long to measure, once all have joined.
    #[arg(long, default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// One Redis, as redis://host:port; unless given, one is started for the run.
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<String>,
    /// How heartbeats reach Redis.
    #[arg(long, value_enum, default_value_t = Path::Engine)]
    pub(crate) path: Path,
    /// What the random choices follow from: the same seed makes the same choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Path {
    /// Through the presence engine, as in a gateway
    Engine,
    /// Each as its own `SET key EX ttl`, pipelined and without an engine: to compare with
    SetEx,
}
