//! The workers of a run: started or waited for, given their shares, told, and heard.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::coordinator::hellos::hellos;
use crate::coordinator::merge::SECONDS_BEHIND_MAX;
use crate::coordinator::shares::Shares;
use crate::ledger;
use crate::measures::micros;
use crate::plan::Plan;
use crate::process::Usage;
use crate::wire::{self, Begin, News, Order};

/// How long a worker of this host may take to be there.
const START_LIMIT: Duration = Duration::from_secs(30);

/// What is told and not yet taken in; then workers wait.
const NEWS_MAX: usize = 1_024;

/// A worker tells something each second. One that does not for so long hangs, or its host is gone.
const QUIET_SECS_MAX: u32 = 1 + SECONDS_BEHIND_MAX;

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
    is_here: bool,
    usage_before: Usage,
    state: State,
    /// Seconds since it told anything.
    quiet_secs: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Working,
    Done,
    Lost,
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
            let here = if address.ip().is_unspecified() {
                format!("HOST:{}", address.port())
            } else {
                address.to_string()
            };
            eprintln!(
                "Waiting for {} workers: presence-loadtest worker --coordinator {here}",
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
        // Its name goes when this returns, and all have opened it by then. Only a coordinator that is
        // killed before leaves it behind.
        let ledger = ledger::create(shares.here().end).context("making the ledger")?;
        let mut streams = Vec::new();
        for (worker, mut candidate) in (0..).zip(candidates) {
            let assignment = shares.assignment(plan, worker, &candidate, &ledger)?;
            let order = wire::encode(&Order::Assign(Box::new(assignment)))?;
            candidate.stream.write_all(&order).await?;
            streams.push((candidate.stream, candidate.is_here));
        }
        let (sender, events) = mpsc::channel(NEWS_MAX);
        let mut members = Vec::new();
        for (worker, (mut stream, is_here)) in streams.into_iter().enumerate() {
            let usage_before = match wire::next(&mut stream).await {
                Ok(News::Ready { usage }) => usage,
                Ok(News::Failed { why }) => bail!("worker {}: {why}", worker + 1),
                _ => bail!("worker {} is gone before the run began", worker + 1),
            };
            let (reader, orders) = stream.into_split();
            tokio::spawn(hear(worker, reader, sender.clone()));
            let state = State::Working;
            members.push(Member { orders, is_here, usage_before, state, quiet_secs: 0 });
        }
        Ok(Self { _processes: processes, members, events })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn usages_before(&self) -> Vec<Usage> {
        self.members.iter().map(|member| member.usage_before).collect()
    }

    /// Tells all when the run begins, or began.
    pub(super) async fn begin(&mut self, began: Instant, epoch_unix: Duration) {
        for member in &mut self.members {
            let order = if member.is_here {
                Begin::At { epoch_unix_us: micros(epoch_unix) }
            } else {
                Begin::In { us: micros(began.saturating_duration_since(Instant::now())) }
            };
            member.tell(&Order::Begin(order)).await;
        }
    }

    /// Tells all to compare their views and say so.
    pub(super) async fn stop(&mut self) {
        for member in &mut self.members {
            member.tell(&Order::Stop).await;
        }
    }

    /// What a worker did, one after the other.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            let Some(event) = self.events.recv().await else { return std::future::pending().await };
            let (Event::News(worker, _) | Event::Lost(worker)) = event;
            let member = &mut self.members[worker];
            if member.state == State::Lost {
                continue;
            }
            member.quiet_secs = 0;
            match &event {
                Event::News(_, News::Done) => member.state = State::Done,
                Event::News(_, News::Failed { .. }) | Event::Lost(_) => member.state = State::Lost,
                Event::News(..) => {}
            }
            return event;
        }
    }

    /// To be called each second of a run: those that told nothing for too long are lost. Seconds in
    /// which the coordinator itself was stopped are not counted.
    pub(super) fn lose_quiet(&mut self) -> Vec<usize> {
        self.members.iter_mut().for_each(|member| member.quiet_secs += 1);
        self.lose(|member| member.quiet_secs > QUIET_SECS_MAX)
    }

    /// All that did not say that they are done are lost.
    pub(super) fn lose_working(&mut self) -> Vec<usize> {
        self.lose(|_| true)
    }

    fn lose(&mut self, is_lost: impl Fn(&Member) -> bool) -> Vec<usize> {
        let mut lost = Vec::new();
        for (worker, member) in self.members.iter_mut().enumerate() {
            if member.state == State::Working && is_lost(member) {
                member.state = State::Lost;
                lost.push(worker);
            }
        }
        lost
    }

    /// Whether nothing more is to be heard of anybody.
    pub(super) fn is_done(&self) -> bool {
        self.members.iter().all(|member| member.state != State::Working)
    }
}

