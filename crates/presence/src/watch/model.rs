//! One watched user through random histories: a store that follows the hold rule, news that is late, lost, repeated and
//! out of order, and the grace queue that asks the store when a loss is due. What watchers are shown is held to what the
//! store showed.

mod truth;

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{
    Availability, Device, Format, GatewayMessage, UserState, encode_gateway, presence_frame,
};
use tokio::time::Instant;

use super::WatchTable;
use crate::relay::grace::Grace;
use crate::session::outbox::ConnId;
use crate::store::Standing;
use truth::{NO_TRACE_MS, Truth, bo};

const GRACE_MS: u64 = 3_000;
const TTL_MS: u64 = 30_000;
const LOOKS: [&[&str]; 5] = [&[], &["ios"], &["web"], &["ios", "web"], &["tv"]];

/// How well news travels.
#[derive(Clone, Copy)]
struct Link {
    /// How long news and answers take, at most.
    delay_max_ms: u64,
    /// Of ten transitions so many never arrive.
    lost_of_ten: u8,
    /// The store may restart empty, once.
    restarts: bool,
}

struct History {
    seed: u64,
    random: Rng,
    link: Link,
    truth: Truth,
    coming: Vec<(u64, Standing)>,
    start: Instant,
    now: u64,
    table: WatchTable,
    grace: Grace,
    watchers: BTreeSet<ConnId>,
    restarted: bool,
    /// How often the store was asked whether a loss that was due is one.
    asked: usize,
    /// A loss is held back here, and was not counted as a flap yet.
    holding: bool,
    flaps: usize,
}

