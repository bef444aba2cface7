//! Watches that the store could not be asked for: whose they are, and when it is asked again.
//!
//! One task asks for all sessions of the gateway, a batch at a time, and rests for as long as each answer took. So
//! what an overload or an outage left behind is made good with at most half of what the store has to give, and never keeps
//! an overload going.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::UserId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::engine::Core;
use crate::reading::read;
use crate::session::outbox::{ConnId, Outbox};
use crate::store::{BATCH_LEN_MAX, StoreError};
use crate::watch::UserRef;

/// How long until the store is asked again after it could not be: twice as long after each failure.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often is looked whether a store that was away is back.
const STORE_LOOK: Duration = Duration::from_secs(1);

/// The sessions that watch users whom the store could not be asked about. Which users, their outboxes know.
#[derive(Default)]
pub(crate) struct Unanswered {
    sessions: Mutex<HashSet<ConnId>>,
    arrived: Notify,
}

impl Unanswered {
    pub(crate) fn add(&self, conns: impl IntoIterator<Item = ConnId>) {
        self.sessions.lock().extend(conns);
        self.arrived.notify_one();
    }

    fn take_all(&self) -> Vec<ConnId> {
        std::mem::take(&mut *self.sessions.lock()).into_iter().collect()
    }
}

/// Asks for what could not be asked for, for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>) {
    let mut pause = PAUSE_MIN;
    loop {
        core.unanswered.arrived.notified().await;
        core.health.wait_for_store(pause.mul_f64(0.5 + fastrand::f64()), STORE_LOOK).await;
        let mut sessions = core.unanswered.take_all();
        if let Err(error) = ask_for_all(&core, &mut sessions).await {
            debug!(%error, sessions = sessions.len(), "watches wait until the store answers");
        }
        pause = if sessions.is_empty() { PAUSE_MIN } else { PAUSE_MAX.min(pause * 2) };
        if !sessions.is_empty() {
            core.unanswered.add(sessions);
        }
    }
}

/// Leaves those who were not answered, or not of all whom they watch.
async fn ask_for_all(core: &Core, sessions: &mut Vec<ConnId>) -> Result<(), StoreError> {
    let mut waiting = std::mem::take(sessions);
    while !waiting.is_empty() {
        let batch = Batch::gather(core, &mut waiting);
        let asked = Instant::now();
        let read = read(core, &batch.unknown, ()).await;
        sessions.extend(batch.tell(core));
        if let Err(error) = read {
            sessions.append(&mut waiting);
            return Err(error);
        }
        sleep(core.strain.stretch(asked.elapsed()).min(PAUSE_MAX)).await;
    }
    Ok(())
}

/// Sessions that are answered together, and the users that must be read for it.
struct Batch {
    owed: Vec<Owed>,
    unknown: Vec<UserId>,
}

/// What one session waits for.
struct Owed {
    conn: ConnId,
    outbox: Arc<Outbox>,
    users: Vec<UserRef>,
}

impl Batch {
    /// Takes sessions from the end until there is enough to ask. Some users may have become known meanwhile, since others
    /// asked.
    fn gather(core: &Core, sessions: &mut Vec<ConnId>) -> Self {
        let (mut owed, mut unknown) = (Vec::new(), HashSet::new());
        while unknown.len() < BATCH_LEN_MAX
            && let Some(conn) = sessions.pop()
        {
            let Some(outbox) = core.outboxes.get(conn) else { continue };
            let users = outbox.unanswered();
            unknown.extend(core.table.unknown_of(&users));
            owed.push(Owed { conn, outbox, users });
        }
        Self { owed, unknown: unknown.into_iter().collect() }
    }

    /// Tells of those who are known now, whatever became of the others. Answers the sessions that wait for some all the same:
    /// also for a user whom they watch anew, or one who was given the number of another.
    fn tell(self, core: &Core) -> Vec<ConnId> {
        let mut waiting = Vec::new();
        for Owed { conn, outbox, mut users } in self.owed {
            let unknown = core.table.unknown_among(&users);
            users.retain(|user| unknown.binary_search(user).is_err());
            outbox.answer(&users);
            if !unknown.is_empty() {
                waiting.push(conn);
            }
        }
        waiting
    }
}
