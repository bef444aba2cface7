//! Gateways that lie, and how a run finds them out.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

use super::{liar, loadtest_of, report, said};

/// A run of a scenario against a liar, which is to end with broken promises: what it said, and its report.
fn found_out(liar: SocketAddr, scenario: &str, workers: &str) -> (String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, json) = (folder.path().join("lies.toml"), folder.path().join("report.json"));
    fs::write(&file, scenario).expect("it is written");
    let (file, to_json) = (file.display().to_string(), format!("--json={}", json.display()));
    let url = format!("ws://{liar}/ws");
    let output = loadtest_of(&url, &[&file, workers, &to_json]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    (said, report(&json))
}

#[test]
fn a_gateway_that_lies_is_found_out() {
    let scenario = r#"
        users = 4
        heartbeat = { interval = "1s" }
        contacts = { model = "fixed", count = 2 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "hold"
        duration = "8s"
    "#;
    let (said, report) = found_out(liar::start(), scenario, "--workers=2");
    for fault in ["false_offline", "backward", "lost_changes"] {
        assert_eq!(report["counts"][fault], 8, "{fault}: {said}");
    }
}

#[test]
fn a_gateway_that_never_tells_of_a_silent_death_is_found_out() {
    let scenario = r#"
        users = 4
        contacts = { model = "fixed", count = 3 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "silent"
        count = 1
        within = "100ms"
        duration = "1s"
    "#;
    let (said, report) = found_out(liar::start(), scenario, "--workers=2");
    for fault in ["silent_untold", "lost_changes"] {
        assert_eq!(report["counts"][fault], 3, "{fault}: {said}");
    }
}

/// Who was gone for long comes back online as if nothing had been.
#[test]
fn a_gateway_that_never_tells_who_left_is_found_out_when_they_are_back() {
    let scenario = r#"
        users = 4
        contacts = { model = "fixed", count = 3 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "hold"
        duration = "3s"
        [[phases]]
        kind = "sign_out"
        rate = "1/s"
        gap = "3s..3500ms"
        duration = "1s"
        [[phases]]
        kind = "hold"
        duration = "4s"
    "#;
    let (said, report) = found_out(liar::start_without_offline(), scenario, "--workers=1");
    for fault in ["offline_untold", "lost_changes"] {
        assert_eq!(report["counts"][fault], 3, "{fault}: {said}");
    }
    assert!(said.contains("2 promises were broken"), "{said}");
}
