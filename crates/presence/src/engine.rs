//! The engine: puts the parts of the loop together and owns their tasks.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::{CloseReason, Device, Format, Status, UserId, UserState};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::backend::orders::{self, Orders};
use crate::backend::questions::Questions;
use crate::clock::Clock;
use crate::config::Config;
use crate::health::{self, Health};
use crate::here::claims::{self, Claims};
use crate::here::draining::{self, Draining};
use crate::here::roster::{Effect, Joined, Roster};
use crate::here::vouch;
use crate::here::wheel::{self, Wheel};
use crate::metrics::Metrics;
use crate::reading::Read;
use crate::reading::gathered::{self, Reads};
use crate::reading::reconcile::{self, Reconciler};
use crate::reading::unanswered::{self, Unanswered};
use crate::relay;
use crate::relay::grace::Grace;
use crate::session::outbox::{ConnId, Origin, Outbox, Outboxes};
use crate::session::rounds::Rounds;
use crate::session::{Session, TooManySessions};
use crate::store::{Ailment, Cause, Lease, Opened, Store, StoreError};
use crate::strain::Strain;
use crate::watch::WatchTable;

/// The presence of one gateway: its sessions, and what they watch. Dropping it ends its tasks.
pub struct Presence {
    pub(crate) core: Arc<Core>,
}

/// Who signs in.
#[derive(Debug, Clone)]
pub struct Joining {
    /// The user, already proven.
    pub user: UserId,
    /// A label for the device.
    pub device: Option<Device>,
    /// How the session wants its user shown, if it says so from the start.
    pub status: Option<Status>,
    /// How frames to the client are encoded.
    pub format: Format,
    /// Where the socket comes from, as far as that is known.
    pub address: Option<IpAddr>,
}

/// What the parts share. Each part lives in its own module; this holds no logic but who calls whom.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: Metrics,
    pub(crate) outboxes: Outboxes,
    pub(crate) rounds: Rounds,
    pub(crate) roster: Roster,
    pub(crate) wheel: Wheel,
    pub(crate) strain: Strain,
    pub(crate) claims: Claims,
    pub(crate) assertion_asked: Notify,
    pub(crate) health: Health,
    pub(crate) grace: Mutex<Grace>,
    pub(crate) grace_changed: Notify,
    pub(crate) reconciler: Reconciler,
    pub(crate) reads: Reads,
    pub(crate) unanswered: Unanswered,
    pub(crate) table: WatchTable,
    pub(crate) draining: Draining,
    pub(crate) orders: Orders,
    pub(crate) questions: Questions,
    sessions_made: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
}

impl Presence {
    /// Starts the engine on an open store. Must be called within a tokio runtime.
    pub fn start(config: Config, opened: Opened, metrics: Metrics) -> Self {
        let table = WatchTable::new(config.grace);
        let core = Arc::new(Core {
            config,
            clock: Clock::start(),
            store: opened.store,
            metrics,
            outboxes: Outboxes::default(),
            rounds: Rounds::default(),
            roster: Roster::new(),
            wheel: Wheel::new(),
            strain: Strain::default(),
            claims: Claims::default(),
            assertion_asked: Notify::new(),
            health: Health::default(),
            grace: Mutex::default(),
            grace_changed: Notify::new(),
            reconciler: Reconciler::default(),
            reads: Reads::default(),
            unanswered: Unanswered::default(),
            table,
            draining: Draining::default(),
            orders: Orders::default(),
            questions: Questions::default(),
            sessions_made: AtomicU64::new(0),
            tasks: Mutex::default(),
        });
        core.spawn(relay::run(core.clone(), opened.events));
        core.spawn(claims::run(core.clone()));
        core.spawn(claims::assert_when_asked(core.clone()));
        core.spawn(vouch::run(core.clone()));
        core.spawn(wheel::run(core.clone()));
        core.spawn(health::run(core.clone()));
        core.spawn(reconcile::run(core.clone()));
        core.spawn(reconcile::sweep(core.clone()));
        core.spawn(gathered::run(core.clone()));
        core.spawn(unanswered::run(core.clone()));
        core.spawn(orders::run(core.clone()));
        Self { core }
    }

    /// A user signs in: the session is online from now on, unless the user has too many and the newest is refused.
    pub fn join(&self, joining: Joining) -> Result<Session, TooManySessions> {
        self.core.join(joining)
    }

    /// Where users stand, in the order asked: those watched here from memory, the others from the store.
    pub async fn query(&self, users: Vec<UserId>) -> Result<Vec<UserState>, StoreError> {
        // Kept from now on: by the time of the answer nobody may watch these users any more.
        let known: Vec<_> = users.iter().map(|user| self.core.table.state(user)).collect();
        let unknown = users.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<UserId> = unknown.map(|(user, _)| user.clone()).collect();
        let standings = self.core.reads.ask(unknown).await?;
        let read = Read::of(&standings);
        let answer = users.into_iter().zip(known);
        Ok(answer.map(|(user, known)| read.latest(&self.core, user, known)).collect())
    }

    /// Whether new clients are welcome: the store answers and is heard, and this gateway is not draining.
    pub fn is_ready(&self) -> bool {
        self.core.health.is_fine() && !self.is_deaf() && !self.is_draining()
    }

