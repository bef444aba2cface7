//! Requests and their answers: cuts lists into messages of a bounded size, keeps few in flight, and
//! asks again for what was lost or put off. No socket here.
//!
//! A frame over the gateway's limit would close the socket, and a gateway drops the answers of a
//! client that asks for more than it reads; so both are bounded here, well below.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use presence_protocol::{
    ClientMessage, ErrorCode, ErrorMessage, Grant, INTEGER_MAX, RequestId, UserId, UserState,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::client::QueryError;
use crate::options::GrantSource;
use crate::view::View;

/// The most bytes of user ids in one message: a quarter of the gateway's smallest default limit.
const CHUNK_LEN_MAX: usize = 16 * 1024;

/// The most users in one message, which bounds the snapshot that answers it.
const CHUNK_USERS_MAX: usize = 256;

/// The most requests without an answer: two would hide the round trip, four a busy gateway too.
const IN_FLIGHT_MAX: usize = 4;

/// The most queries that wait; above it their callers do.
const QUERIES_WAITING_MAX: usize = 64;

/// When an answer has not come by then it was lost, and the request is made again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to ask for nothing after `rate_limited`.
const PAUSE: Duration = Duration::from_secs(1);

/// A caller of `query`, what is left to ask for it, and what was answered so far.
pub(crate) struct Query {
    left: VecDeque<UserId>,
    got: Vec<UserState>,
    reply: oneshot::Sender<Result<Vec<UserState>, QueryError>>,
}

impl Query {
    pub(crate) fn new(
        users: impl IntoIterator<Item = UserId>,
        reply: oneshot::Sender<Result<Vec<UserState>, QueryError>>,
    ) -> Self {
        Self { left: users.into_iter().collect(), got: Vec::new(), reply }
    }
}

#[derive(Default)]
pub(crate) struct Asks {
    last_id: u64,
    in_flight: HashMap<u64, Ask>,
    queries: VecDeque<Query>,
    /// Watches that the gateway had no room for.
    without_room: Vec<UserId>,
    paused_until: Option<Instant>,
    grant: Option<GrantSource>,
}

struct Ask {
    kind: Kind,
    users: Vec<UserId>,
    deadline: Instant,
}

enum Kind {
    Watch,
    Query(Query),
}

/// Whether the application is to hear of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Yes.
    Tell,
    /// No: it is dealt with here, or by the caller of `query`.
    Handled,
    /// No, but what was sent without an id may have been dropped.
    SendAgain,
}

impl Asks {
    pub(crate) fn new(grant: Option<GrantSource>) -> Self {
        Self { grant, ..Self::default() }
    }

    pub(crate) fn has_room_for_a_query(&self) -> bool {
        self.queries.len() < QUERIES_WAITING_MAX
    }

    pub(crate) fn query(&mut self, query: Query) {
        self.queries.push_back(query);
    }

    /// The next request to send; none when all is asked, or enough is in flight.
    ///
    /// An `unwatch` has no id, so nobody would know that a busy gateway dropped it. It is sent only
    /// when nothing is in flight, and before any new `watch`, for which it makes room.
    pub(crate) fn next(&mut self, view: &mut View, now: Instant) -> Option<ClientMessage> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        self.paused_until = None;
        if !view.unwanted().is_empty() {
            return self.in_flight.is_empty().then(|| self.next_unwatch(view));
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        if view.unasked().is_empty() { self.next_query(now) } else { Some(self.watch(view, now)) }
    }

    fn next_unwatch(&mut self, view: &mut View) -> ClientMessage {
        let users = chunk(view.unwanted(), BTreeSet::pop_first);
        view.watch_again(self.without_room.drain(..));
        ClientMessage::Unwatch { users }
    }

    fn watch(&mut self, view: &mut View, now: Instant) -> ClientMessage {
        let users = chunk(view.unasked(), BTreeSet::pop_first);
        let id = self.begin(Kind::Watch, users.clone(), now);
        let grant = self.grant_for(&users);
        ClientMessage::Watch { users, id: Some(id), grant }
    }

    fn next_query(&mut self, now: Instant) -> Option<ClientMessage> {
        while let Some(mut query) = self.queries.pop_front() {
            if query.reply.is_closed() {
                continue;
            }
            let users = chunk(&mut query.left, VecDeque::pop_front);
            if users.is_empty() {
                let _ = query.reply.send(Ok(query.got));
                continue;
            }
            let id = self.begin(Kind::Query(query), users.clone(), now);
            let grant = self.grant_for(&users);
            return Some(ClientMessage::Query { users, id: Some(id), grant });
        }
        None
    }

    fn grant_for(&self, users: &[UserId]) -> Option<Grant> {
        self.grant.as_ref().and_then(|grant| grant(users))
    }

