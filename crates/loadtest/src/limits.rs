//! What the system lets one process do: open files and, for each source address, local ports.

use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files open besides the sockets: the runtime's, the terminal, the report.
const OPEN_FILES_ELSEWHERE: u64 = 32;

const PORT_RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The ports Linux gives out by default, where the file cannot be read.
const PORTS_BY_DEFAULT: RangeInclusive<u16> = 32_768..=60_999;

/// What this process may use.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) open_files_max: u64,
    /// On each source address.
    pub(crate) ports: RangeInclusive<u16>,
}

impl Limits {
    /// Raises the soft limit of open files to the hard one, and reads both limits.
    pub(crate) fn of_this_process() -> Result<Self> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: maximum, maximum };
        setrlimit(Resource::Nofile, raised).context("raising the limit of open files")?;
        Ok(Self {
            open_files_max: maximum.unwrap_or(u64::MAX),
            ports: read_ports().unwrap_or(PORTS_BY_DEFAULT),
        })
    }

    /// How many connections one process can hold.
    pub(crate) fn connections_max(&self) -> u64 {
        self.open_files_max.saturating_sub(OPEN_FILES_ELSEWHERE)
    }

    /// What falls short for so many connections of one process, one sentence each.
    pub(crate) fn shortfalls(&self, connections: u32, addresses: u32) -> Vec<String> {
        let files = self.files_shortfall(connections);
        files.into_iter().chain(self.ports_shortfall(connections, addresses)).collect()
    }

    /// What falls short of open files, if anything does.
    pub(crate) fn files_shortfall(&self, connections: u32) -> Option<String> {
        let files_needed = u64::from(connections) + OPEN_FILES_ELSEWHERE;
        (files_needed > self.open_files_max).then(|| {
            format!(
                "{connections} connections need {files_needed} open files, and one process may \
                 have {} (ulimit -Hn): use at most {} connections, or several processes",
                self.open_files_max,
                self.connections_max(),
            )
        })
    }

    /// What falls short of local ports, if anything does, with all processes taken together.
    pub(crate) fn ports_shortfall(&self, connections: u32, addresses: u32) -> Option<String> {
        let per_address = u64::from(connections.div_ceil(addresses));
        let ports = self.ports.len() as u64;
        (per_address > ports).then(|| {
            format!(
                "{per_address} connections from each source address need as many ports, and there \
                 are {ports} ({PORT_RANGE_FILE}): use more source addresses",
            )
        })
    }

    /// What falls short of local ports for so many connections to one address of a gateway, where
    /// the system chooses from where.
    pub(crate) fn ports_shortfall_to_one(&self, connections: u64) -> Option<String> {
        let ports = self.ports.len() as u64;
        (connections > ports).then(|| {
            format!(
                "{connections} connections of this host to one address of a gateway need as many \
                 ports, and there are {ports} ({PORT_RANGE_FILE}): use more gateways (--url), or \
                 workers of other hosts (--remote-workers)",
            )
        })
    }
}

fn read_ports() -> Option<RangeInclusive<u16>> {
    let text = fs::read_to_string(PORT_RANGE_FILE).ok()?;
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    let ports = first.parse().ok()?..=last.trim().parse().ok()?;
    (!ports.is_empty()).then_some(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { open_files_max: 20_000, ports: 30_001..=58_000 };

    #[test]
    fn what_fits_has_no_shortfall() {
        assert_eq!(LIMITS.shortfalls(19_968, 4), [""; 0]);
    }

    #[test]
    fn too_few_open_files_are_told_with_what_would_fit() {
        let shortfalls = LIMITS.shortfalls(25_000, 4);
        assert_eq!(shortfalls.len(), 1);
        for part in ["25000", "25032", "20000", "19968"] {
            assert!(shortfalls[0].contains(part), "{shortfalls:?}");
        }
    }

    #[test]
    fn too_few_ports_are_told_as_well() {
        let shortfalls = LIMITS.shortfalls(60_000, 2);
        assert_eq!(shortfalls.len(), 2);
        assert!(shortfalls[1].contains("30000") && shortfalls[1].contains("28000"));
    }
}
