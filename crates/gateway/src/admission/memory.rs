//! How much memory is used, and how much may be: past that, newcomers are turned away before those who are here suffer.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::app::SharedApp;
use crate::settings::MemoryLimit;

/// Where nothing is set: a fifth is left for what others on the machine need, and for what was not foreseen.
const SHARE_PERCENT: u64 = 80;

/// What the kernel holds for a socket, which it does not tell of one process: about as much as is measured for an idle one.
const KERNEL_BYTES_PER_SOCKET: u64 = 10 << 10;

/// Newcomers are let in again when so much less is used, or each who leaves would let in one who is then turned away.
const EASED_PERCENT: u64 = 95;

/// How often is looked, give or take a tenth.
const LOOK: Duration = Duration::from_secs(1);

/// How much memory is used.
pub(super) struct Memory {
    /// How many bytes may be used; none where that is any number, or not known.
    max: Option<u64>,
    resident_at_start: Option<u64>,
    is_short: AtomicBool,
}

/// How much memory there is, in bytes; null where nobody tells.
#[derive(Serialize)]
pub(crate) struct Figures {
    /// What this process has in memory.
    resident: Option<u64>,
    /// What it had before anybody came.
    resident_at_start: Option<u64>,
    /// How much may be used, with the kernel's share, before newcomers are turned away.
    max: Option<u64>,
}

impl Memory {
    pub(super) fn new(limit: MemoryLimit) -> Self {
        let max = match limit {
            MemoryLimit::Unlimited => None,
            MemoryLimit::Bytes(bytes) => Some(bytes.get()),
            MemoryLimit::Share => available().map(|bytes| bytes / 100 * SHARE_PERCENT),
        };
        Self { max, resident_at_start: resident(), is_short: AtomicBool::new(false) }
    }

    pub(super) fn figures(&self) -> Figures {
        let &Self { max, resident_at_start, .. } = self;
        Figures { resident: resident(), resident_at_start, max }
    }

    /// How many bytes are used, with so many sockets. None where nobody tells.
    pub(super) fn used(sockets: i64) -> Option<u64> {
        Some(resident()? + sockets.max(0) as u64 * KERNEL_BYTES_PER_SOCKET)
    }

    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    fn note(&self, used: u64, max: u64) {
        let was_short = self.is_short();
        let bound = if was_short { max / 100 * EASED_PERCENT } else { max };
        let is_short = used >= bound;
        self.is_short.store(is_short, Ordering::Relaxed);
        if is_short && !was_short {
            warn!(
                used,
                max,
                "short of memory: newcomers are turned away; raise max_memory, or start more gateways"
            );
        } else if was_short && !is_short {
            info!(used, max, "no longer short of memory");
        }
    }
}

/// Looks for as long as it is let.
pub(crate) async fn watch(app: SharedApp) {
    let memory = &app.admission.memory;
    let Some(max) = memory.max else { return };
    info!(max, "newcomers are turned away when more memory is used");
    loop {
        // Where nobody tells, nothing is known to be short.
        if let Some(used) = Memory::used(app.metrics.connections.get()) {
            memory.note(used, max);
        }
        sleep(LOOK.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// What this process has in memory.
pub(crate) fn resident() -> Option<u64> {
    let pages = read(Path::new("/proc/self/statm"))?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// What this process may have: of its cgroup, and of the machine.
fn available() -> Option<u64> {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram * u64::from(machine.mem_unit);
    cgroup_limit(read).into_iter().chain([machine]).min()
}

/// The least that this process's cgroup, or one above it, allows. In a container the path may lead nowhere, and its cgroup is
/// the topmost one to be seen.
fn cgroup_limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let top = Path::new("/sys/fs/cgroup");
    let own = top.join(own);
    let above = own.ancestors().take_while(|group| group.starts_with(top));
    let limits = above.map(|group| group.join("memory.max"));
    // Of the older kind of cgroups.
    let limits = limits.chain([top.join("memory/memory.limit_in_bytes")]);
    limits.filter_map(|file| read(&file)?.trim().parse().ok()).min()
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_from_the_limit_on_until_a_good_part_is_free() {
        let memory = Memory::new(MemoryLimit::Share);
        for (used, is_short) in
            [(999, false), (1_000, true), (960, true), (940, false), (960, false)]
        {
            memory.note(used, 1_000);
            assert_eq!(memory.is_short(), is_short, "{used}");
        }
    }

    #[test]
    fn the_narrowest_cgroup_is_the_limit() {
        let limit = |files: &[(&str, &str)]| {
            cgroup_limit(|path| {
                let found = files.iter().find(|(name, _)| Path::new(name) == path);
                found.map(|(_, text)| (*text).to_owned())
            })
        };
        let service = ("/proc/self/cgroup", "0::/system.slice/presence.service\n");
        assert_eq!(limit(&[service]), None);
        let own = "/sys/fs/cgroup/system.slice/presence.service/memory.max";
        assert_eq!(limit(&[service, (own, "max\n")]), None);
        assert_eq!(limit(&[service, (own, "1024\n")]), Some(1024));
        let slice = ("/sys/fs/cgroup/system.slice/memory.max", "512\n");
        assert_eq!(limit(&[service, (own, "1024\n"), slice]), Some(512));
        let container = [("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "256\n")];
        assert_eq!(limit(&container), Some(256));
        let old = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(limit(&[("/proc/self/cgroup", "4:memory:/x\n"), (old, "128\n")]), Some(128));
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn this_process_uses_some_memory_and_may_use_more() {
        let (used, max) = (resident().unwrap(), available().unwrap());
        assert!(used > 1 << 20 && used < max, "{used} of {max}");
    }
}
