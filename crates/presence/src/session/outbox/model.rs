//! Random marks, answers, unwatches and takes against a set of owed users and a list of answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use fastrand::Rng;
use presence_protocol::{CloseReason, Format, UserId};

use super::inner::{REPLIES_LEN_MAX, USERS_PER_FRAME, Welcome};
use super::{Due, Outbox};
use crate::clock::Tick;
use crate::watch::UserRef;

/// More than two frames carry.
const USERS: u32 = 600;

/// Every user's latest state, which is just a number, by the user's own.
type States = BTreeMap<UserRef, u64>;

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Frames are text: the users and their states, after the number of the answer that it is, if it is one.
fn frame(answer: Option<usize>, users: &[UserRef], states: &States) -> Bytes {
    let states: Vec<_> = users.iter().map(|user| (user, states[user])).collect();
    format!("{answer:?} {states:?}").into()
}

/// What the client is owed.
#[derive(Default)]
struct Model {
    watching: BTreeSet<UserRef>,
    owed: BTreeSet<UserRef>,
    replies: VecDeque<Bytes>,
    answers: usize,
    ping: bool,
    health: bool,
    draining: bool,
    welcome: Welcome,
}

impl Model {
    fn owes(&self) -> bool {
        match self.welcome {
            Welcome::Said => {}
            Welcome::Awaited => return self.ping,
            Welcome::Due => return true,
        }
        let small = self.ping || self.health || self.draining;
        small || !self.replies.is_empty() || !self.owed.is_disjoint(&self.watching)
    }

    /// The next thing to do, as text: the most urgent first.
    fn take(&mut self, states: &States) -> Option<String> {
        match self.welcome {
            Welcome::Said => {}
            Welcome::Awaited => {
                return std::mem::take(&mut self.ping).then(|| format!("{:?}", Due::Ping));
            }
            Welcome::Due => {
                self.welcome = Welcome::Said;
                return Some(format!("{:?}", Due::Welcome));
            }
        }
        if std::mem::take(&mut self.draining) {
            return Some(format!("{:?}", Due::Draining));
        }
        if std::mem::take(&mut self.health) {
            return Some(format!("{:?}", Due::Health));
        }
        if let Some(reply) = self.replies.pop_front() {
            return Some(format!("{:?}", Due::Frame(reply)));
        }
        self.owed.retain(|user| self.watching.contains(user));
        let users: Vec<UserRef> = self.owed.iter().copied().take(USERS_PER_FRAME).collect();
        if !users.is_empty() {
            self.owed.retain(|user| !users.contains(user));
            return Some(format!("{:?}", Due::Frame(frame(None, &users, states))));
        }
        std::mem::take(&mut self.ping).then(|| format!("{:?}", Due::Ping))
    }
}

struct History {
    seed: u64,
    random: Rng,
    outbox: Outbox,
    woken: Arc<Flag>,
    /// The client's task found nothing to do, and waits to be woken.
    waits: bool,
    states: States,
    model: Model,
}

impl History {
    fn new(seed: u64) -> Self {
        let states = (0..USERS).map(|number| (UserRef::for_test(number), 0)).collect();
        Self {
            seed,
            random: Rng::with_seed(seed),
            outbox: Outbox::new(UserId::new("ana").unwrap(), Format::Json, Tick(0)).unwelcomed(),
            woken: Arc::default(),
            waits: false,
            states,
            model: Model { welcome: Welcome::Awaited, ..Model::default() },
        }
    }

    fn user(&mut self) -> UserRef {
        UserRef::for_test(self.random.u32(..USERS))
    }

    /// Some users, in any order.
    fn users(&mut self) -> Vec<UserRef> {
        let share = self.random.u32(1..50);
        let mut users: Vec<_> = self.states.keys().copied().collect();
        users.retain(|_| self.random.u32(..share) == 0);
        self.random.shuffle(&mut users);
        users
    }

    /// The user changes, and watchers are told.
    fn change(&mut self, user: UserRef) {
        self.states.entry(user).and_modify(|state| *state += 1);
        if self.model.watching.contains(&user) {
            self.outbox.mark(user);
            self.model.owed.insert(user);
        }
    }

