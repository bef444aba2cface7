//! The relay: hears of every change in the store, holds losses back for their grace, and tells the sessions that watch.
//!
//! It never waits for the store itself: what must be read is read by short tasks, which bring their answer to the watch
//! table. Order does not matter there, since every view carries a version.

pub(crate) mod grace;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use presence_protocol::UserId;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, trace};

use crate::engine::Core;
use crate::metrics::CauseLabel;
use crate::reading::read;
use crate::reading::reconcile::settled_after;
use crate::store::{BATCH_LEN_MAX, Event, Lapse, Standing};
use crate::watch::{Absorbed, SHARDS, Shown, UserRef};

/// After a store came back, every gateway has this long to assert its sessions before anybody is compared with it.
const ASSERT_TIME: Duration = Duration::from_secs(1);

/// Users whose keys expired are gathered for so long: after an outage, they are all the users there are.
const GATHER_TIME: Duration = Duration::from_millis(50);

/// So long after the users of a dead gateway fall due, they are looked at: not a millisecond before.
const REAP_DELAY: Duration = Duration::from_millis(20);

/// And by each gateway at another moment within so long, since all find out at the same.
const REAP_SPREAD: Duration = Duration::from_millis(100);

/// And so often again, one after the other: what a dead gateway had sent before may have waited in a stopped Redis, and vouches
/// for its users for up to four seconds more.
const REAP_AGAIN: usize = 5;
const REAP_PAUSE: Duration = Duration::from_secs(1);

/// When a due loss could not be confirmed, it is tried again after this.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

enum Turn {
    Event(Event),
    /// The grace of some users is over.
    Due,
    /// Users whose keys expired are to be read.
    Gathered,
    /// The store is gone for good.
    Over,
}

/// Relays for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>, mut events: mpsc::Receiver<Event>) {
    let mut expired = Expired::default();
    loop {
        let due = core.grace.lock().next_due();
        let turn = tokio::select! {
            biased;
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Turn::Due,
            event = events.recv() => event.map_or(Turn::Over, Turn::Event),
            () = sleep_until(expired.due.unwrap_or_else(Instant::now)), if expired.due.is_some() => {
                Turn::Gathered
            }
            () = core.grace_changed.notified() => continue,
        };
        match turn {
            Turn::Event(event) => hear(&core, &mut expired, event),
            Turn::Due => confirm_due(&core),
            Turn::Gathered => core.spawn(confirm(core.clone(), expired.take())),
            Turn::Over => return,
        }
    }
}

/// Watched users whose keys expired, and when they are to be read.
#[derive(Default)]
struct Expired {
    users: HashSet<UserId>,
    due: Option<Instant>,
}

impl Expired {
    fn hear(&mut self, core: &Core, user: UserId) {
        core.metrics.expired_events.inc();
        core.assert_if_here(&user);
        if core.table.find(&user).is_some() && !core.roster.has(&user) {
            self.users.insert(user);
            self.due.get_or_insert(Instant::now() + GATHER_TIME);
        }
    }

    fn take(&mut self) -> Vec<UserId> {
        self.due = None;
        self.users.drain().collect()
    }
}

fn hear(core: &Arc<Core>, expired: &mut Expired, event: Event) {
    match event {
        Event::Transitions(transitions) => {
            for standing in transitions {
                trace(&standing);
                if let Some(cause) = standing.cause() {
                    core.metrics.transitions.get_or_create(&cause.into()).inc();
                }
                if !standing.view.is_on(core.store.gateway()) {
                    core.assert_if_here(&standing.user);
                }
                core.hear(&standing);
            }
        }
        Event::Expired(user) => expired.hear(core, user),
        Event::Notice(notice) => core.heed(notice),
        Event::Gap => {
            info!("events may have been missed: watched users are read again");
            core.metrics.gaps.inc();
            core.reconcile_from(Instant::now());
            core.orders.look_again();
        }
        Event::Reconnected => {
            core.metrics.reconnects.inc();
            info!(
                "connected to the store again: sessions are asserted, watched users are read again"
            );
            core.health.unsettle();
            core.assert_all_again();
            core.reconcile_soon();
            core.orders.look_again();
        }
    }
}

/// For whoever asks why somebody was shown offline: what was heard of a user.
fn trace(standing: &Standing) {
    let Standing { user, view, held, change } = standing;
    trace!(
        %user,
        version = view.version,
        online = view.is_online(),
        gateways = ?view.gateways,
        cause = ?change.map(|change| change.cause),
        held_ms = held.as_ref().map(|held| held.remaining.as_millis()),
        "heard"
    );
}

fn confirm_due(core: &Arc<Core>) {
    let now = Instant::now();
    let due = core.grace.lock().take_due(now);
    let users = core.table.due_of(&due, now);
    if !users.is_empty() {
        core.spawn(confirm(core.clone(), users));
    }
}

