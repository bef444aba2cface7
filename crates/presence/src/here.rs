//! Who is here: the users of this gateway's sessions, until when each session lives, and what the store is told of them.

pub(crate) mod claims;
pub(crate) mod draining;
pub(crate) mod roster;
pub(crate) mod vouch;
pub(crate) mod wheel;
