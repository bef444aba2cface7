//! The gateway: sockets, HTTP, authentication and settings around the presence domain.
//!
//! In reading order: what an operator sets, how a gateway starts and stops, how a connection is accepted and upgraded,
//! and its life as a session.

pub mod logs;
pub mod open_files;
pub mod settings;

mod engine;
mod gateway;
mod server;
mod socket;
mod tls;

mod admission;
mod app;
mod http;
mod metrics;
mod upgrade;

pub mod auth;
mod consent;
mod outbound;

mod connection;

#[cfg(feature = "echo")]
pub mod echo;

pub use gateway::Gateway;
