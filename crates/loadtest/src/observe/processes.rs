//! Gateways as processes of this machine: what `/proc` tells of them.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::series::{Growing, Series};
use super::{Answers, Restarts, Source};
use crate::process::Usage;

/// One process.
struct Process {
    pid: u32,
    cpu_secs: Growing,
    answers: Answers,
}

/// All of them.
pub(super) struct Processes {
    all: Vec<Process>,
    restarts: Restarts,
    pub(super) series: Series,
}

impl Processes {
    pub(super) fn new(pids: &[u32], restarts: &Restarts) -> Result<Self> {
        let mut rss = 0;
        let mut processes = Vec::new();
        for &pid in pids {
            let usage = Usage::of(pid)?;
            note_stranger(pid)?;
            rss += usage.rss;
            let cpu_secs = Growing::from(usage.cpu_secs);
            processes.push(Process { pid, cpu_secs, answers: Answers::default() });
        }
        Ok(Self { all: processes, restarts: restarts.clone(), series: Series::from(rss) })
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn figures(&self) -> BTreeMap<String, f64> {
        let gone = self.all.iter().filter(|process| process.answers.missing).count();
        let gone = (gone > 0).then(|| ("processes that went away".to_owned(), gone as f64));
        gone.into_iter().collect()
    }
}

/// Another program's memory would be taken for a gateway's.
fn note_stranger(pid: u32) -> Result<()> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"))?;
    // Linux keeps the first 15 letters.
    if !"presence-gateway".starts_with(name.trim()) {
        eprintln!("warning: --pid {pid}: this is {}, and no presence-gateway", name.trim());
    }
    Ok(())
}

impl Source for Processes {
    const EVERY: Duration = Duration::from_secs(1);

    fn look(&mut self, at_s: f64) -> Vec<String> {
        let mut notices = Vec::new();
        for (before, after) in self.restarts.lock().drain(..) {
            self.all
                .iter_mut()
                .filter(|process| process.pid == before)
                .for_each(|process| process.pid = after);
        }
        let (mut rss, mut cpu_secs) = (0, 0.0);
        for process in &mut self.all {
            let whose = format!("the gateway with process id {}", process.pid);
            let usage = Usage::of(process.pid);
            if let Some(usage) = process.answers.note(&whose, usage, &mut notices) {
                process.cpu_secs.note(usage.cpu_secs);
                rss += usage.rss;
            }
            cpu_secs += process.cpu_secs.grown();
        }
        if !self.all.is_empty() {
            self.series.note(at_s, rss, cpu_secs);
        }
        notices
    }
}
