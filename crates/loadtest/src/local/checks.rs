//! Whether this machine can carry a plan: what falls short, by how much, and what changes it. Pure.

use std::fmt::{self, Display};

use crate::local::machine::Machine;
use crate::local::plan::{OPEN_FILES_ELSEWHERE, Plan};
use crate::report::written;
use crate::sources::CONNECTIONS_PER_ADDRESS;

/// Connections wait in the kernel until they are accepted; so many may at once in a storm.
const BACKLOG: u64 = 1024;

/// Something that there is too little of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) weight: Weight,
    /// What it is, and where it is set.
    what: &'static str,
    there_is: String,
    needed: String,
    /// A command, or what else to do.
    remedy: String,
}

/// Whether the run can be done all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Refused,
    /// It may be slower, or lose connections when many come at once.
    Doubtful,
}

impl Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, there_is, needed, remedy, .. } = self;
        write!(f, "{what}: {there_is}, and {needed} needed. {remedy}")
    }
}

/// All that falls short, what matters most first.
pub(crate) fn shortfalls(plan: &Plan, machine: &Machine) -> Vec<Shortfall> {
    let found = [
        open_files(plan, machine),
        open_files_of_all(plan, machine),
        ports(plan, machine),
        memory(plan, machine),
        tasks(plan, machine),
        backlog("net.core.somaxconn", machine.somaxconn),
        backlog("net.ipv4.tcp_max_syn_backlog", machine.tcp_max_syn_backlog),
        conntrack(plan, machine),
        socket_table(plan, machine),
    ];
    found.into_iter().flatten().collect()
}

/// A shortfall of what is counted, when there is less than needed.
fn short(
    weight: Weight,
    what: &'static str,
    there_are: u64,
    needed: u64,
    remedy: impl FnOnce() -> String,
) -> Option<Shortfall> {
    (there_are < needed).then(|| Shortfall {
        weight,
        what,
        there_is: written::count(there_are),
        needed: format!("{} are", written::count(needed)),
        remedy: remedy(),
    })
}

fn open_files(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let needed = plan.share() + OPEN_FILES_ELSEWHERE;
    let what = "Open files that one process may have (ulimit -Hn)";
    short(Weight::Refused, what, machine.open_files_max, needed, || {
        let fewer = machine.open_files_max.saturating_sub(OPEN_FILES_ELSEWHERE).max(1);
        let enough = plan.connections.div_ceil(fewer);
        let first = if machine.nr_open < needed {
            format!("sysctl -w fs.nr_open={needed} && ")
        } else {
            String::new()
        };
        format!(
            "As root: {first}ulimit -n {needed}, in the shell that starts this; or at least \
             --gateways {enough}"
        )
    })
}

fn open_files_of_all(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let (left, needed) = (machine.open_files_left, plan.open_files());
    short(Weight::Refused, "Open files left to all processes (fs.file-max)", left, needed, || {
        format!("As root: sysctl -w fs.file-max={}", needed * 2)
    })
}

/// So many that a free one is found at the first try or the second.
fn ports(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let needed = 2 * plan.connections.min(CONNECTIONS_PER_ADDRESS.into());
    let what = "Local ports of each address (net.ipv4.ip_local_port_range)";
    let there_are = machine.ports.len() as u64;
    short(Weight::Refused, what, there_are, needed, || {
        "As root: sysctl -w net.ipv4.ip_local_port_range='32768 60999'".to_owned()
    })
}

fn memory(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let (available, needed) = (machine.memory_available, plan.memory());
    let bytes = |bytes: u64| written::bytes(bytes as f64);
    (available < needed).then(|| Shortfall {
        weight: Weight::Refused,
        what: "Memory available, the kernel's share included (MemAvailable in /proc/meminfo)",
        there_is: bytes(available),
        needed: format!("about {} are", bytes(needed)),
        remedy: format!(
            "End other programs, or use at most --connections {}",
            u128::from(plan.connections) * u128::from(available) / u128::from(needed)
        ),
    })
}

fn tasks(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let what = "Processes and threads left (kernel.pid_max, kernel.threads-max, ulimit -u)";
    let needed = plan.tasks();
    short(Weight::Refused, what, machine.tasks_left, needed, || {
        let enough = (needed * 2).max(1 << 16);
        format!(
            "As root: sysctl -w kernel.pid_max={enough} kernel.threads-max={enough}; and \
             ulimit -u {enough}"
        )
    })
}

