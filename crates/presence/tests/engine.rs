//! The engine on the embedded store, with time that the tests move: deadlines, grace, and random histories against a
//! model. No sockets; a client is what reads a session's work.

#[path = "engine/client.rs"]
mod client;
#[path = "engine/deadlines.rs"]
mod deadlines;
#[path = "engine/histories.rs"]
mod histories;
