//! A local run with real gateways: it starts what it loads, and whatever becomes of it, nothing of
//! that is left. Needs `redis-server`, and `/proc`.

#![cfg(target_os = "linux")]

#[path = "workspace/gateway.rs"]
mod gateway;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gateway::GATEWAY;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);

/// Long enough for whatever ends it before.
const LONG: &str = "--duration=10m";

fn local(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"));
    let gateway = format!("--gateway={}", GATEWAY.display());
    command.args(["local", "--connections=20", "--watch=5", &gateway]).args(args);
    command
}

fn output(args: &[&str]) -> Output {
    local(args).output().expect("it runs")
}

/// A run in a process group of its own, as a shell gives it, with all connections open; and the
/// processes that it started. Its temporary files are to be in `folder`.
fn started(folder: &TempDir) -> (Child, Vec<u32>) {
    let mut command = local(&[LONG]);
    command.env("TMPDIR", folder.path());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut run = command.spawn().expect("it runs");
    let mut lines = BufReader::new(run.stderr.take().expect("it is piped")).lines();
    let is_open = |line: String| line.contains("open 20/20");
    assert!(lines.any(|line| is_open(line.expect("text"))), "it ended before all were open");
    // Read on, so that it can always write.
    std::thread::spawn(move || lines.for_each(drop));
    let started = offspring(run.id());
    let names: Vec<_> = started.iter().filter_map(|pid| name(*pid)).collect();
    assert!(names.iter().any(|name| name == "redis-server"), "{names:?}");
    assert!(names.iter().any(|name| name == "presence-gatewa"), "{names:?}");
    (run, started)
}

/// The processes that a process started, and those that they did.
fn offspring(ancestor: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("it is there").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> = all.filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The state of a process, and its parent.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// The first 15 letters of its program.
fn name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

/// The processes and all files. A process that ended, and that nobody has asked about yet, is gone.
fn wait_until_gone(pids: &[u32], folder: &TempDir) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(file) = fs::read_dir(folder).expect("it is there").next() {
        assert!(Instant::now() < deadline, "{file:?} is left");
        sleep(Duration::from_millis(20));
    }
    let lives = |pid: &&u32| stat(**pid).is_some_and(|(state, _)| state != "Z");
    while let Some(pid) = pids.iter().find(lives) {
        assert!(Instant::now() < deadline, "{:?} is left", name(*pid));
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_local_run_starts_what_it_loads_and_tells_of_it() {
    let output = output(&["--duration=1s"]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for part in ["20 connected", "1 gateway ", "1 redis"] {
        assert!(stdout.contains(part), "{part} is not in\n{stdout}");
    }
}

/// All that the connections of a rolling restart do: they are sent away, come back elsewhere, and nobody is told.
#[test]
fn gateways_are_restarted_under_clients_that_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rolling.toml");
    let text = r#"
        users = 20
        reconnect = "100ms..1s"
        heartbeat.interval = "1s"
        phases = [
            { kind = "ramp", rate = "20/s" },
            { kind = "restart", count = 2, duration = "8s" },
            { kind = "hold", duration = "4s" },
        ]
    "#;
    fs::write(&file, text).expect("a file");
    let json = folder.path().join("report.json");
    let [scenario, report] = [("scenario", &file), ("json", &json)]
        .map(|(flag, path)| format!("--{flag}={}", path.display()));
    let output = output(&["--gateways=2", &scenario, &report]);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for part in ["20 open", "sent away by gateways", "0 flaps shown", "return"] {
        assert!(stdout.contains(part), "{part} is not in\n{stdout}");
    }
    assert!(!stdout.contains("\nerrors"), "a drain that is obeyed is none:\n{stdout}");
    for part in ["gateway 1 was restarted", "gateway 2 was restarted"] {
        assert!(stderr.contains(part), "{part} is not in\n{stderr}");
    }
    let report = fs::read(json).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("the report is JSON");
    let gateways = &report["servers"][0];
    assert_eq!(gateways["figures"].get("processes that went away"), None, "{gateways}");
    assert!(gateways["footprint"]["rss_after"].as_u64() > Some(2 << 20), "{gateways}");
}

#[test]
fn a_killed_run_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut run, started) = started(&folder);
    run.kill().expect("it runs");
    run.wait().expect("it is ours");
    wait_until_gone(&started, &folder);
}

#[test]
fn ctrl_c_ends_a_run_with_its_report_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut run, started) = started(&folder);
    let group = Pid::from_raw(run.id().cast_signed()).expect("it is positive");
    kill_process_group(group, Signal::INT).expect("it runs");
    assert!(run.wait().expect("it is ours").success(), "what it had was clean");
    wait_until_gone(&started, &folder);
}

#[test]
fn what_cannot_be_started_is_told_with_its_reason() {
    let table = [
        (["--heartbeat=10s", "--ttl=11s"], "ttl is 11s"),
        (["--redis-server=/nowhere", LONG], "redis-server: it ended at once"),
        (["--gateway=/nowhere", LONG], "--gateway"),
        (["--connections=50000000", LONG], "are needed"),
    ];
    for (args, told) in table {
        let mut command = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"));
        command.arg("local");
        if !args[0].starts_with("--gateway") {
            command.arg(format!("--gateway={}", GATEWAY.display()));
        }
        let output = command.args(args).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
}
