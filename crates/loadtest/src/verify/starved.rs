//! How long processes were ready to run and did not, since the machine was busy: from Linux's
//! `/proc/PID/task/TID/schedstat`, whose second number is that time in ns. Elsewhere it is unknown.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use crate::verify::record::{Us, us};

/// What each thread had waited when it was last looked at.
#[derive(Debug)]
pub(crate) struct Starved {
    waited_ns: HashMap<(u32, u32), u64>,
    looked: Instant,
}

impl Starved {
    pub(crate) fn new() -> Self {
        Self { waited_ns: HashMap::new(), looked: Instant::now() }
    }

    /// For how long the process that waited the longest did so since the last look; of each its thread
    /// that did. A change passes through several processes, but waits in one at a time. None waited
    /// longer than the time that passed, whatever the kernel, which now and then counts minutes, says.
    pub(crate) fn since_last(&mut self, pids: &[u32]) -> Us {
        self.waited_ns.retain(|(pid, _), _| pids.contains(pid));
        let passed = us(self.looked.elapsed());
        self.looked = Instant::now();
        let waits = pids.iter().map(|pid| self.of_process(*pid));
        worst(waits).min(passed)
    }

    fn of_process(&mut self, pid: u32) -> Us {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
        let ids = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        ids.map(|thread| self.of_thread(pid, thread)).max().unwrap_or(0)
    }

    fn of_thread(&mut self, pid: u32, thread: u32) -> Us {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat"));
        let Some(waited_ns) = text.ok().and_then(|text| parse(&text)) else { return 0 };
        let last = self.waited_ns.insert((pid, thread), waited_ns);
        waited_ns.saturating_sub(last.unwrap_or(waited_ns)) / 1000
    }
}

fn worst(waits: impl Iterator<Item = Us>) -> Us {
    waits.max().unwrap_or(0)
}

fn parse(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_time_waited() {
        assert_eq!(parse("1234 567 89\n"), Some(567));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn of_several_processes_the_one_that_waited_the_longest_counts() {
        assert_eq!(worst([30_000, 70_000, 50_000].into_iter()), 70_000);
        assert_eq!(worst([].into_iter()), 0);
    }

    #[test]
    fn nothing_is_known_of_a_process_before_the_second_look_nor_of_one_that_is_gone() {
        let mut starved = Starved::new();
        assert_eq!(starved.since_last(&[std::process::id(), u32::MAX]), 0);
    }
}
