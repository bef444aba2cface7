//! Presence: who is online, and who is told. The domain of the gateway, without sockets and without HTTP.
//!
//! Data moves in one direction around a loop, and the modules below are in its order:
//!
//! ```text
//! session -> here: roster, claims -> store -> (Redis) -> events -> relay: grace -> watch table -> session: outbox
//!              \-> here: wheel: deadlines of sessions that fall silent
//! ```
//!
//! Nothing that a connection calls waits for the store or for another connection.

mod session;

mod here;

pub mod store;

mod relay;

mod watch;

// Beside the loop: what must be asked, what the app's backend wants, and what all share.
mod backend;
mod clock;
mod config;
mod engine;
mod health;
mod metrics;
mod reading;
mod strain;

pub use backend::SessionList;
pub use config::{Config, Over, SessionLimit};
pub use engine::{Joining, Presence};
pub use metrics::Metrics;
pub use session::{Asked, Deciding, Decision, Judge, Request, Session, TooManySessions, Work};
pub use watch::Veils;
