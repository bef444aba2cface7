//! The desk: answers a session's `watch`, `unwatch` and `query`, one after the other in the order in which they came.
//!
//! What is known here is answered at once. Where the store must be asked, a short task does it, so that the session's
//! own task goes on hearing its client; what the client asks meanwhile waits in a short queue.

mod answers;
mod queue;
mod settle;

use presence_protocol::{
    ErrorCode, RequestId, States, UserId, UserState, encode_state, snapshot_frame,
};
use tracing::debug;

use crate::engine::Core;
use crate::reading::Read;
use crate::session::outbox::{ConnId, Outbox};
use crate::store::Standing;
use crate::watch::{UserRef, Veils, veil};
use answers::refuse;
pub(crate) use answers::{answer, refuse_with};
use queue::Step;
pub use queue::{Asked, Deciding, Decision, Judge};
pub(crate) use queue::{Queue, Turn, take};

/// What a client asks for.
#[derive(Debug)]
pub enum Request {
    /// Watch these users from now on; answered by a snapshot.
    Watch {
        /// Whom.
        users: Vec<UserId>,
        /// Those of them who are to look as if they had signed out, and when.
        veils: Veils,
        /// Comes back in the answer.
        id: Option<RequestId>,
    },
    /// Watch these users no longer.
    Unwatch {
        /// Whom.
        users: Vec<UserId>,
    },
    /// A snapshot of these users, without watching them.
    Query {
        /// Whom.
        users: Vec<UserId>,
        /// Those of them who are to look as if they had signed out, and when.
        veils: Veils,
        /// Comes back in the answer.
        id: Option<RequestId>,
    },
    /// All whom the session watches were judged anew. Nothing is answered; what changes is pushed.
    Settle {
        /// These are watched no longer.
        refused: Vec<UserId>,
        /// These are to look as if they had signed out, and when; all others as they are.
        veils: Veils,
    },
}

impl Request {
    fn users_len(&self) -> usize {
        match self {
            Self::Watch { users, .. } | Self::Unwatch { users } | Self::Query { users, .. } => {
                users.len()
            }
            Self::Settle { refused, .. } => refused.len(),
        }
    }

    fn asked(self) -> Asked {
        match self {
            Self::Watch { users, id, .. } => Asked::new("watch", &users, id),
            Self::Unwatch { users } => Asked::new("unwatch", &users, None),
            Self::Query { users, id, .. } => Asked::new("query", &users, id),
            Self::Settle { refused, .. } => Asked::new("settle", &refused, None),
        }
    }
}

/// What is left to do for a request: these users must be read from the store before it can be answered.
enum Open {
    Watch {
        asked: Vec<UserRef>,
        unknown: Vec<UserId>,
        id: Option<RequestId>,
    },
    /// `known` is beside `asked`: whom nobody watches any more by the time of the answer, is known from before.
    Query {
        asked: Vec<UserId>,
        known: Vec<Option<UserState>>,
        veils: Veils,
        unknown: Vec<UserId>,
        id: Option<RequestId>,
    },
}

/// Does what can be done at once. Answers what is left.
fn begin(core: &Core, outbox: &Outbox, conn: ConnId, request: Request) -> Option<Step> {
    match request {
        Request::Watch { users, veils, id } => {
            begin_watch(core, outbox, conn, (&users, &veils), id).map(Step::Read)
        }
        Request::Unwatch { users } => {
            unwatch(core, outbox, conn, &users);
            None
        }
        Request::Query { users, veils, id } => {
            begin_query(core, outbox, (users, veils), id).map(Step::Read)
        }
        Request::Settle { refused, veils } => {
            let lifted = settle::settle(core, outbox, conn, refused, &veils);
            (!lifted.is_empty()).then_some(Step::Unveil(lifted))
        }
    }
}

fn begin_watch(
    core: &Core,
    outbox: &Outbox,
    conn: ConnId,
    (users, veils): (&[UserId], &Veils),
    id: Option<RequestId>,
) -> Option<Open> {
    let enlisted = outbox.edit_watching(|watching| enlist(core, conn, watching, users, veils));
    let (asked, unknown) = match enlisted {
        Ok(Some(enlisted)) => enlisted,
        Ok(None) => {
            let max = core.config.watch_len_max;
            let message = format!("watch: a watch list holds at most {max} users, none was added");
            refuse(core, outbox, ErrorCode::TooManyWatches, message, id);
            return None;
        }
        Err(_ended) => return None,
    };
    if unknown.is_empty() {
        answer_watch(core, outbox, &asked, id.as_ref());
        return None;
    }
    Some(Open::Watch { asked, unknown, id })
}

