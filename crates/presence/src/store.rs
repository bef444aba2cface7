//! The store: who is online, shared by all gateways. A trait with two implementations that one contract test suite
//! holds to the same behaviour: [`embedded`] inside this process, and [`redis`] for many gateways.
//!
//! A gateway writes *claims*: what it contributes to a user as a whole, not what happened to one of the user's sessions.
//! A claim can therefore be repeated, delayed or replaced by a newer one without harm, and the late close of an old
//! session can never override a newer one.
//!
//! Every duration that crosses this boundary is relative to now, so that no two clocks have to agree: the store's own
//! clock stamps what it keeps.

pub mod bucket;
pub mod embedded;
pub mod notice;
mod pulse;
pub mod redis;
pub mod view;

use std::time::Duration;

use async_trait::async_trait;
use presence_protocol::{Device, StatusText, UserId};
use tokio::sync::mpsc;

use notice::{Dated, Notice, Order};
pub use pulse::{Lapse, Lease, LeaseState, Pulse};
use view::{Shown, View};

/// The most users that one call takes: a script over as many keeps a Redis busy for about a millisecond.
pub const BATCH_LEN_MAX: usize = 500;

/// The most orders that one call takes or answers.
pub const ORDERS_LEN_MAX: usize = 1000;

/// How many events may wait for the relay. Where there are more they are dropped, and made good by one [`Event::Gap`].
pub const EVENT_QUEUE_LEN: usize = 4096;

/// Where presence is kept.
///
/// Calls take at most [`BATCH_LEN_MAX`] users each and are atomic for every single user.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes what this gateway contributes to each user, and tells every gateway of the users that changed.
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError>;

    /// Vouches for users whom this gateway joined before: they stay alive for another TTL.
    /// Answers those that are to be joined again: the store does not know them any more, or found this gateway's part of
    /// them lapsed. To name a few too many is no fault, since joining again changes nothing.
    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError>;

    /// Reads where each user stands, in the order asked, all at one moment per call.
    /// A user whose gateway stopped vouching is found offline, and all gateways are told.
    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError>;

    /// Gives each of these users, where the store's version is older than this one that watchers were shown, a newer one, and
    /// tells every gateway. Of whom there is no trace, nothing is told.
    async fn outdo(&self, shown: Vec<(UserId, u64)>) -> Result<(), StoreError>;

    /// Tells every gateway, this one included.
    async fn tell(&self, notice: Notice) -> Result<(), StoreError>;

    /// Remembers orders for [`Config::orders_kept`](crate::Config::orders_kept), for gateways that miss them: those without
    /// a date as of now. Answers the date of now. An order that is there with a later date keeps that.
    async fn record(&self, orders: Vec<(Order, Option<u64>)>) -> Result<u64, StoreError>;

    /// The orders of this date or later, the earliest first: at most [`ORDERS_LEN_MAX`] of them, after the first `skip`.
    async fn orders(&self, from_s: u64, skip: usize) -> Result<Vec<Dated>, StoreError>;

    /// Gives this gateway's lease up: it leaves in good order, and nobody has to look after its users.
    async fn release(&self) -> Result<(), StoreError>;

    /// Renews this gateway's lease. To be called every [`Config::renewal`](crate::Config::renewal); also tells whether the store answers at all.
    async fn renew(&self) -> Result<Pulse, StoreError>;

    /// Whether calls are held up, or were a moment ago: what other gateways had to tell meanwhile may not have arrived.
    fn has_stalled(&self) -> bool {
        false
    }

    /// What is wrong though calls are answered, so that changes come late or not at all.
    fn ailment(&self) -> Option<Ailment> {
        None
    }

    /// Whether it may forget what it has taken, as a replica that takes over may never have got it.
    fn may_forget(&self) -> bool {
        false
    }

    /// How many gateways live, as far as is known: each hears of every change.
    fn gateways(&self) -> u32 {
        1
    }

    /// The leases of all gateways, this one's included, as they were told last; those that lapsed within the last hour, too.
    fn leases(&self) -> Vec<Lease>;

    /// This gateway's id, as it stands in views.
    fn gateway(&self) -> &str;

    /// The store's clock, in ms since the Unix epoch, as well as it is known here.
    fn now_ms(&self) -> u64;
}

/// A store and the events that it tells.
pub struct Opened {
    /// The store, for everybody who reads or writes.
    pub store: std::sync::Arc<dyn Store>,
    /// What happens in it, for the relay.
    pub events: mpsc::Receiver<Event>,
}

/// A gateway's contribution to one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Whom it is about.
    pub user: UserId,
    /// What the user's sessions on this gateway amount to; none when there are none (left).
    pub contribution: Option<Contribution>,
    /// Why it changed: decides whether a loss is held back for the grace.
    pub cause: Cause,
    /// How long ago it changed.
    pub age: Duration,
    /// How long ago the last heartbeat of the sessions that left was heard ("last seen").
    pub silence: Duration,
}