impl History {
    fn new(seed: u64, link: Link) -> Self {
        let table = WatchTable::new(Duration::ZERO);
        table.enlist(&bo(), ConnId(0), &[]);
        Self {
            seed,
            random: Rng::with_seed(seed),
            link,
            truth: Truth::new(),
            coming: Vec::new(),
            start: Instant::now(),
            now: 0,
            table,
            grace: Grace::default(),
            watchers: BTreeSet::from([ConnId(0)]),
            restarted: false,
            asked: 0,
            holding: false,
            flaps: 0,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Somebody reads the store now; the answer comes some time later.
    fn read(&mut self) {
        let at = self.now + self.random.u64(..=self.link.delay_max_ms);
        self.coming.push((at, self.truth.standing(self.now)));
    }

    /// The store tells of a change.
    fn publish(&mut self) {
        if self.random.u8(..10) >= self.link.lost_of_ten {
            self.read();
        }
    }

    fn act(&mut self) {
        let held_until = self.truth.held(self.now).map(|(until, _)| *until);
        let look = LOOKS[self.random.usize(..LOOKS.len())];
        let hold_ms = [GRACE_MS, GRACE_MS, TTL_MS][self.random.usize(..3)];
        match self.random.u8(..8) {
            // A loss, of all devices or some: only of what is shown.
            0..=2 if self.truth.shown(self.now).is_online() => {
                self.truth.change(self.now, look, self.now + hold_ms);
            }
            // Deliberate, or coming back.
            0..=3 => self.truth.change(self.now, look, self.now),
            // Coming back as before, or in part.
            4 | 5 if held_until.is_some() => {
                let look = if self.random.bool() { LOOKS[3] } else { look };
                self.truth.change(self.now, look, held_until.unwrap_or_default());
            }
            6 if held_until.is_some() => {
                let later_ms = if self.random.bool() { 0 } else { 1_000 };
                self.truth.release(self.now + later_ms);
            }
            // Not before bo is known: who is asked for the first time is shown as the store says.
            7 if self.link.restarts && !self.restarted && self.table.state(&bo()).is_some() => {
                self.restarted = true;
                self.truth.restart(self.now);
                // What was on its way is lost with the connection.
                self.coming.clear();
                return self.read();
            }
            _ => {
                let conn = ConnId(self.random.u32(1..5));
                if self.watchers.insert(conn) {
                    self.table.enlist(&bo(), conn, &[]);
                } else {
                    self.watchers.remove(&conn);
                    self.table.unwatch(self.table.find(&bo()).unwrap(), conn);
                }
                return self.read();
            }
        }
        self.publish();
    }

    /// Time passes: what comes meanwhile is taken over, and what falls due is confirmed, as the relay does.
    fn pass(&mut self, end: u64) {
        loop {
            let next_due = self.grace.next_due().map(|due| (due - self.start).as_millis() as u64);
            let next_news = self.coming.iter().map(|(at, _)| *at).min();
            let Some(next) = next_due.into_iter().chain(next_news).min().filter(|at| *at <= end)
            else {
                self.now = end;
                return;
            };
            self.now = next;
            let due = self.grace.take_due(self.at(next));
            if !self.table.due_of(&due, self.at(next)).is_empty() {
                self.asked += 1;
                assert!(self.asked < 1000, "seed {}: asks without end", self.seed);
                self.read();
            }
            if let Some(at) = self.coming.iter().position(|(at, _)| *at <= next) {
                let (_, standing) = self.coming.swap_remove(at);
                self.hear(&standing);
            }
        }
    }

    fn hear(&mut self, standing: &Standing) {
        let (before, now) = (self.table.state(&bo()), self.at(self.now));
        let (user, absorbed) = self.table.learn(standing, now, now).unwrap();
        if let Some(due) = absorbed.hold {
            self.grace.hold(user, due);
        }
        self.flaps += usize::from(absorbed.flap);
        let shown = self.table.state(&bo()).unwrap();
        let what = || format!("seed {}, {} ms: {before:?}, then {shown:?}", self.seed, self.now);

        let version = before.as_ref().map_or(0, |before| before.version);
        assert!(shown.version >= version, "moved backwards: {}", what());
        let showable = self.truth.showable.get(&shown.version);
        let Some((from, view)) = showable else { panic!("never to be shown: {}", what()) };
        assert_eq!(shown, view.to_state(bo()), "not what the store showed: {}", what());
        if !standing.view.is_no_trace() && *standing == self.truth.standing(self.now) {
            let truth = self.truth.shown(self.now).to_state(bo());
            assert_eq!(shown, truth, "not what the store shows: {}", what());
        }

        let changed = before.as_ref().is_none_or(|before| look(before) != look(&shown));
        assert!(!changed || *from <= self.now, "shown before {from} ms: {}", what());

        let told: BTreeSet<ConnId> = absorbed.tell.iter().copied().collect();
        // The first that is known answers those who watch, and is no news.
        let is_news = changed && before.is_some();
        let watchers = if is_news { self.watchers.clone() } else { BTreeSet::new() };
        assert_eq!((&told, told.len()), (&watchers, absorbed.tell.len()), "told: {}", what());
        assert!(!absorbed.flap || (self.holding && !changed), "no hidden flap: {}", what());
        self.holding = absorbed.hold.is_some() || (self.holding && !changed && !absorbed.flap);
        let users = vec![shown.clone()];
        let frame = presence_frame(&self.table.states(&[user], Format::Json));
        let encoded = encode_gateway(Format::Json, &GatewayMessage::Presence { users });
        assert_eq!(frame, encoded, "encoded: {}", what());
    }

    fn run(&mut self) {
        self.publish();
        for _ in 0..self.random.usize(1..40) {
            self.act();
            let end = self.now + self.random.u64(..5_000);
            self.pass(end);
        }
        if self.link.lost_of_ten > 0 {
            self.read();
        }
        // News, then the question whether it is so, then the answer.
        let answer = 2 * self.link.delay_max_ms;
        let until = self.truth.held(self.now).map_or(self.now, |(until, _)| *until);
        // A loss from before a restart is held to its end, and asked for once more.
        let forgotten = if self.restarted { TTL_MS + NO_TRACE_MS + answer } else { 0 };
        self.pass(until + answer + forgotten);
        let (shown, truth) = (self.table.state(&bo()), self.truth.shown(self.now).to_state(bo()));
        assert_eq!(shown, Some(truth), "seed {}: not the truth in time", self.seed);
    }
}

/// What a watcher could tell apart.
fn look(state: &UserState) -> (Availability, Vec<Device>) {
    (state.state, state.devices.clone())
}

#[test]
fn news_without_delay_is_shown_as_the_store_shows_it_and_every_flap_is_counted_once() {
    for seed in 0..700 {
        let link = Link { delay_max_ms: 0, lost_of_ten: 0, restarts: false };
        let mut history = History::new(seed, link);
        history.run();
        assert_eq!(history.flaps, history.truth.flaps, "seed {seed}");
    }
}

#[test]
fn news_that_is_late_and_out_of_order_shows_no_loss_early_and_ends_at_the_truth() {
    for seed in 0..700 {
        let link = Link { delay_max_ms: 2_000, lost_of_ten: 0, restarts: false };
        History::new(seed, link).run();
    }
}

#[test]
fn news_that_is_lost_is_made_good_by_the_next_read() {
    for seed in 0..700 {
        History::new(seed, Link { delay_max_ms: 2_000, lost_of_ten: 4, restarts: false }).run();
    }
}

#[test]
fn a_store_that_restarts_empty_shows_nobody_offline_at_once() {
    for seed in 0..700 {
        History::new(seed, Link { delay_max_ms: 500, lost_of_ten: 0, restarts: true }).run();
    }
}
