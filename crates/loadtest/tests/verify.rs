//! The promise check against real gateways: a small deployment keeps every promise, and what cannot
//! be checked is refused before anything is started. Needs `redis-server`.

#[path = "workspace/gateway.rs"]
mod gateway;

use std::process::{Command, Output};

use gateway::GATEWAY;
use serde_json::Value;

fn verify(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"))
        .arg("verify")
        .arg(format!("--gateway={}", GATEWAY.display()))
        .args(args)
        .output();
    output.expect("it runs")
}

/// Slow enough for a busy machine.
const SMALL: [&str; 6] =
    ["--users=40", "--watch=10", "--acts=10", "--duration=6s", "--ttl=5s", "--grace=1500ms"];

fn keeps_every_promise(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let json = format!("--json={}", file.display());
    let output = verify(&[&SMALL, args, &[&json]].concat());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("Every promise was kept"), "{stdout}");
    let report = std::fs::read(file).expect("a report");
    serde_json::from_slice(&report).expect("the report is JSON")
}

#[test]
fn one_gateway_with_its_own_store_keeps_every_promise() {
    let report = keeps_every_promise(&["--store=embedded", "--gateways=1", "--faults=none"]);
    assert!(report["absences"].as_u64() > Some(0) && report["returns"].as_u64() > Some(0));
}

#[test]
fn gateways_on_one_redis_whose_subscriptions_break_keep_every_promise() {
    let report = keeps_every_promise(&["--gateways=2", "--faults=subscriber-kill"]);
    assert!(report["views"].as_u64() > Some(0) && report["answers"].as_u64() > Some(0));
    assert_eq!(report["broken"], Value::Object(serde_json::Map::new()));
}

#[test]
fn what_cannot_be_checked_is_refused_with_the_argument_named() {
    let table = [
        (["--store=embedded", "--gateways=2"], "--gateways 1"),
        (["--users=20", "--watch=20"], "--watch 20"),
        (["--heartbeat=2s", "--ttl=4s"], "--ttl"),
        (["--scenario=gateway-kill", "--gateways=1"], "--scenario gateway-kill"),
        (["--faults=gateway-kil", "--users=20"], "subscriber-kill"),
        (["--faults=redis-kill", "--scenario=gateway-kill"], "--scenario random"),
        (["--faults=all", "--scenario=redis-pause"], "--scenario random"),
        (["--faults=cluster-hang", "--users=30"], "--store cluster"),
        (["--pause=3s", "--users=30"], "--scenario redis-pause"),
        (["--pause=0s", "--scenario=redis-pause"], "--pause"),
        (["--duration=0s", "--users=30"], "--duration: at least 1s"),
        (["--heartbeat=0s", "--users=30"], "--heartbeat: at least 100ms"),
    ];
    for (args, named) in table {
        let output = verify(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(named), "{args:?}: {stderr}");
    }
}

#[test]
fn the_help_names_faults_and_exit_codes_and_what_a_seed_repeats() {
    let output = verify(&["--help"]);
    let help = String::from_utf8_lossy(&output.stdout);
    let help: Vec<&str> = help.split_whitespace().collect();
    let help = help.join(" ");
    for part in ["subscriber-kill: ", "too busy to judge", "not the same moments"] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
}