/// Adds users to a watch list, all of them or, when they are too many, none. Answers all their numbers, and those of them
/// who are not known yet.
fn enlist(
    core: &Core,
    conn: ConnId,
    watching: &mut Vec<UserRef>,
    users: &[UserId],
    veils: &Veils,
) -> Option<(Vec<UserRef>, Vec<UserId>)> {
    let (mut asked, mut unknown, mut new, mut otherwise) =
        (Vec::with_capacity(users.len()), Vec::new(), Vec::new(), Vec::new());
    watching.reserve_exact(users.len());
    for user in users {
        let enlisted = core.table.enlist_as(user, veils.get(user).copied(), conn, watching);
        otherwise.extend(core.table.others(user, enlisted.user));
        if let Err(place) = enlisted.place {
            watching.insert(place, enlisted.user);
            new.push(enlisted.user);
        }
        if !enlisted.is_known {
            unknown.push(user.clone());
        }
        asked.push(enlisted.user);
    }
    // Nobody is watched in two ways at once: who is watched otherwise from now on takes no second place.
    otherwise.retain(|user| watching.binary_search(user).is_ok());
    otherwise.sort_unstable();
    otherwise.dedup();
    let fits = watching.len() - otherwise.len() <= core.config.watch_len_max;
    if fits {
        leave(core, conn, watching, otherwise);
    } else {
        new.sort_unstable();
        watching.retain(|user| new.binary_search(user).is_err());
        for user in new {
            core.table.unwatch(user, conn);
        }
    }
    shrink(watching);
    fits.then_some((asked, unknown))
}

/// A watch list has room for at most a quarter more.
fn shrink(watching: &mut Vec<UserRef>) {
    watching.shrink_to(watching.len() + watching.len() / 4);
}

fn unwatch(core: &Core, outbox: &Outbox, conn: ConnId, users: &[UserId]) {
    let _ = outbox.edit_watching(|watching| {
        leave(core, conn, watching, users.iter().flat_map(|user| core.table.all(user)));
        shrink(watching);
    });
}

/// Takes those of these users off a watch list that are on it.
fn leave(
    core: &Core,
    conn: ConnId,
    watching: &mut Vec<UserRef>,
    users: impl IntoIterator<Item = UserRef>,
) {
    for user in users {
        if let Ok(at) = watching.binary_search(&user) {
            watching.remove(at);
            core.table.unwatch(user, conn);
        }
    }
}

fn begin_query(
    core: &Core,
    outbox: &Outbox,
    (users, veils): (Vec<UserId>, Veils),
    id: Option<RequestId>,
) -> Option<Open> {
    let known: Vec<_> = users.iter().map(|user| core.table.state(user)).collect();
    let unknown = users.iter().zip(&known).filter(|(_, known)| known.is_none());
    let unknown = unknown.map(|(user, _)| user.clone()).collect();
    let open = Open::Query { asked: users, known, veils, unknown, id };
    if matches!(&open, Open::Query { unknown, .. } if unknown.is_empty()) {
        answer_query(core, outbox, open, &[]);
        return None;
    }
    Some(open)
}

async fn finish(core: &Core, outbox: &Outbox, conn: ConnId, open: Open) {
    let (Open::Watch { unknown, .. } | Open::Query { unknown, .. }) = &open;
    let read = core.reads.ask(unknown.clone()).await;
    match (open, read) {
        (Open::Watch { asked, id, .. }, Ok(_)) => {
            let unknown = core.table.unknown_among(&asked);
            answer_watch(core, outbox, &asked, id.as_ref());
            leave_unanswered(core, outbox, conn, &unknown);
        }
        (open @ Open::Query { .. }, Ok(standings)) => answer_query(core, outbox, open, &standings),
        (open, Err(error)) => {
            debug!(%error, "a request could not be answered from the store");
            refuse_unread(core, outbox, conn, open);
        }
    }
}

/// Whom a client watches it is told of all the same: of those who are known here now, of the others when they are.
fn refuse_unread(core: &Core, outbox: &Outbox, conn: ConnId, open: Open) {
    let message = "the store is out of reach; users that you watch stay watched, and their states follow when it is back";
    let (Open::Watch { id, .. } | Open::Query { id, .. }) = &open;
    refuse(core, outbox, ErrorCode::StoreUnavailable, message.to_owned(), id.clone());
    if let Open::Watch { asked, .. } = open {
        // Whoever becomes known from here on is told of as one of these.
        let unknown = core.table.unknown_among(&asked);
        for user in asked.iter().filter(|user| !unknown.contains(user)) {
            outbox.mark(*user);
        }
        leave_unanswered(core, outbox, conn, &unknown);
    }
}

fn leave_unanswered(core: &Core, outbox: &Outbox, conn: ConnId, unknown: &[UserRef]) {
    if !unknown.is_empty() && outbox.leave_unanswered(unknown) {
        core.unanswered.add([conn]);
    }
}

fn answer_watch(core: &Core, outbox: &Outbox, asked: &[UserRef], id: Option<&RequestId>) {
    answer(core, outbox, asked, || snapshot_frame(id, &core.table.states(asked, outbox.format)));
}

fn answer_query(core: &Core, outbox: &Outbox, open: Open, standings: &[Standing]) {
    let Open::Query { asked, known, veils, id, .. } = open else { return };
    let read = Read::of(standings);
    let state = |(user, known): (UserId, Option<UserState>)| match veils.get(&user) {
        Some(since_us) => veil::state(&user, *since_us),
        None => read.latest(core, user, known),
    };
    answer(core, outbox, &[], || {
        let mut states = States::with_room_for(asked.len(), outbox.format);
        for state in asked.into_iter().zip(known).map(state) {
            states.push(&encode_state(outbox.format, &state));
        }
        snapshot_frame(id.as_ref(), &states)
    });
}