impl Claim {
    /// Whether no session is left here, and none keeps the user's place.
    pub(crate) fn is_leave(&self) -> bool {
        self.contribution.is_none() && self.cause != Cause::Drained
    }

    /// In how many ms watchers should see the change if all goes well; negative when that moment is past.
    pub fn due_in_ms(&self, ttl: Duration, grace: Duration) -> i64 {
        let (after, since) = match self.cause {
            Cause::Silent => (ttl + grace, self.silence),
            cause => (cause.hold(ttl, grace).unwrap_or_default(), self.age),
        };
        after.as_millis() as i64 - since.as_millis() as i64
    }
}

/// What a user's living sessions on one gateway amount to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contribution {
    /// The distinct device labels, sorted.
    pub devices: Vec<Device>,
    /// The status that was set last by one of these sessions, if any did.
    pub status: Option<SetStatus>,
    /// For how long the user has been visibly online here.
    pub online_for: Duration,
}

/// A status, and how long ago it was set: the latest of a user's living sessions wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetStatus {
    /// How the session wants its user shown.
    pub show: Shown,
    /// A free text beside it.
    pub text: Option<StatusText>,
    /// How long ago it was set.
    pub age: Duration,
}

/// Why a user's standing changed; also the label of the metrics about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A session was accepted, or asserted again after a fault.
    Joined,
    /// A session set its status.
    Status,
    /// A session signed out.
    Bye,
    /// A session's socket closed without a `bye`.
    Closed,
    /// A session was silent for the TTL.
    Silent,
    /// The gateway is draining: its users have until the TTL to come back elsewhere.
    Drained,
    /// Nobody vouched for the user any more.
    Expired,
}

impl Cause {
    /// All causes, for tables and metrics.
    pub const ALL: [Self; 7] = [
        Self::Joined,
        Self::Status,
        Self::Bye,
        Self::Closed,
        Self::Silent,
        Self::Drained,
        Self::Expired,
    ];

    /// The word for it in events, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Status => "status",
            Self::Bye => "bye",
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::Drained => "drained",
            Self::Expired => "expired",
        }
    }

    /// The cause with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }

    /// How long a change of this cause is held back before watchers see it; none when it was deliberate.
    pub fn hold(self, ttl: Duration, grace: Duration) -> Option<Duration> {
        match self {
            Self::Joined | Self::Status | Self::Bye => None,
            Self::Closed | Self::Silent | Self::Expired => Some(grace),
            Self::Drained => Some(ttl),
        }
    }
}

/// Where a user stands: the latest view, and what to show instead while a loss is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whom it is about.
    pub user: UserId,
    /// The latest view.
    pub view: View,
    /// Set while the latest view is held back.
    pub held: Option<Held>,
    /// Why the user stands there, where that is told: with the news of it.
    pub change: Option<Change>,
}

/// What brought a view about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Why the user's standing changed.
    pub cause: Cause,
    /// When watchers should see it if all goes well, in ms since the Unix epoch by the store's clock.
    pub due_ms: u64,
}

/// A view that is held back for its grace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// For how much longer.
    pub remaining: Duration,
    /// What is shown until then.
    pub before: View,
}

impl Standing {
    /// A user of whom nothing is held back, and of whom there is no news.
    pub fn settled(user: UserId, view: View) -> Self {
        Self { user, view, held: None, change: None }
    }

    /// What a watcher is to see now.
    pub fn shown(&self) -> &View {
        self.held.as_ref().map_or(&self.view, |held| &held.before)
    }

    /// Why the user stands there, where that is told.
    pub fn cause(&self) -> Option<Cause> {
        self.change.map(|change| change.cause)
    }
}

/// What a store tells its gateway.
#[derive(Debug)]
pub enum Event {
    /// Users changed: where they stand now, and why.
    Transitions(Vec<Standing>),
    /// The key of a user expired: nobody vouched for it for the TTL.
    Expired(UserId),
    /// A gateway tells something to all.
    Notice(Notice),
    /// Events may have been missed: whatever is watched must be read again.
    Gap,
    /// The store was out of reach, or may have restarted empty: everything must be asserted and read again.
    Reconnected,
}

/// What can be wrong with a store that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// Connections break so often that changes are held back for as long as they do.
    Breaking,
    /// What changes is not heard.
    Deaf,
}

/// Why a store call failed. The call may or may not have taken effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer in time, or the connection is down.
    #[error("the store is out of reach: {0}")]
    Unreachable(String),
    /// The store answered with a refusal.
    #[error("the store refused: {0}")]
    Refused(String),
    /// The store answered with something that is not understood.
    #[error("the store's answer makes no sense: {0}")]
    Nonsense(String),
}
