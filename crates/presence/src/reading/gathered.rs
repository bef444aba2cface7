//! Reads for sessions and for the backend, gathered into few calls.
//!
//! As with claims there is no fixed wait: an idle gateway asks at once, a busy one gathers the next batch while others
//! are in flight. A thousand sign-ins a second that each name a few unknown users are then some ten calls, and none waits in
//! the store behind a thousand others until its time is up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use presence_protocol::UserId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::engine::Core;
use crate::health::Health;
use crate::reading::read;
use crate::store::{BATCH_LEN_MAX, Standing, StoreError};

/// So many calls at once keep the store busy while an answer is on its way; what comes meanwhile goes together.
const CALLS_MAX: usize = 2;

/// Whoever waited for so long when a call fails is not kept waiting for the next.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Why there is no answer yet about somebody of whom there is no trace.
const AWAITED: &str = "it has lost everything, and a gateway has yet to tell of its users";

/// Where reads wait to be asked together.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: Mutex<VecDeque<Waiting>>,
    arrived: Notify,
}

struct Waiting {
    since: Instant,
    users: Vec<UserId>,
    answer: oneshot::Sender<Result<Vec<Standing>, StoreError>>,
}

impl Reads {
    /// Where these users stand, in the order asked.
    pub(crate) async fn ask(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().push_back(Waiting { since: Instant::now(), users, answer });
        self.arrived.notify_one();
        answered.await.unwrap_or_else(|_| Err(StoreError::Unreachable("it was closed".to_owned())))
    }

    /// Those to whom a failed call is answer enough. While the store is out of reach all are to be told soon; when it is
    /// only busy, the next call may well succeed.
    fn take_discouraged(&self, health: &Health) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock();
        let is_patient = |next: &Waiting| health.is_fine() && next.since.elapsed() < WAIT_MAX;
        // They wait in the order in which they came.
        let patient = waiting.iter().position(is_patient).unwrap_or(waiting.len());
        waiting.drain(..patient).collect()
    }

    /// The next that go together: a full batch, or as many as there are. None when there are none.
    fn take_batch(&self) -> Option<Vec<Waiting>> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut users) = (Vec::new(), 0);
        while users < BATCH_LEN_MAX
            && let Some(next) = waiting.pop_front()
        {
            users += next.users.len();
            batch.push(next);
        }
        (!batch.is_empty()).then_some(batch)
    }
}

/// Asks for what waits, for as long as the engine lives.
pub(crate) async fn run(core: Arc<Core>) {
    let turns = Semaphore::new(CALLS_MAX);
    let mut answers = FuturesUnordered::new();
    loop {
        while let Ok(turn) = turns.try_acquire()
            && let Some(batch) = core.reads.take_batch()
        {
            answers.push(answer(&core, batch, turn));
        }
        tokio::select! {
            Some(()) = answers.next() => {}
            () = core.reads.arrived.notified() => {}
            // One that was answered may still wait for other things.
            Ok(_) = turns.acquire(), if turns.available_permits() == 0 => {}
        }
    }
}

async fn answer(core: &Core, batch: Vec<Waiting>, turn: SemaphorePermit<'_>) {
    let users: Vec<UserId> = batch.iter().flat_map(|asked| &asked.users).cloned().collect();
    match read(core, &users, turn).await {
        Ok(standings) => {
            let parts = split(standings, batch.iter().map(|asked| asked.users.len()));
            for (Waiting { answer, .. }, part) in batch.into_iter().zip(parts) {
                let awaited = || StoreError::Unreachable(AWAITED.to_owned());
                // A call for the backend that was given up needs no answer.
                let _ = answer.send(part.ok_or_else(awaited));
            }
        }
        Err(error) => {
            let behind = core.reads.take_discouraged(&core.health);
            for Waiting { answer, .. } in batch.into_iter().chain(behind) {
                let _ = answer.send(Err(error.clone()));
            }
        }
    }
}

/// What each asked for so many; none for one who asked for anybody of whom a gateway has yet to tell.
fn split(
    standings: Vec<Option<Standing>>,
    lens: impl Iterator<Item = usize>,
) -> Vec<Option<Vec<Standing>>> {
    let mut standings = standings.into_iter();
    let part = |len| {
        // All of it before it is looked at: what is left over would be taken for the next one's.
        let part: Vec<_> = standings.by_ref().take(len).collect();
        part.into_iter().collect()
    };
    lens.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::view::View;

    #[test]
    fn who_cannot_be_answered_leaves_nothing_to_the_next() {
        let of = |name| Some(Standing::settled(UserId::new(name).unwrap(), View::NO_TRACE));
        let parts = split(vec![None, of("ana"), of("bo"), of("cy")], [2, 0, 2].into_iter());
        let names = |part: Option<Vec<Standing>>| {
            part.map(|part| part.into_iter().map(|read| read.user.to_string()).collect::<Vec<_>>())
        };
        let names: Vec<_> = parts.into_iter().map(names).collect();
        let expected = [None, Some(vec![]), Some(vec!["bo".to_owned(), "cy".to_owned()])];
        assert_eq!(names, expected);
    }
}