    /// Users are watched or asked for, and the answer carries their latest states.
    fn answer(&mut self) {
        let users = self.users();
        self.model.watching.extend(&users);
        let list: Vec<UserRef> = self.model.watching.iter().copied().collect();
        assert!(self.outbox.edit_watching(|watching| *watching = list).is_ok());
        let reply = frame(Some(self.model.answers), &users, &self.states);
        self.model.answers += 1;
        let has_room = self.outbox.reply_with(usize::MAX, &users, || reply.clone());
        assert_eq!(has_room, self.model.replies.len() < REPLIES_LEN_MAX);
        if self.model.replies.len() < REPLIES_LEN_MAX {
            self.model.owed.retain(|user| !users.contains(user));
            self.model.replies.push_back(reply);
        } else {
            self.model.owed.extend(users);
        }
    }

    fn unwatch(&mut self) {
        for user in self.users() {
            self.model.watching.remove(&user);
        }
        let list: Vec<UserRef> = self.model.watching.iter().copied().collect();
        assert!(self.outbox.edit_watching(|watching| *watching = list).is_ok());
    }

    fn act(&mut self) {
        match self.random.u8(..13) {
            12 => {
                self.outbox.welcome();
                if self.model.welcome == Welcome::Awaited {
                    self.model.welcome = Welcome::Due;
                }
            }
            0..=3 => {
                let user = self.user();
                self.change(user);
            }
            4 => self.users().into_iter().for_each(|user| self.change(user)),
            5..=7 => self.answer(),
            8 => self.unwatch(),
            9 => {
                self.outbox.ask_ping();
                self.model.ping = true;
            }
            10 => {
                self.outbox.tell_health();
                self.model.health = true;
            }
            _ => {
                self.outbox.tell_draining();
                self.model.draining = true;
            }
        }
    }

    fn take(&self) -> Option<String> {
        let waker = Waker::from(self.woken.clone());
        let encode = |users: &[UserRef]| Some(frame(None, users, &self.states));
        match self.outbox.poll_due(&mut Context::from_waker(&waker), encode) {
            Poll::Ready(due) => Some(format!("{due:?}")),
            Poll::Pending => None,
        }
    }

    /// The client takes what there is, up to so much.
    fn read(&mut self, most: usize) {
        for _ in 0..most {
            let (due, expected) = (self.take(), self.model.take(&self.states));
            assert_eq!(due, expected, "seed {}", self.seed);
            self.waits = due.is_none();
            if self.waits {
                self.woken.0.store(false, Ordering::Relaxed);
                return;
            }
        }
    }

    fn step(&mut self) {
        self.act();
        let woken = self.woken.0.load(Ordering::Relaxed);
        assert!(woken || !self.waits || !self.model.owes(), "seed {}: not woken", self.seed);
        let inner = self.outbox.inner.lock();
        assert!(inner.replies.len() <= REPLIES_LEN_MAX, "seed {}", self.seed);
        assert!(inner.dirty.len() <= self.model.watching.len(), "seed {}", self.seed);
    }

    /// Nothing but the close comes out of a session that has ended.
    fn end(&mut self) {
        let watching: Vec<UserRef> = self.model.watching.iter().copied().collect();
        assert_eq!(self.outbox.end(), Some(watching), "seed {}", self.seed);
        assert_eq!(self.outbox.end(), None, "given up once, seed {}", self.seed);
        let user = self.user();
        self.outbox.mark(user);
        self.outbox.reply_with(1, &[], Bytes::new);
        self.outbox.ask_ping();
        assert_eq!(self.take(), None, "seed {}", self.seed);
        self.woken.0.store(false, Ordering::Relaxed);
        self.outbox.close(CloseReason::Bye);
        self.outbox.close(CloseReason::TooSlow);
        assert!(self.woken.0.load(Ordering::Relaxed), "seed {}", self.seed);
        assert_eq!(self.take(), Some(format!("{:?}", Due::Close(CloseReason::Bye))));
    }
}

#[test]
fn a_client_is_sent_each_latest_state_once_and_nothing_is_lost_or_out_of_order() {
    for seed in 0..60 {
        let mut history = History::new(seed);
        // Some clients hardly read.
        let pace = history.random.usize(..3);
        for _ in 0..history.random.usize(1..250) {
            history.step();
            let most = history.random.usize(..=pace);
            history.read(most);
        }
        if history.random.bool() {
            history.read(usize::MAX);
        }
        history.end();
    }
}
