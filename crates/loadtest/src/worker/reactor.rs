//! The one loop of a worker: what its sockets tell, and what is due, one after the other.
//!
//! Nothing here waits but `poll`, and nothing is allocated for a connection that is idle.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use mio::{Events, Poll, Registry, Token};

use crate::ledger::Ledger;
use crate::measures::{Count, Measures, Timing};
use crate::process::Usage;
use crate::scenario::Beat;
use crate::wire::{News, Order, SecondOfWorker};
use crate::worker::beats::Beats;
use crate::worker::connection::{Connection, Stage};
use crate::worker::judge::Rules;
use crate::worker::moments::Moments;
use crate::worker::socket::Socket;
use crate::worker::turns::{Turns, Wait};
use crate::worker::views::Views;
use crate::worker::world::{Clock, World};

/// Means that an order came; connections have the numbers from 0 on.
pub(super) const ORDER: Token = Token(usize::MAX);

const EVENTS_PER_TURN: usize = 1_024;

/// Of each kind that is due.
const ACTS_PER_TURN: usize = 1_024;

/// What is read at once; more only while a longer message comes.
const INBOX_LEN: usize = 64 * 1024;

const SECOND_US: u64 = 1_000_000;

/// What is to be done with a connection later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Later {
    Return,
    Thaw,
    /// To another gateway, as this one asked.
    Move,
    /// A `watch` that was refused for now.
    Watch,
}

/// A worker in its run.
pub(super) struct Worker {
    pub(super) world: World,
    pub(super) clock: Clock,
    pub(super) registry: Registry,
    pub(super) connections: Vec<Connection>,
    pub(super) ledger: Ledger,
    pub(super) rules: Rules,
    pub(super) measures: Measures,
    pub(super) rng: Rng,
    /// Shared by all connections.
    pub(super) inbox: Vec<u8>,
    pub(super) outbox: Vec<u8>,
    /// When opening must be over, in order, with the moment it was due by which it is known again.
    pub(super) opening: VecDeque<(u64, u32, u64)>,
    pub(super) later: BinaryHeap<Reverse<(u64, u32, Later)>>,
    pub(super) turns: Turns,
    /// The ledger could not be read or written.
    pub(super) fault: Option<io::Error>,
    beats: Beats,
    moments: Moments,
    next_first: u32,
    next_second_us: u64,
}

/// What a worker has made ready before the run begins.
pub(super) struct Prepared {
    connections: Vec<Connection>,
    beats: Beats,
    moments: Moments,
    rng: Rng,
}

impl Prepared {
    pub(super) fn new(world: &World) -> Self {
        let scenario = &world.scenario;
        let mut rng = Rng::with_seed(scenario.seed ^ u64::from(world.worker) << 32);
        let count = world.connections();
        let views = |index| Views::new(world.contacts.of(world.user_of(index)));
        let beats = match scenario.heartbeat.kind {
            Beat::Pong => Beats::none(),
            Beat::Ping | Beat::Message => {
                let starts = (0..count).map(|index| world.first_due_us(index));
                Beats::new(starts, scenario.heartbeat.interval.us(), rng.fork())
            }
        };
        Self {
            connections: (0..count).map(|index| Connection::new(views(index))).collect(),
            beats,
            moments: Moments::new(scenario, world.worker, world.workers, rng.fork()),
            rng,
        }
    }
}

impl Worker {
    pub(super) fn new(
        world: World,
        prepared: Prepared,
        ledger: Ledger,
        clock: Clock,
        registry: Registry,
    ) -> Self {
        let Prepared { connections, beats, moments, rng } = prepared;
        Self {
            world,
            clock,
            registry,
            connections,
            ledger,
            rules: Rules::default(),
            measures: Measures::default(),
            rng,
            inbox: vec![0; INBOX_LEN],
            outbox: Vec::new(),
            opening: VecDeque::new(),
            later: BinaryHeap::new(),
            turns: Turns::default(),
            fault: None,
            beats,
            moments,
            next_first: 0,
            next_second_us: SECOND_US,
        }
    }