/// Asks the store once more about users whose loss is due, until it answers: nobody is offline until that is known.
pub(crate) async fn confirm(core: Arc<Core>, users: Vec<UserId>) {
    for batch in users.chunks(BATCH_LEN_MAX) {
        while let Err(error) = read(&core, batch, ()).await {
            debug!(%error, users = batch.len(), "a due offline waits until the store confirms it");
            core.health.wait_for_store(RETRY_PAUSE, Duration::from_secs(1)).await;
        }
    }
}

impl Core {
    /// Takes over what the store told of a user.
    fn hear(&self, standing: &Standing) {
        if let Some((user, absorbed)) = self.table.hear(standing, Instant::now()) {
            self.act(user, absorbed);
        }
    }

    /// Takes over what the store answered to a question that was asked then. True when that was news here.
    ///
    /// That there is no trace of a user is not taken for the first word about it: see [`Self::learn_no_trace`].
    pub(crate) fn learn(&self, standing: &Standing, asked: Instant) -> bool {
        if standing.view.is_no_trace() && self.table.state(&standing.user).is_none() {
            return false;
        }
        self.take_over(standing, asked)
    }

    /// As [`Self::learn`], from a store that has not just lost everything.
    pub(crate) fn learn_no_trace(&self, standing: &Standing, asked: Instant) -> bool {
        self.take_over(standing, asked)
    }

    fn take_over(&self, standing: &Standing, asked: Instant) -> bool {
        let learned = self.table.learn(standing, asked, Instant::now());
        if let Some(version) = learned.as_ref().and_then(|(_, absorbed)| absorbed.ahead) {
            self.reconciler.note_ahead(self, &standing.user, version, asked);
        }
        learned.is_some_and(|(user, absorbed)| self.act(user, absorbed))
    }

    /// Holds a loss back, or tells the sessions that watch. True when there was news.
    fn act(&self, user: UserRef, absorbed: Absorbed) -> bool {
        if let Some(due) = absorbed.hold {
            self.grace.lock().hold(user, due);
            self.grace_changed.notify_one();
        }
        if absorbed.flap {
            self.metrics.flaps_hidden.inc();
        }
        if let Some(shown) = absorbed.shown {
            self.measure_lateness(&shown);
        }
        self.metrics.pushes.inc_by(absorbed.tell.len() as u64);
        self.rounds.tell(&self.outboxes, &self.strain, &absorbed.tell, user);
        absorbed.news
    }

    /// How late watchers are told. Of a loss that nobody told of, and that was found by comparing, it is only known when
    /// the store took it over.
    fn measure_lateness(&self, shown: &Shown) {
        let (label, due_ms) = match shown.change {
            Some(change) => (change.cause.into(), change.due_ms),
            None if shown.is_loss => (CauseLabel::FOUND, shown.version / 1000),
            None => return,
        };
        let late = Duration::from_millis(self.store.now_ms().saturating_sub(due_ms));
        self.metrics.lateness.note(&label, late);
    }

    /// The store says that a user is not here. Whoever has a session here is told of again: a gateway that was stalled or
    /// cut off for too long is taken for dead, and the user with it.
    fn assert_if_here(&self, user: &UserId) {
        if self.roster.has(user) {
            self.metrics.rejoins.inc();
            self.claims.assert_again(vec![user.clone()], self.clock.now());
        }
    }

    /// A gateway is dead: those of its users who are watched here are looked at when they fall due. Nobody else has to
    /// be, since whoever asks for another user finds it settled.
    pub(crate) fn reap(self: &Arc<Self>, lapse: Lapse) {
        let Lapse { gateway, due_in } = lapse;
        info!(gateway, due_in_ms = due_in.as_millis(), "a gateway is gone");
        self.metrics.gateways_lost.inc();
        let core = self.clone();
        self.spawn(async move {
            let users = || (0..SHARDS).flat_map(|shard| core.table.users_on(shard, &gateway));
            sleep(due_in + REAP_DELAY + REAP_SPREAD.mul_f64(fastrand::f64())).await;
            confirm(core.clone(), users().collect()).await;
            // Somebody may have come to live there in news that was missed.
            core.reconciler.ask(Instant::now());
            for _ in 0..REAP_AGAIN {
                sleep(REAP_PAUSE).await;
                confirm(core.clone(), users().collect()).await;
            }
        });
    }

    /// Compares all watched users with the store, once every gateway had time to assert its sessions.
    pub(crate) fn reconcile_soon(&self) {
        self.reconcile_from(Instant::now() + ASSERT_TIME);
    }

    /// Compares them then, and once more when a store that has lost something has told all that it can find out.
    fn reconcile_from(&self, at: Instant) {
        self.reconciler.ask(at);
        self.reconciler.ask(at + settled_after(&self.config));
    }
}
