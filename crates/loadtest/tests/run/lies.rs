//! Gateways that lie, refuse or do not listen, and how a run finds them out.

use std::fs;
use std::net::SocketAddr;

use presence_protocol::ErrorCode;
use serde_json::Value;

use super::{liar, loadtest_of, report, said};

/// A run of a scenario against a liar, which is to end with this exit code: what it said, and its report.
fn run(liar: SocketAddr, scenario: &str, workers: &str, code: i32) -> (String, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, json) = (folder.path().join("lies.toml"), folder.path().join("report.json"));
    fs::write(&file, scenario).expect("it is written");
    let (file, to_json) = (file.display().to_string(), format!("--json={}", json.display()));
    let url = format!("ws://{liar}/ws");
    let output = loadtest_of(&url, &[&file, workers, &to_json]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    (said, report(&json))
}

/// The same, where it is to find that something went wrong.
fn found_out(liar: SocketAddr, scenario: &str, workers: &str) -> (String, Value) {
    run(liar, scenario, workers, 1)
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

#[test]
fn a_refused_watch_is_no_lost_change_and_is_told_unless_the_gateway_makes_it_good() {
    let scenario = r#"
        users = 4
        contacts = { model = "fixed", count = 2 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "hold"
        duration = "5s"
    "#;
    for (code, exit, watches, messages, views) in [
        (ErrorCode::TooManyWatches, 1, 4, 0, 0),
        (ErrorCode::NotAllowed, 1, 4, 0, 0),
        // Asked for again.
        (ErrorCode::Undecided, 1, 0, 4, 8),
        (ErrorCode::StoreUnavailable, 0, 0, 0, 8),
    ] {
        let liar = liar::start_refusing(code);
        let (said, report) = run(liar, scenario, "--workers=1", exit);
        let count = |name: &str| report["counts"][name].as_u64().expect(name);
        let refused = (count("watches_refused"), count("messages_refused"));
        assert_eq!(refused, (watches, messages), "{code:?}: {said}");
        assert_eq!((count("views"), count("lost_changes")), (views, 0), "{code:?}: {said}");
    }
}

/// There are fewer Pings than connections.
#[test]
fn pings_that_nobody_answers_are_found() {
    let scenario = r#"
        users = 12
        heartbeat = { interval = "8s" }
        contacts = { model = "fixed", count = 2 }
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "hold"
        duration = "6s"
    "#;
    let (said, report) = found_out(liar::start_deaf(), scenario, "--workers=1");
    let count = |name: &str| report["counts"][name].as_u64().expect(name);
    assert!(count("pings") <= count("started"), "{said}");
    assert!(count("unanswered_pings") > 0 && said.contains("not answered"), "{said}");
}

fn one_that_freezes(freeze: &str) -> String {
    format!(
        r#"
        users = 4
        heartbeat = {{ interval = "500ms" }}
        contacts = {{ model = "none" }}
        [[phases]]
        kind = "ramp"
        rate = "100/s"
        [[phases]]
        kind = "flaky"
        rate = "1/s"
        freeze = "{freeze}"
        duration = "1s"
        "#
    )
}

#[test]
fn a_gateway_that_ends_a_frozen_connection_before_its_time_is_found_out() {
    let scenario = one_that_freezes("2500ms");
    let (said, report) = found_out(liar::start_impatient(), &scenario, "--workers=1");
    let counts = &report["counts"];
    assert_eq!((&counts["dropped"], &counts["frozen_out"]), (&1.into(), &0.into()), "{said}");
}

#[test]
fn a_connection_that_thaws_after_its_time_may_still_be_closed() {
    let scenario = one_that_freezes("4s");
    let (said, report) = run(liar::start_slow_to_close(), &scenario, "--workers=1", 0);
    let counts = &report["counts"];
    assert_eq!((&counts["dropped"], &counts["frozen_out"]), (&0.into(), &1.into()), "{said}");
}
