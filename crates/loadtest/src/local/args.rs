//! The command line of `local`. Whether its numbers fit this machine is checked in `checks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::Uri;

use crate::args::RunArgs;
use crate::observe::Targets;
use crate::scenario::{Pace, Time};

/// How long a connection may take: all of this machine is busy when many come at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Start Redis and gateways on this machine, put a load on them, report, and stop them all.
///
/// First it checks whether this machine can carry it, and says what falls short and how to change
/// that. What it starts ends with it, however it ends.
#[derive(Clone, Debug, Args)]
pub(crate) struct LocalArgs {
    /// A TOML file that says what to do; the usual ramp and hold without one.
    #[arg(long, value_name = "SCENARIO.toml")]
    pub(crate) scenario: Option<PathBuf>,
    /// How many users to connect [default: 1000].
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
    pub(crate) connections: Option<u32>,
    /// How many gateways to start [default: as many as the limit on open files asks for].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) gateways: Option<u32>,
    /// How many connections to start in a second, as 2000/s, or 1000/s..200/s for ever fewer
    /// [default: 500/s].
    #[arg(long)]
    pub(crate) rate: Option<Pace>,
    /// How many random other users each connection watches [default: 20].
    #[arg(long, value_name = "COUNT")]
    pub(crate) watch: Option<u32>,
    /// How long to hold the connections after the last one was started [default: 30s].
    #[arg(long)]
    pub(crate) duration: Option<Time>,
    /// How often each connection gives a sign of life, and gateways ask for one [default: 10s].
    #[arg(long)]
    pub(crate) heartbeat: Option<Time>,
    /// How long gateways count a silent connection as alive [default: three heartbeats].
    #[arg(long)]
    pub(crate) ttl: Option<Time>,
    /// What the random choices follow from: the same seed makes the same run [default: 1].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The gateway's program; presence-gateway beside this one unless given.
    #[arg(long, value_name = "PATH")]
    pub(crate) gateway: Option<PathBuf>,
    /// The program of Redis, or of Valkey.
    #[arg(long, value_name = "PATH", default_value = "redis-server")]
    pub(crate) redis_server: PathBuf,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Leave what Redis and the gateways logged where it is, and tell where.
    #[arg(long)]
    pub(crate) keep_logs: bool,
}

impl LocalArgs {
    /// The run on these gateways, with an eye on these servers.
    pub(crate) fn run(&self, urls: Vec<Uri>, targets: Targets) -> RunArgs {
        RunArgs {
            scenario: self.scenario.clone(),
            urls,
            connections: self.connections,
            rate: self.rate,
            watch: self.watch,
            duration: self.duration,
            heartbeat: self.heartbeat,
            format: None,
            users: None,
            people: None,
            seed: self.seed,
            source_addresses: None,
            jwt_secret: None,
            tls_ca_file: None,
            connect_timeout: CONNECT_TIMEOUT,
            workers: None,
            listen: None,
            remote_workers: None,
            json: self.json.clone(),
            html: self.html.clone(),
            targets,
        }
    }
}