fn backlog(what: &'static str, there_are: u64) -> Option<Shortfall> {
    short(Weight::Doubtful, what, there_are, BACKLOG, || format!("As root: sysctl -w {what}=4096"))
}

fn conntrack(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let what = "Connections that the firewall keeps in mind (net.netfilter.nf_conntrack_max)";
    let needed = plan.connections * 11 / 10;
    short(Weight::Doubtful, what, machine.conntrack_max, needed, || {
        format!(
            "If it watches loopback, as root: sysctl -w net.netfilter.nf_conntrack_max={}",
            needed * 2
        )
    })
}

/// On loopback each connection has two entries; with more than two to a bucket, each packet's way to its socket becomes the
/// dearest part of a heartbeat.
fn socket_table(plan: &Plan, machine: &Machine) -> Option<Shortfall> {
    let what = "Buckets of the kernel's table of TCP sockets (net.ipv4.tcp_ehash_entries)";
    let needed = plan.connections;
    short(Weight::Doubtful, what, machine.socket_buckets, needed, || {
        let enough = (needed * 2).next_power_of_two();
        format!(
            "As root, in a network namespace with a table of its own: sysctl -w \
             net.ipv4.tcp_child_ehash_entries={enough} && ip netns add presence && ip -n presence \
             link set lo up && ip netns exec presence presence-loadtest local …; or boot with \
             thash_entries={enough}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLAN: Plan = Plan {
        names: 0,
        connections: 1_000_000,
        watch: 20,
        gateways: 56,
        workers: 56,
        heartbeat: Duration::from_secs(30),
        ttl: Duration::from_secs(90),
        drain: Duration::ZERO,
    };

    fn machine() -> Machine {
        Machine {
            open_files_max: 20_000,
            nr_open: 1 << 20,
            open_files_left: 3_000_000,
            ports: 32_768..=60_999,
            memory_available: 22 << 30,
            tasks_left: 30_000,
            somaxconn: 4096,
            tcp_max_syn_backlog: 2048,
            conntrack_max: u64::MAX,
            socket_buckets: 1 << 20,
        }
    }

    fn told(plan: &Plan, machine: &Machine) -> String {
        let shortfalls = shortfalls(plan, machine);
        assert_eq!(shortfalls.len(), 1, "{shortfalls:?}");
        shortfalls[0].to_string()
    }

    #[test]
    fn what_this_machine_can_carry_has_no_shortfall() {
        assert_eq!(shortfalls(&PLAN, &machine()), []);
    }

    #[test]
    fn each_limit_that_falls_short_is_told_with_its_value_the_need_and_the_command() {
        let good = machine();
        let table = [
            (Machine { open_files_max: 4096, ..good.clone() }, "4,096", "ulimit -n 18114"),
            (Machine { open_files_left: 1_000, ..good.clone() }, "1,000", "fs.file-max=4057344"),
            (Machine { ports: 50_000..=55_000, ..good.clone() }, "5,001", "ip_local_port_range="),
            (
                Machine { memory_available: 8 << 30, ..good.clone() },
                "8.00 GiB",
                "--connections 447875",
            ),
            (Machine { tasks_left: 100, ..good.clone() }, "100", "kernel.pid_max=65536"),
            (Machine { somaxconn: 128, ..good.clone() }, "128", "net.core.somaxconn=4096"),
            (Machine { tcp_max_syn_backlog: 64, ..good.clone() }, "64", "syn_backlog=4096"),
            (Machine { conntrack_max: 65_536, ..good.clone() }, "65,536", "conntrack_max=2200000"),
            (Machine { socket_buckets: 262_144, ..good }, "262,144", "thash_entries=2097152"),
        ];
        for (machine, value, command) in table {
            let told = told(&PLAN, &machine);
            assert!(told.contains(value) && told.contains(command), "{told}");
        }
    }

    #[test]
    fn too_few_gateways_are_told_how_many_would_do() {
        let told = told(&Plan { gateways: 10, ..PLAN }, &machine());
        assert!(told.contains("100,256") && told.contains("--gateways 51"), "{told}");
    }

    #[test]
    fn a_limit_above_what_the_kernel_allows_is_raised_first() {
        let machine = Machine { open_files_max: 4096, nr_open: 8192, ..machine() };
        assert!(told(&PLAN, &machine).contains("sysctl -w fs.nr_open=18114 && ulimit -n 18114"));
    }
}
