//! The command line. Whether its numbers go together is checked in `scenario` and `plan`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use http::Uri;

use crate::attack::args::{AttackArgs, AttackerArgs};
use crate::local::args::LocalArgs;
use crate::observe::Targets;
use crate::report::args::{CompareArgs, PageArgs};
use crate::scenario::{Notation, Pace, Time};
use crate::sim::args::SimArgs;
use crate::verify::args::VerifyArgs;

const PEOPLE: &str = r#"Who the users are: a line of JSON for each, such as
{"user": "ana", "token": "eyJ…", "contacts": ["bo"]}, of which only the user is needed"#;

/// Load tester for the presence gateway.
#[derive(Debug, Parser)]
#[command(name = "presence-loadtest", version)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open many connections, do what a scenario says, and report.
    Run(Box<RunArgs>),
    /// Take part in a run of another process or host, and end with it.
    Worker(WorkerArgs),
    Local(Box<LocalArgs>),
    Verify(VerifyArgs),
    Attack(AttackArgs),
    #[command(hide = true)]
    Attacker(AttackerArgs),
    Sim(SimArgs),
    Compare(CompareArgs),
    Page(PageArgs),
}

/// Flags override what the scenario file says.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A TOML file that says what to do; the usual ramp and hold without one.
    #[arg(value_name = "SCENARIO.toml")]
    pub(crate) scenario: Option<PathBuf>,
    /// A gateway's socket, as ws://host:port/ws or wss://host:port/ws; several share the connections.
    #[arg(long = "url", value_name = "URL", default_value = "ws://127.0.0.1:8080/ws")]
    pub(crate) urls: Vec<Uri>,
    /// How many users to connect [default: 1000].
    #[arg(long, short = 'n', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// How many connections to start in a second, as 2000/s, or 1000/s..200/s for ever fewer
    /// [default: 500/s].
    #[arg(long)]
    pub(crate) rate: Option<Pace>,
    /// How many random other users each connection watches [default: 20, or all where there are fewer].
    #[arg(long, value_name = "COUNT")]
    pub(crate) watch: Option<u32>,
    /// How long to hold the connections after the last one was started [default: 30s].
    #[arg(long)]
    pub(crate) duration: Option<Time>,
    /// How often each connection gives a sign of life, on average [default: 10s].
    #[arg(long)]
    pub(crate) heartbeat: Option<Time>,
    /// How messages are written [default: msgpack].
    #[arg(long, value_enum)]
    pub(crate) format: Option<Notation>,
    /// The start of every user id; the n-th user is PREFIX-n [default: load].
    #[arg(long, value_name = "PREFIX")]
    pub(crate) users: Option<String>,
    #[arg(long, value_name = "FILE", help = PEOPLE, conflicts_with_all = ["users", "connections"])]
    pub(crate) people: Option<PathBuf>,
    /// What the random choices follow from: the same seed makes the same run [default: 1].
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// From how many addresses 127.0.0.1, 127.0.0.2 and so on to connect; one for each 5000
    /// connections unless given. Only for gateways on loopback addresses.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) source_addresses: Option<u32>,
    /// Sign in with HS256 tokens of this secret, not with plain user names.
    #[arg(long, env = "PRESENCE_JWT_SECRET", hide_env_values = true)]
    pub(crate) jwt_secret: Option<String>,
    /// Whose certificates to trust at wss:// and https:// (PEM); those that this machine trusts
    /// unless given.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca_file: Option<PathBuf>,
    /// How long a connection may take, from TCP to the welcome.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) connect_timeout: Duration,
    /// How many processes of this host make the connections; as many as their open files ask for
    /// unless given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(crate) workers: Option<u32>,
    /// Where workers of other hosts find this process. They are told the secret, unencrypted.
    #[arg(long, value_name = "ADDR", requires = "remote_workers")]
    pub(crate) listen: Option<SocketAddr>,
    /// How many workers of other hosts to wait for.
    #[arg(long, value_name = "COUNT", requires = "listen")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) remote_workers: Option<u32>,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write the report as a page for a browser.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) targets: Targets,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Where `run` listens, as host:port.
    #[arg(long, value_name = "ADDR")]
    pub(crate) coordinator: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
