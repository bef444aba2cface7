//! Runs of the load tester against a real gateway with short times: every kind of phase, a worker
//! that dies, and Ctrl-C. The gateway keeps presence itself, so no Redis is needed.

#[path = "run/gateway.rs"]
mod gateway;
#[path = "run/hung.rs"]
mod hung;
#[path = "run/late.rs"]
mod late;
#[path = "run/liar.rs"]
mod liar;
#[path = "run/lies.rs"]
mod lies;
#[path = "run/people.rs"]
mod people;
#[path = "run/tls.rs"]
mod tls;
#[path = "workspace/gateway.rs"]
mod workspace;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use gateway::Gateway;

const LIMIT: Duration = Duration::from_mins(1);

/// All kinds of phases, with times that fit the gateway's.
const EVERYTHING: &str = r#"
    users = 120
    [heartbeat]
    interval = "500ms"
    [contacts]
    model = "fixed"
    count = 10
    [[phases]]
    kind = "ramp"
    rate = "60/s"
    [[phases]]
    kind = "churn"
    duration = "3s"
    rate = "10/s"
    gap = "50ms..3s"
    [[phases]]
    kind = "silent"
    count = 6
    within = "1s"
    duration = "2s"
    [[phases]]
    kind = "storm"
    share = 0.5
    within = "1s"
    duration = "2s"
    [[phases]]
    kind = "flaky"
    rate = "4/s"
    freeze = "100ms..5s"
    duration = "2s"
    [[phases]]
    kind = "sign_out"
    rate = "10/s"
    gap = "500ms..2s"
    duration = "2s"
"#;

fn loadtest(gateway: &Gateway, args: &[&str]) -> Command {
    loadtest_of(&gateway.url(), args)
}

fn loadtest_of(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"));
    command.arg("run").arg(format!("--url={url}")).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn report(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a report")).expect("the report is JSON")
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}\n{err}")
}

/// Looks until it is so.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "still not after {LIMIT:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The processes that the coordinator started.
fn workers_of(coordinator: &Child) -> Vec<u32> {
    let pid = coordinator.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect()
}

fn signal(pid: u32, signal: &str) {
    let done = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(done.expect("kill runs").success(), "{signal} {pid}");
}

/// Starts a long run of two workers, and waits until all are connected.
fn long_run(gateway: &Gateway, json: &str) -> Child {
    let users = ["--connections=40", "--rate=200/s", "--watch=5", "--duration=10m"];
    let child = loadtest(gateway, &[&users[..], &["--workers=2", json]].concat()).spawn();
    let child = child.expect("it runs");
    wait_until("all are connected", || gateway.connections() == 40);
    child
}

#[test]
fn a_run_with_every_kind_of_phase_adds_up_and_finds_no_fault() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    fs::write(file("everything.toml"), EVERYTHING).expect("it is written");
    let scenario = file("everything.toml").display().to_string();
    let json = format!("--json={}", file("report.json").display());
    let output = loadtest(&gateway, &[&scenario, "--workers=2", &json]).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let report = report(&file("report.json"));
    let count = |name: &str| report["counts"][name].as_u64().expect(name);
    assert_eq!(report["ending"], "complete", "{said}");
    assert_eq!((&report["name"], &report["workers"]), (&"everything".into(), &2.into()));
    let phases = report["phases"].as_array().expect("phases");
    let names: Vec<_> = phases.iter().filter_map(|phase| phase["name"].as_str()).collect();
    let expected = ["ramp", "churn", "silent", "storm", "flaky", "sign_out", "settle"];
    assert_eq!(names, expected);

    let faults = ["false_offline", "early_offline", "flaps_shown", "lost_changes", "backward"];
    for fault in faults {
        assert_eq!(count(fault), 0, "{fault}: {said}");
    }
    assert_eq!(count("silent_untold"), 0, "{said}");
    assert!(count("silent_told") > 0, "{said}");
    for act in ["closed_on_purpose", "signed_out", "froze", "pings", "pongs"] {
        assert!(count(act) > 0, "{act}: {said}");
    }
    assert_eq!(count("fell_silent"), 6);
    let closes = |code: &str| report["closes"][code].as_u64().unwrap_or_default();
    assert_eq!(closes("1000 bye"), count("signed_out"), "{said}");
    assert_eq!(closes("4004 no_heartbeat"), count("frozen_out"), "{said}");

    // One that thaws just when its time is over may be both.
    assert!(count("froze") <= count("thawed") + count("frozen_out"), "{said}");
    let ended = ["closed_on_purpose", "signed_out", "fell_silent", "frozen_out"];
    let ended: u64 = ended.iter().map(|name| count(name)).sum();
    assert_eq!(count("started"), count("connected"));
    assert_eq!((count("connected") - ended, count("open")), (114, 114), "{said}");
    assert_eq!(count("views"), 114 * 10);

    let timeline = report["timeline"].as_array().expect("a timeline");
    let grown = timeline.iter().filter_map(|second| second["grew"]["connected"].as_u64());
    assert_eq!(grown.sum::<u64>(), count("connected"));
    assert_eq!(timeline.last().expect("seconds")["open"], 114);

    let timings = report["timings"].as_array().expect("timings");
    let of = |name: &str| timings.iter().find(|timing| timing["name"] == name).expect(name);
    let (whole, part) = (of("contacts shown"), of("snapshot"));
    assert_eq!(whole["count"], part["count"], "{said}");
    for part in [part, of("connect")] {
        assert!(whole["p50_ms"].as_f64() >= part["p50_ms"].as_f64(), "{whole} {part}");
    }

    let is_live = |line: &&str| line.contains("s  open ") && line.contains("/120  connects ");
    let live: Vec<&str> = said.lines().filter(is_live).collect();
    assert!(live.len() > 5, "a line each second: {said}");
    let tells = ["pings ", "pushes ", "p99 connect ", "connecting ", "failed 0", "dropped 0"];
    let tells_all = |line: &&str| tells.iter().all(|word| line.contains(word));
    assert!(live.iter().any(tells_all), "{said}");
}

