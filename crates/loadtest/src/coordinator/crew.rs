//! The workers of a run: started or waited for, given their shares, told, and heard.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::coordinator::shares::Shares;
use crate::ledger;
use crate::plan::Plan;
use crate::process::Usage;
use crate::wire::{self, News, Order, VERSION};

/// How long a worker of this host may take to be there.
const START_LIMIT: Duration = Duration::from_secs(30);

/// What is told and not yet taken in; then workers wait.
const NEWS_MAX: usize = 1_024;

/// What a worker did.
#[derive(Debug)]
pub(super) enum Event {
    News(usize, News),
    /// Its process or its host is gone.
    Lost(usize),
}

/// All workers. Dropping it ends them.
pub(super) struct Crew {
    /// The first to be dropped: a worker that finds its coordinator gone complains.
    _processes: Vec<Child>,
    members: Vec<Member>,
    events: mpsc::Receiver<Event>,
}

struct Member {
    orders: OwnedWriteHalf,
    usage_before: Usage,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Working,
    Done,
    Lost,
}

/// A worker that said hello.
pub(super) struct Candidate {
    stream: TcpStream,
    /// Whether it is on this host.
    pub(super) is_here: bool,
    pub(super) connections_max: u64,
}

impl Crew {
    /// Starts those of this host, waits for the others, and gives each its share. When this
    /// returns, all are ready.
    pub(super) async fn gather(plan: &Plan) -> Result<Self> {
        let listen = plan.listen;
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("--listen {listen}"))?;
        let address = listener.local_addr()?;
        let processes = (0..plan.workers).map(|_| spawn(address)).collect::<Result<_>>()?;
        if plan.remote_workers > 0 {
            eprintln!(
                "Waiting for {} workers: presence-loadtest worker --coordinator {address}",
                plan.remote_workers
            );
        }
        let hellos = hellos(&listener, (plan.workers + plan.remote_workers) as usize);
        let mut candidates = match plan.remote_workers {
            0 => timeout(START_LIMIT, hellos).await.context("the workers did not start")??,
            _ => hellos.await?,
        };
        candidates.sort_by_key(|candidate| !candidate.is_here);
        let shares = Shares::new(plan, candidates.iter().filter(|one| one.is_here).count());
        // All open it before they are ready: nothing is left behind however this process ends.
        let ledger = ledger::create(shares.here().end).context("making the ledger")?;
        let mut streams = Vec::new();
        for (worker, mut candidate) in (0..).zip(candidates) {
            let assignment = shares.assignment(plan, worker, &candidate, &ledger)?;
            let order = wire::encode(&Order::Assign(Box::new(assignment)))?;
            candidate.stream.write_all(&order).await?;
            streams.push(candidate.stream);
        }
        let (sender, events) = mpsc::channel(NEWS_MAX);
        let mut members = Vec::new();
        for (worker, mut stream) in streams.into_iter().enumerate() {
            let usage_before = match wire::next(&mut stream).await {
                Ok(News::Ready { usage }) => usage,
                Ok(News::Failed { why }) => bail!("worker {}: {why}", worker + 1),
                _ => bail!("worker {} is gone before the run began", worker + 1),
            };
            let (reader, orders) = stream.into_split();
            tokio::spawn(hear(worker, reader, sender.clone()));
            members.push(Member { orders, usage_before, state: State::Working });
        }
        Ok(Self { _processes: processes, members, events })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn usages_before(&self) -> Vec<Usage> {
        self.members.iter().map(|member| member.usage_before).collect()
    }

    /// Tells all that are there.
    pub(super) async fn tell_all(&mut self, order: &Order) {
        let bytes = wire::encode(order).expect("an order is plain data");
        for member in &mut self.members {
            // Whoever does not hear it is noticed as lost.
            let _ = member.orders.write_all(&bytes).await;
        }
    }

    /// What a worker did, one after the other.
    pub(super) async fn next(&mut self) -> Event {
        let Some(event) = self.events.recv().await else { return std::future::pending().await };
        match &event {
            Event::News(worker, News::Done) => self.members[*worker].state = State::Done,
            Event::News(worker, News::Failed { .. }) | Event::Lost(worker) => {
                self.members[*worker].state = State::Lost;
            }
            Event::News(..) => {}
        }
        event
    }

    /// Whether nothing more is to be heard of anybody.
    pub(super) fn is_done(&self) -> bool {
        self.members.iter().all(|member| member.state != State::Working)
    }
}

fn spawn(mut address: SocketAddr) -> Result<Child> {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let program = env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command.args(["worker", "--coordinator", &address.to_string()]);
    // Ctrl-C on a terminal is for the coordinator alone.
    command.process_group(0).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("starting a worker")
}

/// Passes on what a worker tells, until it is gone.
async fn hear(worker: usize, mut reader: OwnedReadHalf, sender: mpsc::Sender<Event>) {
    while let Ok(news) = wire::next(&mut reader).await {
        if sender.send(Event::News(worker, news)).await.is_err() {
            return;
        }
    }
    // If nobody listens any more, the run is over.
    let _ = sender.send(Event::Lost(worker)).await;
}

async fn hellos(listener: &TcpListener, count: usize) -> Result<Vec<Candidate>> {
    let mut candidates = Vec::new();
    while candidates.len() < count {
        let (mut stream, from) = listener.accept().await.context("waiting for workers")?;
        stream.set_nodelay(true)?;
        let News::Hello { version, files, .. } = wire::next(&mut stream).await? else {
            bail!("{from} is no worker");
        };
        ensure!(
            version == VERSION,
            "the worker at {from} is of version {version}, and this is {VERSION}: use the same"
        );
        let is_here = from.ip() == stream.local_addr()?.ip();
        candidates.push(Candidate { stream, is_here, connections_max: files });
    }
    Ok(candidates)
}