    fn begin(&mut self, kind: Kind, users: Vec<UserId>, now: Instant) -> RequestId {
        self.last_id = (self.last_id + 1) % INTEGER_MAX;
        self.in_flight.insert(self.last_id, Ask { kind, users, deadline: now + ANSWER_TIMEOUT });
        RequestId::Number(self.last_id)
    }

    /// An answer came.
    pub(crate) fn answered(&mut self, id: Option<&RequestId>, users: &[UserState]) {
        if let Some(Ask { kind: Kind::Query(mut query), .. }) = self.take(id) {
            query.got.extend_from_slice(users);
            self.queries.push_front(query);
        }
    }

    /// A refusal came.
    pub(crate) fn refused(&mut self, error: &ErrorMessage, now: Instant) -> Verdict {
        if error.code == ErrorCode::RateLimited {
            self.paused_until = Some(now + PAUSE);
        }
        let Some(ask) = self.take(error.id.as_ref()) else {
            let is_late = error.code == ErrorCode::RateLimited;
            return if is_late { Verdict::SendAgain } else { Verdict::Tell };
        };
        match (error.code, ask.kind) {
            (ErrorCode::NotAllowed, kind) => self.partly_refused(error, Ask { kind, ..ask }),
            // Dropped at the gateway: it stays in flight until its deadline, and is made again.
            (ErrorCode::RateLimited | ErrorCode::Undecided, kind) => {
                self.put_off(error, Ask { kind, users: ask.users, deadline: now + PAUSE });
                Verdict::Handled
            }
            // The gateway keeps the watch, and tells the states when it knows them.
            (ErrorCode::StoreUnavailable, Kind::Watch) => Verdict::Handled,
            (ErrorCode::TooManyWatches, Kind::Watch) => {
                self.without_room.extend(ask.users);
                Verdict::Tell
            }
            (_, Kind::Watch) => Verdict::Tell,
            (_, Kind::Query(query)) => {
                let _ = query.reply.send(Err(QueryError::Refused(error.clone())));
                Verdict::Handled
            }
        }
    }

    /// Some users may not be seen; the answer about the others is still to come, if there are any.
    fn partly_refused(&mut self, error: &ErrorMessage, mut ask: Ask) -> Verdict {
        ask.users.retain(|user| !error.users.contains(user));
        match ask.kind {
            Kind::Query(query) if ask.users.is_empty() => self.queries.push_front(query),
            Kind::Watch if ask.users.is_empty() => {}
            _ => self.put_off(error, ask),
        }
        Verdict::Tell
    }

    fn put_off(&mut self, error: &ErrorMessage, ask: Ask) {
        if let Some(RequestId::Number(id)) = error.id {
            self.in_flight.insert(id, ask);
        }
    }

    fn take(&mut self, id: Option<&RequestId>) -> Option<Ask> {
        match id {
            Some(RequestId::Number(id)) => self.in_flight.remove(id),
            _ => None,
        }
    }

    /// When to look again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.in_flight.values().map(|ask| ask.deadline).chain(self.paused_until).min()
    }

    /// Asks again for what had no answer in time.
    pub(crate) fn expire(&mut self, view: &mut View, now: Instant) {
        let is_late = |_: &u64, ask: &mut Ask| now >= ask.deadline;
        let late: Vec<Ask> = self.in_flight.extract_if(is_late).map(|(_, ask)| ask).collect();
        self.ask_again(view, late);
    }

    /// The connection is gone, and every request in flight with it.
    pub(crate) fn disconnected(&mut self, view: &mut View) {
        let lost: Vec<Ask> = self.in_flight.drain().map(|(_, ask)| ask).collect();
        self.ask_again(view, lost);
        self.without_room.clear();
        self.paused_until = None;
    }

    fn ask_again(&mut self, view: &mut View, asks: Vec<Ask>) {
        for ask in asks {
            match ask.kind {
                Kind::Watch => view.watch_again(ask.users),
                Kind::Query(mut query) => {
                    ask.users.into_iter().rev().for_each(|user| query.left.push_front(user));
                    self.queries.push_front(query);
                }
            }
        }
    }
}

/// Takes as many users as one message may name, at least one if there is one.
fn chunk<L>(list: &mut L, mut pop: impl FnMut(&mut L) -> Option<UserId>) -> Vec<UserId> {
    let mut users = Vec::new();
    let mut len = 0;
    while len < CHUNK_LEN_MAX && users.len() < CHUNK_USERS_MAX {
        let Some(user) = pop(list) else { break };
        len += written_len(&user);
        users.push(user);
    }
    users
}

/// At most how many bytes a user takes in a message: JSON escapes control characters with six.
fn written_len(user: &UserId) -> usize {
    let escaped = user.as_str().bytes().map(|byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    });
    escaped.sum::<usize>() + 3
}
