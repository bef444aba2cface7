//! The attacks on a real gateway, briefly: each is answered and counted, and the crowd beside it sees no error. How late it is
//! told is not judged here.

#[path = "run/gateway.rs"]
mod gateway;
#[path = "workspace/gateway.rs"]
mod workspace;

use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gateway::Gateway;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// As small as shows anything: some sockets a second, and so long that a flood uses up its four seconds' worth.
const SMALL: [&str; 6] = [
    "--connections=20",
    "--watch=5",
    "--before=500ms",
    "--during=8s",
    "--sockets=30",
    "--slack=1m",
];

fn attack(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-loadtest"));
    command.arg("attack").args(args).output().expect("it runs")
}

#[test]
fn floods_are_closed_and_counted_and_the_crowd_sees_no_error() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let args = [
        &format!("--url={}", gateway.url()),
        "--only=tiny-frames,silent-sockets,connects-and-drops",
        &format!("--json={}", file.display()),
    ];
    let output = attack(&[&SMALL[..], &args].concat());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("All were held"), "{stdout}");
    let report = std::fs::read(file).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("the report is JSON");
    let attacks = report["attacks"].as_array().expect("a list");
    assert_eq!(attacks.len(), 3);
    for (attack, answer, counter) in [
        (&attacks[0], "closed with 4006 rate_limited", "closes_total{reason=\"rate_limited\"}"),
        (&attacks[1], "closed with 4001 no_hello", "closes_total{reason=\"no_hello\"}"),
    ] {
        assert!(attack["answered"][answer].as_u64() > Some(0), "{attack}");
        assert!(attack["counted"][counter].as_f64() > Some(0.0), "{attack}");
    }
    let end = Instant::now() + LIMIT;
    while gateway.connections() > 0 {
        assert!(Instant::now() < end, "sockets are left after {LIMIT:?}");
        sleep(Duration::from_millis(10));
    }
    for attack in attacks {
        assert!(attack["acts"].as_u64() > Some(0), "{attack}");
        for when in ["before", "during"] {
            assert!(attack[when]["count"].as_u64() > Some(0), "{attack}");
        }
    }
}

#[test]
fn what_cannot_be_attacked_is_refused_with_the_argument_named() {
    let table = [
        ["--url=ws://192.0.2.1:8080/ws", "--remote"],
        ["--url=wss://127.0.0.1:8080/ws", "ws://"],
        ["--url=ws://127.0.0.1:1/ws", "/metrics"],
    ];
    for [arg, named] in table {
        let output = attack(&[arg]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arg}: {stderr}");
        assert!(stderr.contains(named), "{arg}: {stderr}");
    }
}