    /// Whether the store answers, and what changes in it is not heard.
    pub fn is_deaf(&self) -> bool {
        self.core.health.is_fine() && self.core.store.ailment() == Some(Ailment::Deaf)
    }

    /// Whether all clients are sent elsewhere.
    pub fn is_draining(&self) -> bool {
        self.core.draining.has_begun()
    }

    /// Since when clients are told that the store is out of reach, in ms since the Unix epoch; not before they are told that
    /// it is back, which is a moment later than [`Self::is_ready`].
    pub fn degraded_since(&self) -> Option<u64> {
        self.core.health.degraded_since()
    }

    /// The leases of all gateways that share the store, this one's included, as far as is known.
    pub fn leases(&self) -> Vec<Lease> {
        self.core.store.leases()
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.core.outboxes.len()
    }

    /// Brings the gauges up to date, before they are read.
    pub fn measure(&self) {
        let metrics = &self.core.metrics;
        let (users, watches) = self.core.table.size();
        metrics.sessions.set(self.core.outboxes.len() as i64);
        metrics.users.set(self.core.roster.user_count() as i64);
        metrics.watched_users.set(users as i64);
        metrics.watches.set(watches as i64);
        metrics.claims_waiting.set(self.core.claims.len() as i64);
        metrics.orders.set(self.core.orders.len() as i64);
        metrics.lag.set(self.core.strain.lag().as_secs_f64());
    }

    /// Sends all clients elsewhere: tells them to reconnect at a moment spread over `time`, closes them in batches in
    /// the first half of it, and keeps their users' places in the store until the TTL. Ends when all are gone.
    pub async fn drain(&self, time: Duration) {
        draining::drain(&self.core, time).await;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.core.stop();
    }
}

impl Core {
    fn join(self: &Arc<Self>, joining: Joining) -> Result<Session, TooManySessions> {
        let Joining { user, device, status, format, address } = joining;
        let now = self.clock.now();
        let number = self.sessions_made.fetch_add(1, Ordering::Relaxed) + 1;
        let origin = Origin { number, joined: self.clock.real(), address };
        let outbox = Arc::new(Outbox::new(user, format, now).of(origin).unwelcomed());
        let conn = self.outboxes.insert(outbox.clone());
        let (limit, real) = (self.config.sessions, self.clock.real());
        match self.roster.join(&outbox.user, conn, (device, status), limit, real) {
            Joined::Refused => {
                self.outboxes.remove(conn);
                return Err(TooManySessions);
            }
            Joined::In { effect, instead_of } => {
                match effect {
                    Effect::Changed => {
                        self.claims.push(outbox.user.clone(), Cause::Joined, now, now);
                    }
                    Effect::Unchanged if self.is_any_welcome(&outbox.user) => outbox.welcome(),
                    // What waits to be told of the user includes it; or else is to be told again.
                    Effect::Unchanged => self.claims.assert_again(vec![outbox.user.clone()], now),
                }
                if let Some(old) = instead_of.and_then(|conn| self.outboxes.get(conn)) {
                    old.close(CloseReason::Replaced);
                }
            }
        }
        self.wheel.visit_at(conn, &outbox, now, now.after(wheel::silence_max(&self.config)));
        if !self.health.is_fine() {
            outbox.welcome();
        }
        if self.health.degraded_since().is_some() {
            outbox.tell_health();
        }
        Ok(Session::new(self.clone(), outbox, conn))
    }

    /// Whether a session of the user was told that it is in: then the store knows of the user here, or is away.
    fn is_any_welcome(&self, user: &UserId) -> bool {
        let mut is_any = false;
        let conns = self.roster.conns_of(user);
        self.outboxes
            .each(&conns, |_, outbox| is_any |= outbox.user == *user && outbox.is_welcome());
        is_any
    }

    /// The store knows of these sessions of a user, or cannot be told: they are in. Numbers are used again.
    pub(crate) fn welcome(&self, user: &UserId, conns: &[ConnId]) {
        self.outboxes.each(conns, |_, outbox| {
            if outbox.user == *user {
                outbox.welcome();
            }
        });
    }

    pub(crate) fn set_status(&self, outbox: &Outbox, conn: ConnId, status: Status) {
        let now = self.clock.now();
        if self.roster.set_status(&outbox.user, conn, status, self.clock.real()) == Effect::Changed
        {
            self.claims.push(outbox.user.clone(), Cause::Status, now, now);
        }
    }

    /// A session ends, for good; further calls do nothing.
    pub(crate) fn leave(&self, outbox: &Outbox, conn: ConnId, cause: Cause) {
        let Some(watching) = outbox.end() else { return };
        for user in watching {
            self.table.unwatch(user, conn);
        }
        let cause = self.draining.cause_of(cause, &outbox.user);
        let now = self.clock.now();
        if self.roster.leave(&outbox.user, conn, self.clock.real()) == Effect::Changed {
            self.claims.push(outbox.user.clone(), cause, now, outbox.heard());
        }
    }

    /// Tells the store again of every session, in paced batches: it may have lost them.
    pub(crate) fn assert_all_again(&self) {
        self.assertion_asked.notify_one();
    }

    /// Ends all tasks.
    pub(crate) fn stop(&self) {
        self.tasks.lock().abort_all();
    }

    /// Runs a task that ends with the engine at the latest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
