//! The protocol from outside: what any client or gateway may rely on.

mod any;
mod properties;
mod refusals;
mod types;
mod vectors;
