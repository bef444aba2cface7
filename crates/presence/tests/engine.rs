//! The engine on the embedded store, with time that the tests move: deadlines, grace, and random histories against a
//! model. No sockets; a client is what reads a session's work.

#![allow(clippy::unchecked_time_subtraction, reason = "a test that subtracts too much is to fail")]

#[path = "engine/client.rs"]
mod client;
#[path = "engine/deadlines.rs"]
mod deadlines;
#[path = "engine/draining.rs"]
mod draining;
#[path = "engine/histories.rs"]
mod histories;
#[path = "engine/outages.rs"]
mod outages;
#[path = "engine/races.rs"]
mod races;
#[path = "engine/slow.rs"]
mod slow;
#[path = "engine/storms.rs"]
mod storms;
