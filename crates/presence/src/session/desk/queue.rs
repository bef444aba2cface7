//! The requests of one session, in the order in which they came: one is worked on by a short task, the others wait for it.
//!
//! What is asked may depend on somebody else's decision, which takes its time; whatever comes after it waits as well, so
//! that an `unwatch` never overtakes the `watch` before it.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use presence_protocol::{CloseReason, ErrorMessage, RequestId, UserId};

use super::answers::{refuse_busy, refuse_long, refuse_with};
use super::settle::{Lifted, unveil};
use super::{Open, Request, begin, finish};
use crate::engine::Core;
use crate::session::outbox::{ConnId, Outbox};

/// The most requests that may wait for an earlier one of the same session.
pub(super) const LEN_MAX: usize = 16;

/// All that wait may name so many times as many users as one may: clients keep no more requests under way.
const USERS_FACTOR: usize = 4;

/// What a client asks for, of how many users.
#[derive(Debug)]
pub struct Asked {
    /// The type of its message.
    pub(super) what: &'static str,
    /// How many users it names.
    pub(super) users_len: usize,
    /// Comes back in the answer.
    pub(super) id: Option<RequestId>,
}

/// What was decided of a request, or of a watch list.
#[derive(Debug, Default)]
pub struct Decision {
    /// What the client is told of that which is left out.
    pub refusal: Option<ErrorMessage>,
    /// What is to be done.
    pub request: Option<Request>,
    /// Why the session cannot go on, if it cannot.
    pub close: Option<CloseReason>,
}

/// A decision that takes its time.
pub type Deciding = BoxFuture<'static, Decision>;

/// Decides of all users whom a session watches.
pub type Judge = Box<dyn FnOnce(Vec<UserId>) -> Deciding + Send>;

/// What waits for the request that is being answered; none when none is.
pub(crate) type Queue = Mutex<Option<Box<VecDeque<Turn>>>>;

/// What is done for a session, one after the other.
pub(crate) enum Turn {
    Request(Request),
    /// A request on which somebody decides who is asked when its turn has come.
    Decide(Asked, Deciding),
    /// The watch list is judged anew: whom it holds when its turn has come.
    Review(Judge),
}

impl Asked {
    /// What a message of this type asks.
    pub fn new(what: &'static str, users: &[UserId], id: Option<RequestId>) -> Self {
        Self { what, users_len: users.len(), id }
    }
}

impl Turn {
    /// How many users are named, by whoever asked.
    fn users_len(&self) -> usize {
        match self {
            Self::Request(request) => request.users_len(),
            Self::Decide(asked, _) => asked.users_len,
            Self::Review(_) => 0,
        }
    }

    fn asked(self) -> Asked {
        match self {
            Self::Request(request) => request.asked(),
            Self::Decide(asked, _) => asked,
            Self::Review(_) => Asked::new("review", &[], None),
        }
    }
}

/// What is left to do of a turn.
pub(super) enum Step {
    Read(Open),
    Decide(Deciding),
    /// These users are veiled no more.
    Unveil(Vec<Lifted>),
}

/// Takes a turn, now or when those before it are over.
pub(crate) fn take(core: &Arc<Core>, outbox: &Arc<Outbox>, conn: ConnId, turn: Turn) {
    let max = core.config.watch_len_max;
    if turn.users_len() > max {
        return refuse_long(core, outbox, turn.asked());
    }
    let mut queue = outbox.requests.lock();
    if let Some(waiting) = queue.as_mut() {
        // A review is nobody's to flood with, and not to be lost; two in a row are one.
        let is_review = matches!(turn, Turn::Review(_));
        if is_review && matches!(waiting.back(), Some(Turn::Review(_))) {
            return;
        }
        let named: usize = waiting.iter().map(Turn::users_len).sum();
        let fits = named + turn.users_len() <= max * USERS_FACTOR && waiting.len() < LEN_MAX;
        if is_review || fits {
            waiting.push_back(turn);
        } else {
            drop(queue);
            refuse_busy(core, outbox, turn.asked());
        }
        return;
    }
    if let Some(step) = start(core, outbox, conn, turn) {
        *queue = Some(Box::default());
        core.spawn(work(core.clone(), outbox.clone(), conn, step));
    }
}

async fn work(core: Arc<Core>, outbox: Arc<Outbox>, conn: ConnId, step: Step) {
    let mut next = Some(step);
    loop {
        while let Some(step) = next.take() {
            match step {
                Step::Read(open) => finish(&core, &outbox, conn, open).await,
                Step::Unveil(lifted) => unveil(&core, &outbox, lifted).await,
                Step::Decide(deciding) => next = heed(&core, &outbox, conn, deciding.await),
            }
        }
        let mut queue = outbox.requests.lock();
        let Some(turn) = queue.as_mut().and_then(|waiting| waiting.pop_front()) else {
            *queue = None;
            return;
        };
        drop(queue);
        next = start(&core, &outbox, conn, turn);
    }
}

/// Does what can be done at once. Answers what is left.
fn start(core: &Core, outbox: &Outbox, conn: ConnId, turn: Turn) -> Option<Step> {
    match turn {
        Turn::Request(request) => begin(core, outbox, conn, request),
        Turn::Decide(_, deciding) => Some(Step::Decide(deciding)),
        Turn::Review(judge) => {
            let named = |watching: &mut Vec<_>| {
                watching.iter().filter_map(|user| core.table.user(*user)).collect::<Vec<_>>()
            };
            let watched = outbox.edit_watching(named).unwrap_or_default();
            (!watched.is_empty()).then(|| Step::Decide(judge(watched)))
        }
    }
}

fn heed(core: &Core, outbox: &Outbox, conn: ConnId, decision: Decision) -> Option<Step> {
    if let Some(refusal) = decision.refusal {
        refuse_with(core, outbox, refusal);
    }
    if let Some(reason) = decision.close {
        outbox.close(reason);
    }
    begin(core, outbox, conn, decision.request?)
}
