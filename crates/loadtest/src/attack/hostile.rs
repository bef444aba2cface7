//! The process of the hostile: so many peers, and so much that they do in a second, all together. What their sockets come
//! to is counted, and told when the time is over.

use std::collections::BTreeMap;
use std::io::stdout;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use rustix::process::setpriority_process;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::Gateway;
use super::args::{AttackerArgs, Kind};
use crate::tally::{Count, Kinds};

/// Whatever else runs goes first.
const NICE: i32 = 19;

/// How often turns are given out, and for how long they may be saved up.
const TICK: Duration = Duration::from_millis(10);
const SAVED_MAX: Duration = Duration::from_millis(100);

/// A gateway takes 50 frames a second of a socket unless it is told otherwise: whoever floods sends this many.
const FLOOD_PER_SECOND: f64 = 150.0;

/// What an attack came to.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Came {
    pub(crate) acts: u64,
    /// How sockets ended, and how often.
    pub(crate) answered: BTreeMap<String, u64>,
}

pub(super) struct Attacker {
    pub(super) kind: Kind,
    pub(super) gateway: Gateway,
    pub(super) peers: u32,
    pub(super) end: Instant,
    turns: Semaphore,
    acts: Count,
    answered: Kinds,
}

/// Attacks for as long as it is told.
pub(crate) fn attacker(args: &AttackerArgs) -> Result<ExitCode> {
    // Where that is not allowed, they take their turns like all others.
    let _ = setpriority_process(None, NICE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let came = runtime.block_on(async {
        let attacker = Attacker::new(args)?;
        attacker.attack(args.force.rate.per_second()).await;
        anyhow::Ok(Came { acts: attacker.acts.get(), answered: attacker.answered.snapshot() })
    });
    serde_json::to_writer(stdout(), &came?)?;
    Ok(ExitCode::SUCCESS)
}

impl Attacker {
    fn new(args: &AttackerArgs) -> Result<Self> {
        let sockets = args.force.sockets;
        let peers = match args.kind {
            Kind::Pings | Kind::TinyFrames | Kind::Fragments | Kind::WatchStorms => {
                let floods = args.force.rate.per_second() / FLOOD_PER_SECOND;
                (floods as u32).clamp(1, sockets)
            }
            _ => sockets,
        };
        Ok(Self {
            kind: args.kind,
            gateway: Gateway::of(&args.force, sockets)?,
            peers,
            end: Instant::now() + args.force.during.0,
            turns: Semaphore::new(0),
            acts: Count::default(),
            answered: Kinds::default(),
        })
    }

    async fn attack(&self, rate: f64) {
        let peers = join_all((0..self.peers).map(|number| self.live_again_and_again(number)));
        let all = async { tokio::join!(self.give_turns(rate), peers) };
        // All sockets close as it is over.
        let _ = timeout(self.end.saturating_duration_since(Instant::now()), all).await;
    }

    async fn give_turns(&self, rate: f64) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut given, mut last) = (0.0, Instant::now());
        loop {
            ticks.tick().await;
            let passed = last.elapsed().min(SAVED_MAX);
            last = Instant::now();
            given += rate * passed.as_secs_f64();
            let room = (rate * SAVED_MAX.as_secs_f64()).max(1.0) as usize;
            let turns = (given as usize).min(room.saturating_sub(self.turns.available_permits()));
            self.turns.add_permits(turns);
            given = given.fract();
        }
    }

    /// Waits for a turn to do something.
    pub(super) async fn turn(&self) {
        let turn = self.turns.acquire().await.expect("it is never closed");
        turn.forget();
        self.acts.add(1);
    }

    async fn live_again_and_again(&self, number: u32) {
        loop {
            self.turn().await;
            let end = match self.live(number).await {
                Ok(()) => "it left by itself".to_owned(),
                Err(failure) => failure.to_string(),
            };
            self.answered.add(end);
        }
    }
}
