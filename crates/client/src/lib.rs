//! A client of the presence gateway that keeps a correct view of the users it watches.
//!
//! [`Client`] is a handle; a private task owns the socket. It reconnects with backoff and full
//! jitter, watches everybody again, and never lets an older state replace a newer one. The view
//! outlives a lost connection: what it holds is then marked [`Freshness::Stale`].
//!
//! ```no_run
//! use presence_client::{Client, Credential, Event, Options};
//! use presence_protocol::UserId;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let ana = Credential::User(UserId::new("ana")?);
//! let client = Client::connect(Options::new("ws://127.0.0.1:8080/ws".parse()?, ana));
//! let mut events = client.events();
//! client.watch([UserId::new("bo")?]);
//! while let Some(event) = events.next().await {
//!     if let Event::Changed(states) = event {
//!         println!("{states:?}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod client;
mod dial;
mod options;

mod event;
mod events;

mod shared;
mod view;

mod actor;
mod online;

mod asks;
mod pulse;
mod retry;
mod socket;

pub use client::{Client, QueryError};
pub use dial::{Trust, dial};
pub use event::{DisconnectReason, Event};
pub use events::Events;
pub use options::{Credential, Dial, GrantSource, Heartbeat, Options, TokenSource, Transport};
pub use view::{Freshness, Known};
