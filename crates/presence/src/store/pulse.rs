//! What a gateway learns of itself and of the others when it renews its lease.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// What a gateway learns when it renews its lease.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// This gateway's lease is lost, and with it whatever else the store was told; or it had lapsed, and others may have
    /// found its users gone.
    pub lost: bool,
    /// For how long the store has remembered what it was told; none when that is as long as anybody can tell.
    pub age: Option<Duration>,
    /// Gateways that the store knew before it lost everything and that have not found out yet, and until when their users
    /// may live all the same.
    pub missing: HashMap<String, Instant>,
    /// Gateways that are newly found dead.
    pub lapsed: Vec<Lapse>,
}

/// A gateway that did not renew its lease.
#[derive(Debug, PartialEq, Eq)]
pub struct Lapse {
    /// Its id.
    pub gateway: String,
    /// When its users, unless they are back elsewhere, are to be found offline.
    pub due_in: Duration,
}

/// What is known of a gateway's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The gateway's id.
    pub gateway: String,
    /// How long ago it was renewed.
    pub age: Duration,
    /// For how long the gateway has had one.
    pub held_for: Duration,
    /// What that means.
    pub state: LeaseState,
}

/// Whether a gateway renews its lease in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// It does.
    Good,
    /// It should have by now.
    Late,
    /// It did not: the gateway is dead, or cut off.
    Lapsed,
}

impl LeaseState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "late",
            Self::Lapsed => "lapsed",
        }
    }
}
