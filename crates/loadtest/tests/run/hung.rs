//! Workers that hang, which is told like their death.

use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use crate::gateway::Gateway;
use crate::{loadtest, long_run, report, said, signal, wait_until, workers_of};

/// Two workers, with phases that are over soon.
const SHORT: [&str; 5] =
    ["--connections=40", "--rate=200/s", "--watch=5", "--duration=1s", "--workers=2"];

/// A process that is stopped, and killed in the end.
struct Hung(u32);

impl Hung {
    fn new(pid: u32) -> Self {
        signal(pid, "-STOP");
        Self(pid)
    }

    fn is_gone(&self) -> bool {
        !Path::new(&format!("/proc/{}/exe", self.0)).exists()
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        if !self.is_gone() {
            // It may go meanwhile.
            let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
        }
    }
}

/// A short run, of which one worker hangs when its phases are over, and is not missed yet.
fn one_hangs_while_views_are_compared(gateway: &Gateway, file: &Path) -> (Child, Hung) {
    let json = format!("--json={}", file.display());
    let run = loadtest(gateway, &[&SHORT[..], &[&json]].concat()).spawn().expect("it runs");
    wait_until("all are connected", || gateway.connections() == 40);
    let hung = Hung::new(workers_of(&run)[0]);
    sleep(Duration::from_secs(5));
    (run, hung)
}

#[test]
fn a_worker_that_hangs_ends_the_run_with_what_was_measured() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let run = long_run(&gateway, &format!("--json={}", file.display()));
    let hung = Hung::new(workers_of(&run)[0]);
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tells nothing any more"), "{said}");
    let report = report(&file);
    assert_eq!(report["ending"], "worker_lost", "{said}");
    assert_eq!(report["counts"]["open"], 20, "{said}");
    assert!(report["counts"]["views"].is_null(), "{said}");
    // The gateway was right to show its users offline.
    assert_eq!(report["counts"]["false_offline"], 0, "{said}");
    wait_until("the worker has ended", || hung.is_gone());
}

#[test]
fn a_worker_that_dies_before_it_has_compared_is_no_complete_run() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let (run, hung) = one_hangs_while_views_are_compared(&gateway, &file);
    drop(hung);
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(report(&file)["ending"], "worker_lost", "{said}");
}

#[test]
fn ctrl_c_while_views_are_compared_ends_only_the_waiting() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let (run, hung) = one_hangs_while_views_are_compared(&gateway, &file);
    signal(run.id(), "-INT");
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_ne!(output.status.code(), Some(130), "{said}");
    let report = report(&file);
    assert_eq!(report["ending"], "interrupted", "{said}");
    assert!(report["counts"]["connected"].as_u64() >= Some(20), "{said}");
    wait_until("the worker has ended", || hung.is_gone());
}