impl Member {
    async fn tell(&mut self, order: &Order) {
        let bytes = wire::encode(order).expect("an order is plain data");
        // Whoever does not hear it is noticed as lost.
        let _ = self.orders.write_all(&bytes).await;
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    /// A worker of this host, one of another, and what each reads and writes.
    async fn crew() -> (Crew, [TcpStream; 2]) {
        let (sender, events) = mpsc::channel(NEWS_MAX);
        let mut members = Vec::new();
        let mut far_ends = Vec::new();
        for (worker, is_here) in [true, false].into_iter().enumerate() {
            let (near, far) = connected().await;
            let (reader, orders) = near.into_split();
            tokio::spawn(hear(worker, reader, sender.clone()));
            let usage_before = Usage::default();
            let state = State::Working;
            members.push(Member { orders, is_here, usage_before, state, quiet_secs: 0 });
            far_ends.push(far);
        }
        let crew = Crew { _processes: Vec::new(), members, events };
        (crew, far_ends.try_into().unwrap())
    }

    async fn say(stream: &mut TcpStream, news: &News) {
        stream.write_all(&wire::encode(news).unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn a_worker_that_tells_nothing_any_more_is_lost_and_not_heard_again() {
        let (mut crew, [mut one, mut other]) = crew().await;
        for _ in 0..QUIET_SECS_MAX {
            assert!(crew.lose_quiet().is_empty());
            say(&mut one, &News::Ready { usage: Usage::default() }).await;
            assert!(matches!(crew.next().await, Event::News(0, _)));
        }
        assert_eq!(crew.lose_quiet(), [1]);
        say(&mut other, &News::Done).await;
        tokio::task::yield_now().await;
        say(&mut one, &News::Done).await;
        assert!(matches!(crew.next().await, Event::News(0, News::Done)));
        assert!(crew.is_done());
        assert!(crew.lose_working().is_empty());
    }

    #[tokio::test]
    async fn who_does_not_say_that_it_is_done_is_lost() {
        let (mut crew, [mut one, _other]) = crew().await;
        say(&mut one, &News::Done).await;
        crew.next().await;
        assert!(!crew.is_done());
        assert_eq!(crew.lose_working(), [1]);
        assert!(crew.is_done());
    }

    #[tokio::test]
    async fn only_workers_of_this_host_go_by_its_clock() {
        let (mut crew, [mut here, mut elsewhere]) = crew().await;
        let until_begin = Duration::from_secs(5);
        crew.begin(Instant::now() + until_begin, Duration::from_secs(70)).await;
        let order = wire::next(&mut here).await.unwrap();
        assert!(
            matches!(order, Order::Begin(Begin::At { epoch_unix_us: 70_000_000 })),
            "{order:?}"
        );
        let order = wire::next(&mut elsewhere).await.unwrap();
        let Order::Begin(Begin::In { us }) = order else { panic!("{order:?}") };
        assert!((1..=micros(until_begin)).contains(&us), "{us}");
    }
}