#[test]
fn popular_users_browsers_and_several_devices_are_no_fault() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("browsers.toml");
    let scenario = r#"
        users = 60
        devices = 2
        format = "json"
        heartbeat = { kind = "pong" }
        contacts = { model = "power_law", mean = 6.0, max = 40, exponent = 2.2 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "churn"
        rate = "30/s"
        gap = "100ms..2s"
        duration = "3s"
    "#;
    fs::write(&file, scenario).expect("it is written");
    let json = folder.path().join("report.json");
    let flag = format!("--json={}", json.display());
    let args = [&file.display().to_string(), "--workers=2", &flag];
    let output = loadtest(&gateway, &args).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let report = report(&json);
    assert_eq!(report["counts"]["planned"], 120);
    assert!(report["counts"]["pongs_sent"].as_u64() > Some(0), "{said}");
    assert_eq!(report["counts"]["lost_changes"], 0, "{said}");
}

/// Where heartbeats are the gateway's own Pings, those of connections that thawed are all there are.
#[test]
fn the_ping_of_a_connection_that_thawed_is_counted() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frozen.toml");
    let scenario = r#"
        users = 10
        heartbeat = { kind = "pong" }
        contacts = { model = "none" }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "flaky"
        rate = "4/s"
        freeze = "100ms..200ms"
        duration = "2s"
    "#;
    fs::write(&file, scenario).expect("it is written");
    let json = folder.path().join("report.json");
    let args = [&file.display().to_string(), &format!("--json={}", json.display())];
    let output = loadtest(&gateway, &args.map(String::as_str)).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let counts = &report(&json)["counts"];
    assert_eq!(
        (&counts["thawed"], &counts["pings"], &counts["pongs"]),
        (&8.into(), &8.into(), &8.into())
    );
}

#[test]
fn a_worker_of_another_host_has_a_ledger_and_contacts_of_its_own() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let port = gateway::free_address().port();
    // As from another host: from 127.0.0.1, to another address of this one.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"))
        .args(["worker", &format!("--coordinator=127.0.0.2:{port}")])
        .spawn()
        .expect("it runs");
    let users = ["--connections=40", "--rate=200/s", "--watch=5", "--duration=3s", "--workers=1"];
    let listen = format!("--listen=0.0.0.0:{port}");
    let json = format!("--json={}", file.display());
    let more = ["--remote-workers=1", &listen, &json];
    let output = loadtest(&gateway, &[&users[..], &more].concat()).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("--coordinator HOST:{port}")), "{said}");
    let report = report(&file);
    assert_eq!((&report["workers"], &report["counts"]["views"]), (&2.into(), &200.into()));
    assert_eq!(report["counts"]["views_online"], 200, "{said}");
    assert!(worker.wait().expect("it ends").success());
}

#[test]
fn a_worker_that_is_killed_ends_the_run_with_what_was_measured() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let run = long_run(&gateway, &format!("--json={}", file.display()));
    let workers = workers_of(&run);
    assert_eq!(workers.len(), 2);
    signal(workers[0], "-KILL");
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report = report(&file);
    assert_eq!(report["ending"], "worker_lost", "{said}");
    assert_eq!(report["counts"]["open"], 20, "{said}");
    assert!(report["counts"]["views"].is_null(), "{said}");
    assert!(said.contains("a worker was lost"), "{said}");
}

#[test]
fn a_run_ends_when_nobody_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let json = format!("--json={}", file.display());
    let url = format!("ws://{}/ws", hanging_up());
    let users = ["--connections=10", "--rate=100/s", "--watch=5", "--duration=10m"];
    let output = loadtest_of(&url, &[&users[..], &[&json]].concat()).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report = report(&file);
    assert_eq!(report["ending"], "nobody_left", "{said}");
    assert_eq!((&report["counts"]["failed"], &report["counts"]["open"]), (&10.into(), &0.into()));
    let errors = report["errors"].as_object().expect("kinds of errors");
    assert_eq!(errors.values().filter_map(Value::as_u64).sum::<u64>(), 10, "{said}");
}

/// Where every connection is accepted, and ended at once.
fn hanging_up() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || listener.incoming().for_each(drop));
    address
}

