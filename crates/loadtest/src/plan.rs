//! What a run does, checked before anything is opened: numbers that go together, a gateway that can
//! be named, and a machine that can carry it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Uri;
use presence_protocol::{Format, USER_ID_LEN_MAX, UserId};

use crate::args::RunArgs;
use crate::dial::Route;
use crate::limits::Limits;
use crate::schedule::Schedule;
use crate::sources::Sources;

/// Of some 28,000 ports an address has, so that a free one is found at the first try or the second.
pub(crate) const CONNECTIONS_PER_ADDRESS: u32 = 5_000;

/// The gateway's limit is 64 KiB; a watch list goes out in one message.
const WATCH_MESSAGE_LEN_MAX: usize = 60_000;

/// A run that can be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) url: Uri,
    pub(crate) target: SocketAddr,
    pub(crate) schedule: Schedule,
    pub(crate) hold: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) format: Format,
    /// None when the gateway is elsewhere, and the system chooses.
    pub(crate) sources: Option<Sources>,
    pub(crate) sign_in: SignIn,
    pub(crate) server_pid: Option<u32>,
    prefix: String,
}

/// How a connection proves who it is.
#[derive(Clone, Debug)]
pub(crate) enum SignIn {
    ByName,
    ByToken { secret: String },
}

impl Plan {
    /// Checks everything that can be checked beforehand.
    pub(crate) fn of(args: &RunArgs) -> Result<Self> {
        ensure!(
            args.url.scheme_str() == Some("ws"),
            "--url: only ws:// is spoken here, as in ws://127.0.0.1:8080/ws"
        );
        let target = resolve(&args.url).with_context(|| format!("--url {}", args.url))?;
        let limits = Limits::of_this_process()?;
        let sources = sources(target, args, &limits)?;
        check_watch(args)?;
        ensure!(args.heartbeat >= Duration::from_millis(100), "--heartbeat: at least 100ms");
        let addresses = sources.as_ref().map_or(1, Sources::addresses);
        let shortfalls = limits.shortfalls(args.connections, addresses);
        if !shortfalls.is_empty() {
            bail!("this machine cannot carry it: {}", shortfalls.join("; "));
        }
        Ok(Self {
            url: args.url.clone(),
            target,
            schedule: Schedule::new(args.connections, args.rate, args.watch, args.seed),
            hold: args.duration,
            heartbeat: args.heartbeat,
            connect_timeout: args.connect_timeout,
            format: args.format.into(),
            sources,
            sign_in: match &args.jwt_secret {
                Some(secret) => SignIn::ByToken { secret: secret.clone() },
                None => SignIn::ByName,
            },
            server_pid: args.pid,
            prefix: args.users.clone(),
        })
    }

    /// Where every connection leads.
    pub(crate) fn route(&self) -> Route<'_> {
        Route {
            url: &self.url,
            target: self.target,
            sources: self.sources.as_ref(),
            format: self.format,
        }
    }

    /// The n-th user.
    pub(crate) fn user(&self, index: u32) -> UserId {
        UserId::new(&user_name(&self.prefix, index)).expect("the length of the prefix was checked")
    }

    /// The inverse of [`Plan::user`]; none for somebody else's user.
    pub(crate) fn index_of(&self, user: &UserId) -> Option<u32> {
        user.as_str().strip_prefix(self.prefix.as_str())?.strip_prefix('-')?.parse().ok()
    }
}

fn sources(target: SocketAddr, args: &RunArgs, limits: &Limits) -> Result<Option<Sources>> {
    if target.ip().is_loopback() && target.is_ipv4() {
        let enough = args.connections.div_ceil(CONNECTIONS_PER_ADDRESS);
        let addresses = args.source_addresses.unwrap_or(enough);
        return Ok(Some(Sources::new(addresses, &limits.ports, fastrand::u64(..))));
    }
    ensure!(
        args.source_addresses.is_none(),
        "--source-addresses: only for a gateway on 127.0.0.0/8, and {} is not",
        target.ip()
    );
    Ok(None)
}

fn user_name(prefix: &str, index: u32) -> String {
    format!("{prefix}-{index}")
}

fn resolve(url: &Uri) -> Result<SocketAddr> {
    let host = url.host().context("the URL names no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, url.port_u16().unwrap_or(80)).to_socket_addrs()?;
    found.next().context("the host has no address")
}

fn check_watch(args: &RunArgs) -> Result<()> {
    let user_len = user_name(&args.users, args.connections - 1).len();
    ensure!(user_len <= USER_ID_LEN_MAX, "--users: a user id is at most {USER_ID_LEN_MAX} bytes");
    ensure!(
        args.watch < args.connections,
        "--watch {}: of {} users each can watch at most {} others",
        args.watch,
        args.connections,
        args.connections - 1
    );
    let fit = WATCH_MESSAGE_LEN_MAX / (user_len + 3);
    ensure!(
        args.watch as usize <= fit,
        "--watch {}: at most {fit} users with ids as long as these fit in one message",
        args.watch
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn plan(args: &str) -> Result<Plan> {
        let words = ["presence-loadtest", "run"].into_iter().chain(args.split_whitespace());
        let Command::Run(args) = Cli::parse_from(words).command else { unreachable!() };
        Plan::of(&args)
    }

    #[test]
    fn the_defaults_can_be_done() {
        let plan = plan("").unwrap();
        assert_eq!(plan.sources.as_ref().unwrap().addresses(), 1);
        assert_eq!(plan.index_of(&plan.user(17)), Some(17));
        assert_eq!(plan.index_of(&UserId::new("somebody-17").unwrap()), None);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_argument_named() {
        let table = [
            ("--url wss://example.org/ws", "--url"),
            ("--connections 20 --watch 20", "--watch 20"),
            ("--connections 10000 --watch 9000", "--watch 9000"),
            ("--heartbeat 1ms", "--heartbeat"),
            ("--url ws://192.0.2.1/ws --source-addresses 2", "--source-addresses"),
            ("--connections 4000000000", "open files"),
        ];
        for (args, named) in table {
            let refusal = format!("{:#}", plan(args).unwrap_err());
            assert!(refusal.contains(named), "{args}: {refusal}");
        }
    }
}
