//! Presence: who is online, and who is told. The domain of the gateway, without sockets and without HTTP.
//!
//! Data moves in one direction around a loop, and the modules below are in its order:
//!
//! ```text
//! session -> roster -> claims -> store -> (Redis) -> events -> relay, grace -> watch table -> outbox -> session
//!     \-> wheel: deadlines of sessions that fall silent
//! ```
//!
//! Nothing that a connection calls waits for the store or for another connection.

mod clock;
mod config;
mod engine;
mod metrics;
mod strain;

mod desk;
mod roster;
mod session;
mod wheel;

mod claims;
mod draining;
mod health;
mod vouch;

pub mod store;

mod grace;
mod reading;
mod reads;
mod reconcile;
mod relay;
mod unanswered;

mod outbox;
mod rounds;
mod watch;

mod backend;
mod orders;
mod questions;

pub use backend::SessionList;
pub use config::{Config, Over, SessionLimit};
pub use engine::{Joining, Presence};
pub use metrics::Metrics;
pub use session::{Asked, Deciding, Decision, Judge, Request, Session, TooManySessions, Work};
pub use watch::Veils;
