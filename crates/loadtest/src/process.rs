//! Memory and CPU time of a process, from `/proc`.

use std::fs;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Usage {
    /// Resident bytes. What the kernel holds for the sockets is not among them.
    pub(crate) rss: u64,
    /// CPU time since the process began, in the program and in the kernel.
    pub(crate) cpu_secs: f64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("reading {path}"))
        };
        let rss = parse_rss(&read("status")?).context("no VmRSS in /proc/PID/status")?;
        let ticks = parse_cpu_ticks(&read("stat")?).context("no times in /proc/PID/stat")?;
        Ok(Self { rss, cpu_secs: secs(ticks) })
    }

    /// To the nanosecond, where of others it is told in ticks of 10 ms.
    pub(crate) fn of_this_process() -> Result<Self> {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_secs = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
        Ok(Self { cpu_secs, ..Self::of(std::process::id())? })
    }
}

fn secs(cpu_ticks: u64) -> f64 {
    cpu_ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn parse_rss(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Fields 14 and 15 of proc(5)'s stat. The second, a name in parentheses, may hold anything.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_times_are_read_whatever_the_process_is_called() {
        assert_eq!(parse_rss("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 * 1024 * 1024));
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 700 23 0 0 20 0";
        assert_eq!(parse_cpu_ticks(stat), Some(723));
    }

    #[test]
    fn this_process_uses_something() {
        assert!(Usage::of_this_process().unwrap().rss > 0);
    }
}
