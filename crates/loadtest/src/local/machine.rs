//! What this machine allows, as Linux tells it. What cannot be read is taken for unlimited.

use std::fs;
use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::Result;
use rustix::process::{Resource, getrlimit};

use crate::limits::Limits;

/// The limits that a run on one machine meets.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The hard limit of one process.
    pub(crate) open_files_max: u64,
    /// The most that the hard limit can be set to.
    pub(crate) nr_open: u64,
    /// Files of all processes that may still be opened.
    pub(crate) open_files_left: u64,
    /// Local ports of each source address.
    pub(crate) ports: RangeInclusive<u16>,
    /// Bytes that can be had without swapping.
    pub(crate) memory_available: u64,
    /// Processes and threads that may still be started.
    pub(crate) tasks_left: u64,
    pub(crate) somaxconn: u64,
    pub(crate) tcp_max_syn_backlog: u64,
    /// Connections that a firewall keeps in mind; unlimited where there is none.
    pub(crate) conntrack_max: u64,
    /// Buckets of the kernel's hash table of TCP sockets.
    pub(crate) socket_buckets: u64,
}

impl Machine {
    /// Reads all limits, and raises the soft limit of open files to the hard one.
    pub(crate) fn read() -> Result<Self> {
        let Limits { open_files_max, ports } = Limits::of_this_process()?;
        Ok(Self {
            open_files_max,
            nr_open: number("/proc/sys/fs/nr_open"),
            open_files_left: open_files_left(),
            ports,
            memory_available: memory_available(),
            tasks_left: tasks_left(),
            somaxconn: number("/proc/sys/net/core/somaxconn"),
            tcp_max_syn_backlog: number("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
            conntrack_max: number("/proc/sys/net/netfilter/nf_conntrack_max"),
            socket_buckets: socket_buckets(),
        })
    }
}

fn number(path: &str) -> u64 {
    parse(&fs::read_to_string(path).unwrap_or_default()).unwrap_or(u64::MAX)
}

fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// Negative in a network namespace that has no table of its own: then all share one of that size.
fn socket_buckets() -> u64 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_ehash_entries").unwrap_or_default();
    parse::<i64>(&text).map_or(u64::MAX, i64::unsigned_abs)
}

/// `file-nr` holds the open files, nothing, and how many may be.
fn open_files_left() -> u64 {
    let text = fs::read_to_string("/proc/sys/fs/file-nr").unwrap_or_default();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(parse).collect();
    match numbers.as_slice() {
        [open, .., max] => max.saturating_sub(*open),
        _ => u64::MAX,
    }
}

fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = lines.next().and_then(|rest| parse::<u64>(rest.trim().strip_suffix("kB")?));
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

/// Three limits hold at once: of process ids, of threads, and of this user's.
fn tasks_left() -> u64 {
    let user = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let limits = [number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max"), user];
    // As in `0.50 0.40 0.30 2/345 6789`, where 345 exist.
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let existing = load.split_whitespace().nth(3).and_then(|tasks| parse(tasks.split_once('/')?.1));
    let least = limits.into_iter().min().unwrap_or(u64::MAX);
    least.saturating_sub(existing.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_what_it_allows() {
        let machine = Machine::read().unwrap();
        assert!(machine.memory_available > 1 << 20);
        assert!(machine.memory_available < u64::MAX, "{machine:?}");
        assert!(machine.tasks_left > 0 && machine.open_files_left > 0, "{machine:?}");
    }
}
