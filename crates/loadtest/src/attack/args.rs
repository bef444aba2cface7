//! The command lines of `attack`, and of `attacker`, which is its other process.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use http::Uri;
use presence_protocol::UserId;
use serde::Serialize;

use crate::scenario::{Rate, Time};
use crate::worker::resolve;

/// Attack a gateway in every way it has a limit for, beside clients that behave, and report what these saw.
///
/// The gateway must take plain user names (`--dev`, or `--auth none`). Exits with 1 when a client that behaves saw an error,
/// or was told later than --slack allows.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttackArgs {
    #[command(flatten)]
    pub(crate) force: Force,
    /// Only these attacks, with commas between them.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Kind>,
    /// How many clients behave.
    #[arg(long, short = 'n', default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) connections: u32,
    /// How many random others each of them watches.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    pub(crate) watch: u32,
    /// How often one of them changes its status.
    #[arg(long, default_value = "50/s")]
    pub(crate) changes: Rate,
    /// How long to measure before each attack.
    #[arg(long, default_value = "10s")]
    pub(crate) before: Time,
    /// How much later than before the attack the 99th percentile of pushes may come.
    #[arg(long, default_value = "5ms")]
    pub(crate) slack: Time,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The hostile clients of one attack; started by `attack`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttackerArgs {
    #[arg(value_enum)]
    pub(crate) kind: Kind,
    #[command(flatten)]
    pub(crate) force: Force,
}

/// Where the hostile are sent, how many, and for how long.
#[derive(Clone, Debug, Args)]
pub(crate) struct Force {
    /// The gateway's socket; its metrics are looked for beside it.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080/ws")]
    pub(crate) url: Uri,
    /// Attack a gateway that is not on this machine. Only one that is yours.
    #[arg(long)]
    pub(crate) remote: bool,
    /// How much the hostile do in a second, all together: open a socket, or send a frame or a byte.
    #[arg(long, default_value = "500/s")]
    pub(crate) rate: Rate,
    /// How many sockets they hold at most.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) sockets: u32,
    /// How long each attack lasts; a reader that does not read is given up after 10 s by default.
    #[arg(long, default_value = "20s")]
    pub(crate) during: Time,
}

/// What the hostile do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Requests for a WebSocket that come byte by byte
    SlowUpgrades,
    /// Sockets that say nothing: before the request, before `hello`, and after it
    SilentSockets,
    /// Sockets that are opened and dropped, at three stages
    ConnectsAndDrops,
    /// A reader that never reads, while all whom it watches change
    DeafReader,
    /// Pings
    Pings,
    /// Empty frames
    TinyFrames,
    /// Messages that never end
    Fragments,
    /// One user with ever more sessions
    ManySessions,
    /// One user whom all the others watch
    PopularUser,
    /// Watches and unwatches of the users who behave
    WatchStorms,
}

impl Kind {
    /// As it is given on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// In a few words.
    pub(crate) fn what(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().cloned());
        help.map_or_else(String::new, |help| help.to_string())
    }
}

impl Force {
    /// The address to attack: of this machine, unless it is said otherwise.
    pub(crate) fn target(&self) -> Result<SocketAddr> {
        ensure!(
            self.url.scheme_str() == Some("ws"),
            "--url {}: attackers speak no TLS: a gateway at ws:// is needed",
            self.url
        );
        let targets = resolve(&self.url).with_context(|| format!("--url {}", self.url))?;
        let target = targets[0];
        ensure!(
            target.ip().is_loopback() || self.remote,
            "--url {}: this is not on this machine; if the gateway is yours, say --remote",
            self.url
        );
        Ok(target)
    }

    /// The same, to be given on.
    pub(crate) fn as_args(&self) -> Vec<String> {
        let Self { url, remote, rate, sockets, during } = self;
        let mut args = vec![
            format!("--url={url}"),
            format!("--rate={rate}"),
            format!("--sockets={sockets}"),
            format!("--during={during}"),
        ];
        args.extend(remote.then(|| "--remote".to_owned()));
        args
    }
}

/// One of those who behave.
pub(super) fn peaceful(number: u32) -> UserId {
    UserId::new(&format!("peace-{number}")).expect("it is short")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn force(url: &str, more: &[&str]) -> Force {
        let url = format!("--url={url}");
        let words = ["presence-loadtest", "attack", &url];
        let cli = Cli::parse_from(words.iter().chain(more));
        let Command::Attack(args) = cli.command else { unreachable!() };
        args.force
    }

    #[test]
    fn only_this_machine_is_attacked_unless_it_is_said_otherwise() {
        assert!(force("ws://127.0.0.1:8080/ws", &[]).target().is_ok());
        let refusal = force("ws://192.0.2.1:8080/ws", &[]).target().unwrap_err();
        assert!(format!("{refusal:#}").contains("--remote"), "{refusal:#}");
        assert!(force("ws://192.0.2.1:8080/ws", &["--remote"]).target().is_ok());
    }

    #[test]
    fn the_attackers_are_told_what_the_command_was() {
        let told = force("ws://127.0.0.1:1/ws", &["--remote", "--rate=7/s", "--during=250ms"]);
        let words = ["presence-loadtest".to_owned(), "attacker".to_owned(), "pings".to_owned()];
        let cli = Cli::parse_from(words.into_iter().chain(told.as_args()));
        let Command::Attacker(args) = cli.command else { unreachable!() };
        assert_eq!((args.kind, args.force.as_args()), (Kind::Pings, told.as_args()));
    }
}
