//! How many processes a run on one machine takes, and what they will need. Pure.

use std::time::Duration;

use crate::local::args::LocalArgs;
use crate::scenario::Scenario;

/// Of 20,000 open files, a common limit, so that some are left for a gateway that gets more than
/// its share.
const CONNECTIONS_PER_PROCESS_MAX: u64 = 18_000;

/// Files open besides the sockets of connections, in any process.
pub(super) const OPEN_FILES_ELSEWHERE: u64 = 256;

/// What a connection costs, all in all, as measured: the kernel for both ends of its socket, then the
/// gateway, the tester and Redis.
const BYTES_PER_CONNECTION: u64 = 10 * 1024 + 3 * 1024 + 1536 + 512;

/// A watch, on both of its sides.
const BYTES_PER_WATCH: u64 = 32;

/// Where some watch thousands, most watch few.
const WATCHES_COUNTED_MAX: u32 = 100;

/// A process before it has any connection: a gateway with its keeper, and a worker.
const BYTES_PER_GATEWAY: u64 = 41 << 20;
const BYTES_PER_WORKER: u64 = 12 << 20;

/// A user's id where a file names them, and where it is in a table.
const BYTES_PER_NAME: u64 = 100;

/// Redis, and the tester's first process.
const BYTES_ELSEWHERE: u64 = 64 << 20;

/// A gateway with two threads of work and the main one, its shell and what that waits by; Redis has
/// some more.
const TASKS_PER_GATEWAY: u64 = 6;
const TASKS_PER_WORKER: u64 = 2;
const TASKS_ELSEWHERE: u64 = 32;

/// Two may get lost.
const HEARTBEATS_PER_TTL: u32 = 3;

/// In the end there is nobody to be sent elsewhere; but where gateways are restarted.
const DRAIN: Duration = Duration::from_secs(5);

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) connections: u64,
    /// The most that one connection watches.
    pub(crate) watch: u32,
    /// How many names each process of the tester keeps; none where they follow from a number.
    pub(crate) names: u64,
    pub(crate) gateways: u32,
    /// Processes of the tester that hold connections.
    pub(crate) workers: u32,
    pub(crate) heartbeat: Duration,
    pub(crate) ttl: Duration,
    /// How long a gateway that is stopped sends its clients elsewhere.
    pub(crate) drain: Duration,
}

impl Plan {
    /// As few processes as the limit on open files allows.
    pub(crate) fn of(args: &LocalArgs, scenario: &Scenario, open_files_max: u64) -> Self {
        let per_process = open_files_max.saturating_sub(OPEN_FILES_ELSEWHERE);
        let per_process = per_process.clamp(1, CONNECTIONS_PER_PROCESS_MAX);
        let enough = scenario.connections().div_ceil(per_process) as u32;
        let heartbeat = scenario.heartbeat.interval.0;
        Self {
            connections: scenario.connections(),
            watch: scenario.contacts.watched_max(),
            names: scenario.people.as_ref().map_or(0, |_| scenario.users.into()),
            gateways: args.gateways.unwrap_or(enough),
            workers: enough,
            heartbeat,
            drain: if scenario.restarts_us().is_empty() { Duration::ZERO } else { DRAIN },
            ttl: args.ttl.map_or(heartbeat * HEARTBEATS_PER_TTL, |ttl| ttl.0),
        }
    }

    /// A gateway's connections, or a worker's, whichever are more.
    pub(crate) fn share(&self) -> u64 {
        self.connections.div_ceil(self.gateways.min(self.workers).into())
    }

    /// Bytes, the kernel's included.
    pub(crate) fn memory(&self) -> u64 {
        let watches = u64::from(self.watch.min(WATCHES_COUNTED_MAX));
        let connection = BYTES_PER_CONNECTION + watches * BYTES_PER_WATCH;
        self.connections * connection
            + u64::from(self.gateways) * BYTES_PER_GATEWAY
            + u64::from(self.workers) * (BYTES_PER_WORKER + self.names * BYTES_PER_NAME)
            + BYTES_ELSEWHERE
    }

    /// Processes and threads.
    pub(crate) fn tasks(&self) -> u64 {
        u64::from(self.gateways) * TASKS_PER_GATEWAY
            + u64::from(self.workers) * TASKS_PER_WORKER
            + TASKS_ELSEWHERE
    }

    /// Open files of all processes together: both ends of each socket.
    pub(crate) fn open_files(&self) -> u64 {
        let processes = u64::from(self.gateways) + u64::from(self.workers);
        2 * self.connections + processes * OPEN_FILES_ELSEWHERE
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::observe::Targets;
    use crate::plan;

    fn plan(args: &str, open_files_max: u64) -> Plan {
        let words = ["presence-loadtest", "local"].into_iter().chain(args.split_whitespace());
        let Command::Local(args) = Cli::parse_from(words).command else { unreachable!() };
        let scenario = plan::scenario(&args.run(Vec::new(), Targets::default())).unwrap();
        Plan::of(&args, &scenario, open_files_max)
    }

    #[test]
    fn a_million_connections_take_as_many_processes_as_open_files_ask_for() {
        let million = plan("--connections 1000000", 20_000);
        assert_eq!((million.gateways, million.workers), (56, 56));
        assert!(million.share() + OPEN_FILES_ELSEWHERE <= 20_000);
        assert_eq!(plan("--connections 1000000", 1 << 20).gateways, 56);
        assert_eq!(plan("--connections 1000000", 1024).gateways, 1303);
        assert_eq!(plan("--connections 1000 --gateways 3", 1024).gateways, 3);
    }

    #[test]
    fn a_silent_connection_is_alive_for_three_heartbeats_unless_said_otherwise() {
        let secs = |args| plan(args, 20_000).ttl.as_secs();
        assert_eq!((secs(""), secs("--heartbeat 30s")), (30, 90));
        assert_eq!(secs("--heartbeat 30s --ttl 70s"), 70);
    }

    #[test]
    fn the_memory_for_a_million_is_what_was_measured_before() {
        let gib =
            plan("--connections 1000000 --watch 0", 20_000).memory() as f64 / f64::from(1 << 30);
        assert!((14.0..18.0).contains(&gib), "{gib}");
    }
}