#[test]
fn a_port_where_nobody_listens_is_told_at_once() {
    let address = gateway::free_address();
    let before = Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let args = ["--duration=10m", &format!("--json={}", file.display())];
    let output = loadtest_of(&format!("ws://{address}/ws"), &args).output();
    let output = output.expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("nobody answers at {address}")), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(!file.exists(), "nothing is left of a run that did not begin");
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
}

#[test]
fn more_contacts_than_the_gateway_allows_are_told_with_what_would_be_right() {
    let gateway = Gateway::start_with(&["--auth=none", "--max-watch=5"], "");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let json = format!("--json={}", file.display());
    let users = ["--connections=20", "--rate=100/s", "--watch=10", "--duration=10m"];
    let output = loadtest(&gateway, &[&users[..], &[&json]].concat()).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nobody watch more than 5 (its max_watch)"), "{said}");
    assert!(said.contains("start the gateway with --max-watch 10"), "{said}");
    let report = report(&file);
    let counts = &report["counts"];
    assert_eq!((&counts["failed"], &counts["lost_changes"]), (&20.into(), &0.into()), "{said}");
}

/// Such a name often has an address where the gateway does not listen as well.
#[test]
fn a_gateway_is_found_by_its_name() {
    let gateway = Gateway::start();
    let url = gateway.url().replace("127.0.0.1", "localhost");
    let users = ["--connections=10", "--rate=100/s", "--duration=1s"];
    let output = loadtest_of(&url, &users).output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
}

/// Far more is due than can be done.
#[test]
fn a_run_that_falls_ever_further_behind_is_stopped_as_any_other() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("behind.toml");
    let scenario = r#"
        users = 40
        contacts = { model = "none" }
        reconnect = "1s..2s"
        [[phases]]
        kind = "ramp"
        rate = "200/s"
        [[phases]]
        kind = "flaky"
        rate = "1000000/s"
        freeze = "0s..1us"
        duration = "10m"
    "#;
    fs::write(&file, scenario).expect("it is written");
    let args = [&file.display().to_string(), "--workers=1"];
    let run = loadtest(&gateway, &args).spawn().expect("it runs");
    wait_until("some are connected", || gateway.connections() > 0);
    // It takes its time to fall behind.
    sleep(Duration::from_secs(4));
    let told = Instant::now();
    signal(run.id(), "-INT");
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert!(told.elapsed() < Duration::from_secs(15), "{:?}: {said}", told.elapsed());
    assert!(said.contains("stopped early"), "{said}");
}

#[test]
fn ctrl_c_and_sigterm_end_the_run_and_its_workers_with_the_report_so_far() {
    for told in ["-INT", "-TERM"] {
        let gateway = Gateway::start();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.json");
        let run = long_run(&gateway, &format!("--json={}", file.display()));
        let workers = workers_of(&run);
        signal(run.id(), told);
        let output = run.wait_with_output().expect("it ends");
        let said = said(&output);
        assert!(output.status.success(), "{told}: {said}");
        let report = report(&file);
        assert_eq!(report["ending"], "interrupted", "{said}");
        assert_eq!(report["counts"]["connected"], 40, "{said}");
        for pid in workers {
            let is_gone = || !Path::new(&format!("/proc/{pid}/exe")).exists();
            wait_until("the worker has ended", is_gone);
        }
    }
}

#[test]
fn a_run_that_is_stopped_before_all_came_up_is_no_success() {
    let gateway = Gateway::start();
    let slow = ["--connections=1000", "--rate=10/s", "--watch=5", "--workers=1"];
    let run = loadtest(&gateway, &slow).spawn().expect("it runs");
    wait_until("some are connected", || gateway.connections() >= 5);
    signal(run.id(), "-INT");
    let output = run.wait_with_output().expect("it ends");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("but the run was stopped before every connection came up."), "{said}");
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_is_begun() {
    for flag in ["--json", "--html"] {
        let gateway = Gateway::start();
        let file = format!("{flag}=/nowhere/report");
        let output = loadtest(&gateway, &["--duration=10m", &file]).output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(flag) && said.contains("/nowhere/report"), "{said}");
        assert_eq!(gateway.connections(), 0, "{said}");
    }
}

#[test]
fn a_report_that_cannot_be_written_in_the_end_leaves_the_page() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let html = format!("--html={}", page.display());
    let users = ["--connections=10", "--rate=100/s", "--watch=5", "--duration=1s"];
    let args = [&users[..], &["--json=/dev/full", &html]].concat();
    let output = loadtest(&gateway, &args).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/dev/full"), "{said}");
    assert!(fs::read_to_string(page).expect("a page").contains("Every promise was kept"));
}

#[test]
fn a_scenario_that_cannot_be_done_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bad.toml");
    fs::write(&file, "users = 50\nphases = [{kind = \"hold\", duration = \"1s\"}]")
        .expect("written");
    let output =
        Command::new(env!("CARGO_BIN_EXE_presence-loadtest")).arg("run").arg(&file).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("phases: the first one is a ramp"), "{}", said(&output));
}
