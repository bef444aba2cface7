//! What is written down while a check runs: what sessions did, what watchers were told, and what
//! was broken. Facts only; what follows from them is decided by `truth` and `judge`.
//!
//! Times are µs since the start of the check, by this process's monotonic clock.

mod told;

use std::time::Duration;

use presence_protocol::Show;

pub(crate) use told::{Backward, Seen, Sight, Told};

/// µs since the start of the check.
pub(crate) type Us = u64;

/// The n-th simulated user.
pub(crate) type User = u32;

/// The n-th place for a gateway; what is restarted there has the same number.
pub(crate) type Place = usize;

pub(crate) fn us(duration: Duration) -> Us {
    duration.as_micros() as Us
}

/// When something happened, as well as it is known: the clock just before it was done, and the
/// clock just after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) after: Us,
    pub(crate) by: Us,
}

impl Moment {
    #[cfg(test)]
    pub(crate) fn at(at: Us) -> Self {
        Self { after: at, by: at }
    }
}

/// From `start` until just before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Us,
    pub(crate) end: Us,
}

impl Span {
    pub(crate) fn has(&self, at: Us) -> bool {
        self.start <= at && at < self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// How a session ended, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Bye,
    /// The client closed the TCP connection.
    Closed,
    /// The client stopped heartbeats and reading; the socket stays open.
    Frozen,
    /// The gateway closed it with this code, or it broke without one.
    Cut(Option<u16>),
}

/// How a session asked for its user to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetStatus {
    pub(crate) set: Moment,
    pub(crate) show: Show,
    pub(crate) text: String,
}

/// What one session of a user did.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) device: Option<&'static str>,
    /// Just before `hello` was written.
    pub(crate) hello: Us,
    /// Just after `welcome` was read; none came when the gateway was in trouble.
    pub(crate) welcome: Option<Us>,
    /// The last sign of life.
    pub(crate) beat: Moment,
    /// The one before it: the last may have been written to a gateway that was gone already.
    pub(crate) beat_before: Us,
    /// Times without a sign of life that were long enough to be taken for a death.
    pub(crate) silences: Vec<Span>,
    pub(crate) status: Option<SetStatus>,
    pub(crate) end: Option<(Moment, Ending)>,
}

impl Facts {
    pub(crate) fn new(user: User, place: Place, device: Option<&'static str>, hello: Us) -> Self {
        Self {
            user,
            place,
            device,
            hello,
            welcome: None,
            beat: Moment { after: hello, by: hello },
            beat_before: hello,
            silences: Vec::new(),
            status: None,
            end: None,
        }
    }

    pub(crate) fn is_living(&self) -> bool {
        self.end.is_none()
    }

    /// Notes a sign of life. After a gap of `gap_min` the session may have been taken for dead.
    pub(crate) fn beat(&mut self, beat: Moment, gap_min: Us) {
        if beat.by.saturating_sub(self.beat.after) >= gap_min {
            self.silences.push(Span { start: self.beat.after, end: beat.by });
        }
        self.beat_before = self.beat.after;
        self.beat = beat;
    }
}

/// What can be broken.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, serde::Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// SIGKILL to a gateway
    GatewayKill,
    /// SIGSTOP to a gateway, and SIGCONT
    GatewayPause,
    /// SIGTERM to a gateway, and started again at the same address
    GatewayRestart,
    /// SIGKILL to Redis, and started again empty
    RedisKill,
    /// SIGSTOP to Redis, and SIGCONT
    RedisPause,
    /// Every subscription's connection is cut by Redis
    SubscriberKill,
    /// Every other connection to Redis is cut by it
    ConnectionKill,
    /// A primary of the cluster is killed, and its replica takes over
    ClusterFailover,
    /// SIGSTOP to a primary of the cluster, and SIGCONT after its replica took over
    ClusterHang,
}

impl FaultKind {
    pub(crate) fn is_of_gateway(self) -> bool {
        matches!(self, Self::GatewayKill | Self::GatewayPause | Self::GatewayRestart)
    }
}

/// Something that was broken for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Which gateway, for the faults of one.
    pub(crate) place: Option<Place>,
    pub(crate) from: Moment,
    /// When it was whole again; for a drain, when the process had ended.
    pub(crate) healed: Option<Us>,
}

impl Fault {
    /// Until when it lasted, as far as is known.
    pub(crate) fn until(&self) -> Us {
        self.healed.unwrap_or(Us::MAX)
    }
}
