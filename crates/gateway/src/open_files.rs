//! Open files: each socket is one, and a gateway that may open no more leaves those who come unanswered, where a limit of
//! its own would refuse them at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::settings::Settings;

/// Files open besides the sockets of clients: listeners, connections to the store, files that are read anew.
const ELSEWHERE: u64 = 64;

/// This share of the rest is left to those who are not in yet, so that they can be refused.
const NEWCOMERS: u64 = 32;

/// Raises this process's limit as far as it may, and lowers `max_connections` to what can be open.
pub fn fit(settings: &mut Settings) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        warn!(%error, "the limit on open files could not be raised to what is allowed");
    }
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let room = limit.saturating_sub(ELSEWHERE);
    let room = (room - room / NEWCOMERS).try_into().unwrap_or(u32::MAX);
    if room < settings.max_connections {
        warn!(
            open_files = limit,
            max_connections = room,
            "so many connections can be held and no more: raise the limit on open files (ulimit -n, LimitNOFILE) above \
             max_connections = {}",
            settings.max_connections
        );
        settings.max_connections = room;
    }
}
