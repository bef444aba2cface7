//! The attacks: each kind of hostile client that a gateway has a limit for, one after the other, beside a crowd of clients
//! that behave and measure how soon they are told of each other.
//!
//! The hostile are in a process of their own that gives way to all others (nice 19), at a rate that is set: on the same
//! machine they take CPU from the gateway whatever the gateway does, and it is the gateway that is to be seen.
//!
//! Read in this order: `args`, `crowd` (who behaves), `hostile` (who does not, and how much of it), `deeds` (what they do),
//! `report`.

pub(crate) mod args;

mod crowd;

mod deeds;
mod hostile;

mod report;

use std::env;
use std::net::SocketAddr;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use futures::{SinkExt, StreamExt};
use http::Uri;
use presence_protocol::{ClientMessage, Format, GatewayMessage, Hello, UserId};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::attack::args::{AttackArgs, Force, Kind};
use crate::attack::crowd::Crowd;
use crate::attack::hostile::Came;
pub(crate) use crate::attack::hostile::attacker;
use crate::attack::report::{Attack, Counters, Report};
use crate::dial::{Route, Socket, frame, read, upgrade};
use crate::failure::Failure;
use crate::fetch;
use crate::limits::Limits;
use crate::observe::counters;
use crate::reported::{Files, work_and_tell};
use crate::sources::{CONNECTIONS_PER_ADDRESS, Sources};

const FORMAT: Format = Format::MsgPack;

/// How long a connection may take, from TCP to the welcome.
const JOIN_MAX: Duration = Duration::from_secs(10);

/// After an attack nothing changes for so long; then every view must be the truth.
const QUIET: Duration = Duration::from_secs(3);

/// The attackers end by themselves, a little late perhaps.
const END_MAX: Duration = Duration::from_secs(10);

/// Makes the attacks; fails when the crowd saw an error, or was told later than is let pass.
pub(crate) fn attack(args: &AttackArgs) -> Result<ExitCode> {
    let files = Files::open(args.json.as_deref(), None)?;
    work_and_tell(Builder::new_multi_thread(), attacks(args), files)
}

async fn attacks(args: &AttackArgs) -> Result<Report> {
    let gateway = Gateway::of(&args.force, args.connections)?;
    gateway.counters().await?;
    let mut crowd = Crowd::gather(&gateway, args).await.context("gathering the crowd")?;
    let kinds = if args.only.is_empty() { Kind::value_variants() } else { &args.only[..] };
    let mut report = Report::new(args);
    for &kind in kinds {
        eprintln!("{}: {}", kind.name(), kind.what());
        report.attacks.push(one(args, &gateway, &mut crowd, kind).await?);
    }
    Ok(report)
}

async fn one(
    args: &AttackArgs,
    gateway: &Gateway,
    crowd: &mut Crowd,
    kind: Kind,
) -> Result<Attack> {
    crowd.change_for(args.before.0).await;
    let before = crowd.take();
    let counters = gateway.counters().await?;
    let child = start(&args.force, kind)?;
    crowd.change_for(args.force.during.0).await;
    let came = finish(child).await.context("the attackers")?;
    let counted = gateway.counters().await?.since(&counters);
    sleep(QUIET).await;
    crowd.compare_views();
    let during = crowd.take();
    Ok(Attack::new(kind, came, counted, &before, during))
}

fn start(force: &Force, kind: Kind) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("attacker").arg(kind.name()).args(force.as_args());
    command.stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().context("starting the attackers")
}

async fn finish(child: Child) -> Result<Came> {
    let output = timeout(END_MAX, child.wait_with_output()).await;
    let output = output.context("they did not end")??;
    ensure!(output.status.success(), "they ended with {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The gateway that is attacked, and how it is reached.
struct Gateway {
    url: Uri,
    target: SocketAddr,
    /// None when it is elsewhere, and the system chooses.
    sources: Option<Sources>,
}

impl Gateway {
    fn of(force: &Force, connections: u32) -> Result<Self> {
        let target = force.target()?;
        let ports = Limits::of_this_process()?.ports;
        let addresses = 1 + connections / CONNECTIONS_PER_ADDRESS;
        let start = u64::from(std::process::id()) * u64::from(CONNECTIONS_PER_ADDRESS);
        let is_here = target.ip().is_loopback() && target.is_ipv4();
        let sources = is_here.then(|| Sources::new(addresses, &ports, start));
        Ok(Self { url: force.url.clone(), target, sources })
    }

    fn route(&self) -> Route<'_> {
        Route {
            url: &self.url,
            target: self.target,
            sources: self.sources.as_ref(),
            format: FORMAT,
        }
    }

    /// A socket that is signed in.
    async fn join(&self, user: UserId) -> Result<Socket, Failure> {
        let join = async {
            let mut socket = upgrade(self.route()).await?;
            let hello = Hello { user: Some(user), ..Hello::default() };
            socket.send(frame(FORMAT, &ClientMessage::Hello(hello))).await?;
            loop {
                if let Some(GatewayMessage::Welcome(_)) = next(&mut socket).await? {
                    return Ok(socket);
                }
            }
        };
        timeout(JOIN_MAX, join).await.unwrap_or(Err(Failure::TimedOut))
    }

    /// What it counts, by its own metrics.
    async fn counters(&self) -> Result<Counters> {
        let url: Uri = format!("http://{}/metrics", self.target).parse()?;
        let page = spawn_blocking(move || {
            fetch::get(&url, &[])
                .with_context(|| format!("no counters at {url}: is the gateway there?"))
        })
        .await??;
        Ok(Counters(counters(&page).collect()))
    }
}

/// The next message, if the next frame is one.
async fn next(socket: &mut Socket) -> Result<Option<GatewayMessage>, Failure> {
    read(FORMAT, socket.next().await.ok_or(Failure::Ended)??)
}