    /// Runs until it is told to stop. `tell` gets what each second brought.
    pub(super) fn run(
        &mut self,
        poll: &mut Poll,
        orders: &Receiver<Order>,
        mut tell: impl FnMut(News) -> Result<()>,
    ) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        loop {
            let (due_us, from_us) = (self.next_due_us(), self.clock.now_us());
            let until_due = Duration::from_micros(due_us.saturating_sub(from_us));
            match poll.poll(&mut events, Some(until_due)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error).context("waiting for sockets");
                }
                _ => {}
            }
            let is_full = events.iter().count() >= EVENTS_PER_TURN;
            self.turns.begin(Wait { from_us, due_us, to_us: self.clock.now_us(), is_full });
            for event in &events {
                if event.token() != ORDER {
                    self.on_event(event.token().0 as u32, event);
                }
            }
            self.do_what_is_due();
            if let Some(fault) = self.fault.take() {
                return Err(fault).context("the ledger");
            }
            while self.clock.now_us() >= self.next_second_us {
                let at_s = (self.next_second_us / SECOND_US) as u32;
                self.next_second_us += SECOND_US;
                tell(self.second(at_s)?)?;
            }
            match orders.try_recv() {
                Err(TryRecvError::Empty) | Ok(Order::Assign(_) | Order::Begin(_)) => {}
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => break,
            }
        }
        self.compare_views();
        let at_s = (self.next_second_us / SECOND_US) as u32;
        tell(self.second(at_s)?)
    }

    fn on_event(&mut self, index: u32, event: &mio::event::Event) {
        let connection = &self.connections[index as usize];
        match connection.stage {
            Stage::Connecting => self.on_connected(index),
            Stage::Away | Stage::Silent | Stage::Gone => {}
            // What comes is read when it thaws, but for an end that comes too early.
            Stage::Frozen => {
                let (now_us, alive_us) = (self.clock.now_us(), connection.alive_us);
                if event.is_read_closed() && !self.rules.is_ttl_over(alive_us, now_us) {
                    self.read(index, now_us);
                    self.read(index, now_us);
                }
            }
            Stage::Upgrading | Stage::Greeting | Stage::Live | Stage::Leaving => {
                let now_us = self.clock.now_us();
                // A handshake may have waited for what can be read now.
                let is_encrypted = connection.socket.as_ref().is_some_and(Socket::is_encrypted);
                if (event.is_writable() || is_encrypted) && connection.is_stuck() {
                    self.flush(index, now_us);
                }
                // And a write that found no room may have read.
                if event.is_readable() || event.is_read_closed() || event.is_error() || is_encrypted
                {
                    self.read(index, now_us);
                }
                if event.is_read_closed() {
                    self.read(index, now_us);
                }
            }
        }
    }

    fn next_due_us(&self) -> u64 {
        let next = [
            Some(self.next_second_us),
            self.next_first_due_us(),
            self.opening.front().map(|next| next.0),
            self.later.peek().map(|next| next.0.0),
            self.beats.next_due_us(),
            self.moments.next_due_us(),
        ];
        next.into_iter().flatten().min().unwrap_or_default()
    }

    fn next_first_due_us(&self) -> Option<u64> {
        let is_left = (self.next_first as usize) < self.connections.len();
        is_left.then(|| self.world.first_due_us(self.next_first))
    }

    /// When it is behind, what is left comes after sockets were read and orders heard.
    fn do_what_is_due(&mut self) {
        let now_us = self.clock.now_us();
        for _ in 0..ACTS_PER_TURN {
            let due_us = self.next_first_due_us().filter(|due_us| *due_us <= now_us);
            let Some(due_us) = due_us else { break };
            let index = self.next_first;
            self.next_first += 1;
            self.open(index, due_us);
        }
        for _ in 0..ACTS_PER_TURN {
            let Some((due_us, deed)) = self.moments.pop_due(now_us) else { break };
            self.measures.time(Timing::TesterLate, now_us - due_us);
            self.do_deed(deed, due_us);
        }
        for _ in 0..ACTS_PER_TURN {
            let later = self.later.peek().filter(|later| later.0.0 <= now_us);
            let Some(&Reverse((due_us, index, later))) = later else { break };
            self.later.pop();
            match later {
                Later::Return => self.open(index, due_us),
                Later::Thaw => self.thaw(index),
                Later::Move => self.move_on(index, due_us),
                Later::Watch => self.watch_again(index, now_us),
            }
        }
        for _ in 0..ACTS_PER_TURN {
            let Some((index, due_us)) = self.beats.pop_due(now_us) else { break };
            self.beat(index, due_us);
        }
        self.give_up_openings(now_us);
    }

    fn second(&mut self, at_s: u32) -> Result<News> {
        let count = |is_so: fn(&Connection) -> bool| {
            self.connections.iter().filter(|connection| is_so(connection)).count() as u64
        };
        let gone = count(|one| matches!(one.stage, Stage::Gone | Stage::Silent));
        let open = count(|one| matches!(one.stage, Stage::Live | Stage::Frozen));
        let connecting = count(Connection::is_opening);
        Ok(News::Second(Box::new(SecondOfWorker {
            at_s,
            growth: self.measures.take(),
            usage: Usage::of_this_process()?,
            alive: self.connections.len() as u64 - gone,
            open,
            connecting,
            ttl_ms: self.rules.ttl_us / 1_000,
            grace_ms: self.rules.grace_us / 1_000,
        })))
    }

    pub(super) fn connection(&mut self, index: u32) -> &mut Connection {
        &mut self.connections[index as usize]
    }

    pub(super) fn do_later(&mut self, due_us: u64, index: u32, later: Later) {
        self.later.push(Reverse((due_us, index, later)));
    }

    pub(super) fn count(&mut self, count: Count) {
        self.measures.count(count);
    }
}
