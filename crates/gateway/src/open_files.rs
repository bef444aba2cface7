//! Open files: each socket is one, and a gateway that may open no more leaves those who come unanswered, where a limit of
//! its own would refuse them at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::debug;

use crate::settings::Settings;

/// Files open besides the sockets of clients: listeners, connections to the store, files that are read anew.
const ELSEWHERE: u64 = 64;

/// This share of the rest is left to those who are not in yet, so that they can be refused.
const NEWCOMERS: u64 = 32;

/// Raises this process's limit as far as it may, and lowers `max_connections` to what can be open. Answers what to say of
/// that, if it had to.
pub fn fit(settings: &mut Settings) -> Option<String> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        debug!(%error, "the limit on open files is left as it is");
    }
    let limit = getrlimit(Resource::Nofile).current?;
    let room = limit.saturating_sub(ELSEWHERE);
    let room = u32::try_from(room - room / NEWCOMERS).unwrap_or(u32::MAX);
    let wanted = settings.max_connections;
    if room >= wanted {
        return None;
    }
    settings.max_connections = room;
    Some(format!(
        "at most {room} connections, since {limit} files may be open: raise that limit (ulimit -Hn, LimitNOFILE) for the \
         {wanted} of max_connections"
    ))
}
