//! The virtual sessions, and the loop that is all their clients at once: each turn it lets come, leave
//! and beat who is due, and takes what sessions have for their clients.
//!
//! A session that has something for its client wakes its waker, as it would wake a socket's task. Here
//! all wakers write into one list, which is worked off each turn.

mod churn;
mod knocks;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use presence::{Request, Session, Veils, Work};
use tokio::select;
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::sim::gateways::Gateways;
use crate::sim::plan::Plan;
use crate::sim::seen::{self, Online};
use crate::sim::tally::Tally;
use crate::sim::turns::{Turn, Turns};
use churn::Churn;
use knocks::Knocks;

/// More would make the turns late in which heartbeats are given.
const JOINS_PER_TURN: u32 = 1_000;

/// Watches that may wait for their answer: each is a read of its own.
const WATCHES_OPEN_MAX: u64 = 1_000;

/// All sessions.
pub(crate) struct Crowd<'a> {
    plan: &'a Plan,
    gateways: &'a Gateways,
    tally: &'a Tally,
    seats: Vec<Seat>,
    online: Online,
    knocks: Arc<Knocks>,
    turns: Turns<'a>,
    churn: Option<Churn>,
}

/// One user's place.
#[derive(Default)]
struct Seat {
    session: Option<Session>,
    times_left: u32,
}

impl<'a> Crowd<'a> {
    /// Nobody has come yet.
    pub(crate) fn new(plan: &'a Plan, gateways: &'a Gateways, tally: &'a Tally) -> Self {
        Self {
            plan,
            gateways,
            tally,
            seats: (0..plan.sessions).map(|_| Seat::default()).collect(),
            online: Online::nobody_of(plan.sessions),
            knocks: Arc::default(),
            turns: Turns::begin(plan, tally),
            churn: None,
        }
    }

    /// Lets everybody in, and waits until the store was told.
    pub(crate) async fn join_all(&mut self) {
        let sessions = self.plan.sessions;
        for first in (0..sessions).step_by(JOINS_PER_TURN as usize) {
            self.turn().await;
            for index in first..sessions.min(first + JOINS_PER_TURN) {
                self.enter(index, Instant::now());
            }
        }
        let gateways = self.gateways;
        self.go_on_during(gateways.wait_until_told()).await;
    }

    /// Has everybody watch, and waits for the answers.
    pub(crate) async fn watch_all(&mut self) {
        if self.plan.watch == 0 {
            return;
        }
        for index in 0..self.plan.sessions {
            while u64::from(index).saturating_sub(self.tally.watching.get()) >= WATCHES_OPEN_MAX {
                self.turn().await;
            }
            self.watch(index);
        }
        while self.tally.watching.get() < u64::from(self.plan.sessions) {
            self.turn().await;
        }
    }

    /// From now on sessions leave and come back, as planned.
    pub(crate) fn begin_churn(&mut self) {
        self.churn = Some(Churn::begin(self.plan, Instant::now()));
    }

    /// Nobody leaves any more; ends when all who left are back.
    pub(crate) async fn end_churn(&mut self) {
        if let Some(churn) = &mut self.churn {
            churn.stop();
        }
        while self.churn.as_ref().is_some_and(Churn::is_anybody_away) {
            self.turn().await;
        }
        let gateways = self.gateways;
        self.go_on_during(gateways.wait_until_told()).await;
    }

    /// Clients go on for as long as something else lasts.
    pub(crate) async fn go_on_during<T>(&mut self, act: impl Future<Output = T>) -> T {
        let mut act = pin!(act);
        loop {
            select! {
                biased;
                done = &mut act => return done,
                () = self.turn() => {}
            }
        }
    }

    /// Waits until the next turn is due, and does it.
    async fn turn(&mut self) {
        let Turn { now, due, is_behind } = self.turns.next().await;
        self.beat(due);
        self.move_some(now);
        for index in self.knocks.take() {
            self.answer(index);
        }
        if is_behind {
            // Whoever else runs on this thread would not get a turn.
            yield_now().await;
        }
    }

    fn beat(&self, due: impl Iterator<Item = u32>) {
        let mut beats = 0;
        for index in due {
            if let Some(session) = &self.seats[index as usize].session {
                session.heard();
                beats += 1;
            }
        }
        self.tally.beats.add(beats);
    }

    fn move_some(&mut self, now: Instant) {
        let Some(mut churn) = self.churn.take() else { return };
        while let Some(index) = churn.next_back(now) {
            self.enter(index, now);
            self.watch(index);
            self.tally.moves.add(1);
        }
        while let Some((index, farewell)) = churn.next_leaving(now) {
            let seat = &mut self.seats[index as usize];
            let Some(session) = seat.session.take() else { continue };
            seat.times_left += 1;
            self.online.leave(index);
            farewell.say(session);
            churn.note_away(index, now);
            self.tally.moves.add(1);
        }
        self.churn = Some(churn);
    }

    fn enter(&mut self, index: u32, now: Instant) {
        let seat = &mut self.seats[index as usize];
        seat.session = Some(self.gateways.join(index, seat.times_left));
        self.online.come(index, now);
        self.answer(index);
    }

    fn watch(&self, index: u32) {
        if self.plan.watch > 0
            && let Some(session) = &self.seats[index as usize].session
        {
            let users = self.plan.watched_by(index);
            self.gateways.request(session, Request::Watch { users, veils: Veils::new(), id: None });
        }
    }

    /// Takes what a session has for its client, and is to be woken when it has more.
    fn answer(&mut self, index: u32) {
        let seat = &mut self.seats[index as usize];
        let Some(session) = &seat.session else { return };
        let waker = Knocks::waker(&self.knocks, index);
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(work) = session.poll_work(&mut cx) {
            match work {
                Work::Frame(frame) => {
                    seen::take_in(&frame, Instant::now(), &self.online, self.tally);
                }
                // The Pong is a sign of life.
                Work::Ping => session.heard(),
                // Nobody orders anything here.
                Work::Recheck => {}
                Work::Close(reason) => {
                    self.tally.troubles.add(format!("closed: {}", reason.label()));
                    self.online.leave(index);
                    seat.session = None;
                    return;
                }
            }
        }
    }
}
