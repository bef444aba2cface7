//! A worker: one thread and one `poll` for as many connections as a process may have open files.
//!
//! It does its share of the scenario, whatever the gateway does, and tells the coordinator each
//! second what came of it. It has no runtime, no task, and no timer for any connection. A second
//! thread reads the coordinator's orders; when the coordinator is gone, the worker is as well.
//!
//! Read in this order: `world` (what it knows), `connection` (what it keeps for each), `moments`
//! and `beats` (what is due when), `turns` (how late it may be itself), `reactor` (the loop), `socket`, `opening`, `outbox`, `inbox`, `deeds`,
//! `standing` (what is true of its users), `judge` (what states are worth beside that). What is
//! pure: `moments`, `beats`, `turns`, `frames`, `views`, `judge`.

mod connection;
mod world;

mod beats;
mod moments;
mod turns;

mod reactor;

mod deeds;
pub(crate) mod frames;
mod inbox;
mod opening;
mod outbox;
mod socket;

mod judge;
mod standing;
mod views;

use std::io;
use std::net::TcpStream;
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use mio::{Poll, Waker};

use crate::args::WorkerArgs;
use crate::ledger::{self, Ledger};
use crate::limits::Limits;
use crate::measures::micros;
use crate::process::Usage;
use crate::wire::{self, Assignment, LedgerPlace, News, Order, VERSION};
use crate::worker::reactor::{ORDER, Prepared, Worker};
use crate::worker::world::{Clock, World};

pub(crate) use crate::worker::world::resolve;

/// How long a coordinator may take to listen.
const REACH_LIMIT: Duration = Duration::from_secs(30);

const REACH_AGAIN: Duration = Duration::from_millis(100);

/// Works for the coordinator until that is gone.
pub(crate) fn work(args: &WorkerArgs) -> Result<ExitCode> {
    let limits = Limits::of_this_process()?;
    let address = &args.coordinator;
    let mut stream = reach(address).with_context(|| format!("reaching {address}"))?;
    stream.set_nodelay(true)?;
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let files = limits.connections_max();
    let (version, measures) = (VERSION.to_owned(), wire::measures());
    wire::send(&mut stream, &News::Hello { version, measures, cores, files })?;
    if let Err(error) = take_part(&mut stream, &limits) {
        let why = format!("{error:#}");
        wire::send(&mut stream, &News::Failed { why })?;
        return Err(error);
    }
    loop {
        // The sockets stay until the orders' thread ends the process.
        thread::park();
    }
}

/// Waits for a coordinator that is started a little later.
fn reach(address: &str) -> io::Result<TcpStream> {
    let end = Instant::now() + REACH_LIMIT;
    loop {
        match TcpStream::connect(address) {
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < end =>
            {
                thread::sleep(REACH_AGAIN);
            }
            reached => return reached,
        }
    }
}

fn take_part(stream: &mut TcpStream, limits: &Limits) -> Result<()> {
    let usage = Usage::of_this_process()?;
    let Order::Assign(assignment) = wire::receive(stream).context("waiting for work")? else {
        bail!("the coordinator began with another order than work");
    };
    let ledger = open_ledger(&assignment).context("the ledger")?;
    let world = World::new(*assignment, limits)?;
    let prepared = Prepared::new(&world);
    wire::send(stream, &News::Ready { usage })?;
    let Order::Begin(begin) = wire::receive(stream).context("waiting to begin")? else {
        bail!("the coordinator gave another order than to begin");
    };
    let now_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch_unix_us = begin.epoch_unix_us(micros(now_unix));
    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), ORDER)?);
    let (sender, orders) = channel();
    let from = stream.try_clone()?;
    thread::spawn(move || read_orders(from, &sender, &waker));
    let clock = Clock::begin(epoch_unix_us);
    let registry = poll.registry().try_clone()?;
    let worker = Worker::new(world, prepared, ledger, clock, registry);
    run(worker, &mut poll, &orders, stream)
}

fn run(
    mut worker: Worker,
    poll: &mut Poll,
    orders: &Receiver<Order>,
    stream: &mut TcpStream,
) -> Result<()> {
    let tell = |news| wire::send(stream, &news).context("telling the coordinator");
    worker.run(poll, orders, tell)?;
    wire::send(stream, &News::Done)?;
    // Closing the sockets now would change what other workers still compare.
    std::mem::forget(worker);
    Ok(())
}

fn open_ledger(assignment: &Assignment) -> io::Result<Ledger> {
    let (world, own) = (assignment.world.clone(), assignment.users.clone());
    match &assignment.ledger {
        LedgerPlace::Shared(path) => Ledger::open(path, world, own),
        // Its name is gone at once, and it is as well when this process ends.
        LedgerPlace::Own => Ledger::open(ledger::create(world.len() as u32)?.path(), world, own),
    }
}

fn read_orders(mut from: TcpStream, sender: &Sender<Order>, waker: &Waker) {
    while let Ok(order) = wire::receive(&mut from) {
        let is_told = sender.send(order).is_ok() && waker.wake().is_ok();
        if !is_told {
            break;
        }
    }
    exit(0);
}
