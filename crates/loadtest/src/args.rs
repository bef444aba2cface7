//! The command line. Whether its numbers go together is checked in `plan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use http::Uri;
use presence_protocol::Format;

use crate::verify::args::VerifyArgs;

/// Load tester for the presence gateway.
#[derive(Debug, Parser)]
#[command(name = "presence-loadtest", version)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open many connections, hold them, and report.
    Run(RunArgs),
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The gateway's socket, as ws://host:port/ws.
    #[arg(long, default_value = "ws://127.0.0.1:8080/ws")]
    pub(crate) url: Uri,
    /// How many connections to open, each of its own user.
    #[arg(long, short = 'n', default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// How many connections to start in a second, as 2000/s.
    #[arg(long, default_value = "500/s", value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// How many random other users each connection watches.
    #[arg(long, default_value_t = 20)]
    pub(crate) watch: u32,
    /// How long to hold the connections after the last one was started.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) duration: Duration,
    /// How often each connection sends a Ping, on average.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) heartbeat: Duration,
    /// How messages are written.
    #[arg(long, value_enum, default_value_t = FormatArg::Msgpack)]
    pub(crate) format: FormatArg,
    /// The start of every user id; the n-th user is PREFIX-n.
    #[arg(long, value_name = "PREFIX", default_value = "load")]
    pub(crate) users: String,
    /// From how many addresses 127.0.0.1, 127.0.0.2 and so on to connect; one for each 5000
    /// connections unless given. Only for a gateway on a loopback address.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) source_addresses: Option<u32>,
    /// What the random choices follow from: the same seed makes the same run.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Sign in with HS256 tokens of this secret, not with plain user names.
    #[arg(long, env = "PRESENCE_JWT_SECRET", hide_env_values = true)]
    pub(crate) jwt_secret: Option<String>,
    /// How long a connection may take, from TCP to the welcome.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) connect_timeout: Duration,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The gateway's process on this machine, to report its memory and CPU time.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    Json,
    Msgpack,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Json => Self::Json,
            FormatArg::Msgpack => Self::MsgPack,
        }
    }
}

/// A number a second, `2000/s` or just `2000`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("a rate is a number above 0 a second, such as 2000/s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_rate_is_a_positive_number_a_second() {
        assert_eq!(parse_rate("2000/s"), Ok(2000.0));
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        for bad in ["", "0", "-1/s", "inf", "NaN", "10/m", "many"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
