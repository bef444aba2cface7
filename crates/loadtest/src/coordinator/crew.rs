//! The workers of a run: started or waited for, given their shares, told, and heard.

use std::env;
use std::ops::Range;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::ledger;
use crate::measures::micros;
use crate::plan::Plan;
use crate::process::Usage;
use crate::wire::{self, Assignment, LedgerPlace, News, Order, VERSION};

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
    members: Vec<Member>,
    events: mpsc::Receiver<Event>,
    _processes: Vec<Child>,
    _ledger: NamedTempFile,
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
struct Candidate {
    stream: TcpStream,
    is_here: bool,
    connections_max: u64,
}

impl Crew {
    /// Starts those of this host, waits for the others, and gives each its share. When this
    /// returns, all are ready.
    pub(super) async fn gather(plan: &Plan) -> Result<Self> {
        let listen = plan.listen;
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("--listen {listen}"))?;
        let address = listener.local_addr()?;
        let processes = (0..plan.workers).map(|_| spawn(address.port())).collect::<Result<_>>()?;
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
        let ledger = ledger::create(shares.here().end).context("making the ledger")?;
        let (sender, events) = mpsc::channel(NEWS_MAX);
        let mut members = Vec::new();
        let mut readers = Vec::new();
        for (worker, candidate) in (0..).zip(candidates) {
            let assignment = shares.assignment(plan, worker, &candidate, &ledger)?;
            let (reader, mut orders) = candidate.stream.into_split();
            orders.write_all(&wire::encode(&Order::Assign(Box::new(assignment)))?).await?;
            readers.push(reader);
            let usage_before = Usage::default();
            members.push(Member { orders, usage_before, state: State::Working });
        }
        for (worker, mut reader) in readers.into_iter().enumerate() {
            match wire::next(&mut reader).await {
                Ok(News::Ready { usage }) => members[worker].usage_before = usage,
                Ok(News::Failed { why }) => bail!("worker {}: {why}", worker + 1),
                _ => bail!("worker {} is gone before the run began", worker + 1),
            }
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Ok(news) = wire::next(&mut reader).await {
                    if sender.send(Event::News(worker, news)).await.is_err() {
                        return;
                    }
                }
                let _ = sender.send(Event::Lost(worker)).await;
            });
        }
        Ok(Self { members, events, _processes: processes, _ledger: ledger })
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

fn spawn(port: u16) -> Result<Child> {
    let program = env::current_exe().context("where this program is")?;
    let mut command = Command::new(program);
    command.args(["worker", "--coordinator", &format!("127.0.0.1:{port}")]);
    // Ctrl-C on a terminal is for the coordinator alone.
    command.process_group(0).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().context("starting a worker")
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
        let is_here = from.ip().is_loopback();
        candidates.push(Candidate { stream, is_here, connections_max: files });
    }
    Ok(candidates)
}

/// Which users are whose.
struct Shares {
    users: u32,
    workers: u32,
    here: u32,
}

impl Shares {
    fn new(plan: &Plan, here: usize) -> Self {
        let workers = plan.workers + plan.remote_workers;
        Self { users: plan.scenario.users, workers, here: here as u32 }
    }

    fn of(&self, worker: u32) -> Range<u32> {
        let until = |worker: u32| {
            (u64::from(self.users) * u64::from(worker) / u64::from(self.workers)) as u32
        };
        until(worker)..until(worker + 1)
    }

    /// All of this host, whose workers come first.
    fn here(&self) -> Range<u32> {
        0..if self.here == 0 { 0 } else { self.of(self.here - 1).end }
    }

    fn assignment(
        &self,
        plan: &Plan,
        worker: u32,
        candidate: &Candidate,
        ledger: &NamedTempFile,
    ) -> Result<Assignment> {
        let users = self.of(worker);
        let connections = users.len() as u64 * u64::from(plan.scenario.devices);
        ensure!(
            connections <= candidate.connections_max,
            "worker {} can hold {} connections, and its share is {connections}: use more workers",
            worker + 1,
            candidate.connections_max
        );
        let (world, place) = if candidate.is_here {
            (self.here(), LedgerPlace::Shared(ledger.path().to_owned()))
        } else {
            (users.clone(), LedgerPlace::Own)
        };
        ensure!(
            world.len() > plan.scenario.contacts.watched_max() as usize,
            "contacts: users of worker {} can watch at most the {} others of its host",
            worker + 1,
            world.len().saturating_sub(1)
        );
        Ok(Assignment {
            scenario: plan.scenario.clone(),
            worker,
            workers: self.workers,
            users,
            world,
            ledger: place,
            urls: plan.urls.clone(),
            origin: plan.origin,
            jwt_secret: plan.jwt_secret.clone(),
            connect_timeout_us: micros(plan.connect_timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_users_once_and_are_alike() {
        for (users, workers) in [(7, 3), (1_000_000, 55), (5, 5)] {
            let shares = Shares { users, workers, here: workers - 1 };
            let mut next = 0;
            for worker in 0..workers {
                let share = shares.of(worker);
                assert_eq!(share.start, next);
                assert!(share.len().abs_diff((users / workers) as usize) <= 1, "{share:?}");
                next = share.end;
            }
            assert_eq!(next, users);
            assert_eq!(shares.here().end, shares.of(workers - 1).start);
        }
    }
}
