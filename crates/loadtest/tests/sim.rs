//! The simulation with few sessions against a Redis of its own: its numbers add up, and what cannot be
//! simulated is refused before anything is started. Needs `redis-server`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use presence_testkit::RedisServer;
use serde_json::Value;

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"));
    command.arg("sim").args(args).output().expect("it runs")
}

fn simulated(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let json = format!("--json={}", file.display());
    let output = sim(&[args, &[&json]].concat());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stderr.contains("joined 2000/2000"), "{stderr}");
    let report = std::fs::read(file).expect("a report");
    serde_json::from_slice(&report).expect("the report is JSON")
}

/// Slow enough for a busy machine.
const SMALL: [&str; 4] = ["--sessions=2000", "--heartbeat=1s", "--ttl=10s", "--duration=3s"];

#[test]
fn two_thousand_sessions_that_come_and_go_are_heard_and_never_shown_offline_falsely() {
    let more = ["--gateways=2", "--grace=500ms", "--watch=5", "--churn=20/s"];
    let report = simulated(&[&SMALL[..], &more].concat());
    let number = |of: &str, name: &str| report[of][name].as_u64().expect("a number");
    let moves = number("presence", "moves");
    assert!(moves > 0 && moves.is_multiple_of(2), "who left came back: {report}");
    assert_eq!(number("presence", "transitions_heard"), 2 * moves, "each gateway hears each");
    // Everybody was told of five users at first, and again when it came back.
    assert!(number("presence", "told") >= 5 * (2_000 + moves / 2), "{report}");
    assert!(number("heartbeats", "given") > 0, "{report}");
    for cost in [&report["redis"], &report["process"]] {
        assert!(cost["cpu_us_per_heartbeat"].as_f64() > Some(0.0), "{report}");
        assert!(cost["bytes_per_user"].as_f64() > Some(0.0), "{report}");
    }
    let sent = report["commands_sent_per_heartbeat"].as_f64();
    assert!(sent > Some(0.0) && sent < Some(1.0), "heartbeats share calls: {report}");
}

#[test]
fn the_same_heartbeats_without_an_engine_cost_a_command_each() {
    let server = RedisServer::start();
    let report =
        simulated(&[&SMALL[..], &["--path=set-ex", "--redis-url", &server.url()]].concat());
    let sent = report["commands_sent_per_heartbeat"].as_f64();
    assert!(sent > Some(0.95) && sent < Some(1.05), "{report}");
    assert_eq!(server.cli(&["DBSIZE"]), "2000");
}

#[test]
fn users_whom_redis_forgot_are_found_offline_and_the_exit_code_says_so() {
    let server = RedisServer::start();
    // So rarely do gateways vouch with this TTL, that most of these users stay forgotten.
    let args = ["sim", "--sessions=2000", "--ttl=10m", "--duration=5s", "--redis-url"];
    let child = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"))
        .args(args)
        .arg(server.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let are_there = "return redis.call('DBSIZE') > 4000 and 'most' or 'few'";
    server.wait_until("most have joined", &["EVAL", are_there, "0"], "most");
    let forget = "local keys = redis.call('KEYS', 'loadtest:*:user-1*') \
                  for _, key in ipairs(keys) do redis.call('DEL', key) end";
    server.cli(&["EVAL", forget, "0"]);
    let output = child.wait_with_output().expect("it ends");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    assert!(stdout.contains("SOMEBODY WHO WAS ONLINE"), "{stdout}");
}

#[test]
fn who_stops_it_while_it_measures_gets_what_there_is() {
    let server = RedisServer::start();
    for (signal, path) in [("-INT", "engine"), ("-TERM", "set-ex")] {
        let path = format!("--path={path}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"))
            .args(["sim", "--sessions=200", "--heartbeat=1s", "--duration=10m", &path])
            .args(["--redis-url", &server.url()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        // It measures from the third second after all have joined.
        let measures = lines.any(|line| line.expect("text").trim_start().starts_with("6s"));
        assert!(measures, "it ended before");
        let told = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        lines.for_each(drop);
        let output = child.wait_with_output().expect("it ends");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(130), "{stdout}");
        assert!(stdout.contains("It was stopped early."), "{stdout}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_argument_named() {
    let table = [
        (["--sessions=20", "--watch=20"], "--watch 20"),
        (["--heartbeat=2s", "--ttl=3s"], "--ttl"),
        (["--sessions=100", "--churn=11/s"], "--churn 11/s"),
        (["--path=set-ex", "--churn=1/s"], "--path set-ex"),
        (["--redis-url=redis-cluster://127.0.0.1:7000", "--watch=1"], "--redis-url"),
    ];
    for (args, named) in table {
        let output = sim(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}
