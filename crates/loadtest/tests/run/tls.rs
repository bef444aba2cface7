//! Gateways that speak TLS.

use presence_testkit::Authority;

use crate::gateway::Gateway;
use crate::{EVERYTHING, loadtest, report, said};

fn encrypted() -> (Authority, Gateway) {
    let authority = Authority::new();
    authority.certify("gateway", "127.0.0.1");
    let cert = format!("--tls-cert-file={}", authority.cert_file("gateway"));
    let key = format!("--tls-key-file={}", authority.key_file("gateway"));
    let gateway = Gateway::start_with(&["--auth=none", &cert, &key], "s");
    (authority, gateway)
}

#[test]
fn a_run_over_tls_finds_no_fault_either() {
    let (authority, gateway) = encrypted();
    let folder = tempfile::tempdir().expect("a folder");
    let [scenario, json] = ["everything.toml", "report.json"].map(|name| folder.path().join(name));
    std::fs::write(&scenario, EVERYTHING).expect("it is written");
    let metrics = gateway.url().replace("wss:", "https:").replace("/ws", "/metrics");
    let flags = [
        scenario.display().to_string(),
        "--workers=2".to_owned(),
        format!("--tls-ca-file={}", authority.ca_file()),
        format!("--metrics={metrics}"),
        format!("--json={}", json.display()),
    ];
    let output = loadtest(&gateway, &flags.each_ref().map(String::as_str)).output();
    let output = output.expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let report = report(&json);
    let count = |name: &str| report["counts"][name].as_u64().expect(name);
    assert_eq!((count("failed"), count("dropped"), count("lost_changes")), (0, 0, 0), "{said}");
    assert_eq!(count("views"), 114 * 10, "{said}");
    assert!(count("silent_told") > 0 && count("pongs") > 0, "{said}");
    let figures = &report["servers"][0]["figures"];
    let handshakes = figures["tls_handshakes_total{result=\"done\"}"].as_f64();
    assert!(handshakes >= Some(count("connected") as f64), "{figures}");
}

#[test]
fn a_certificate_that_is_not_trusted_is_told_before_anything_is_begun() {
    let (_authority, gateway) = encrypted();
    let stranger = Authority::new();
    let flag = format!("--tls-ca-file={}", stranger.ca_file());
    let output = loadtest(&gateway, &["--duration=10m", &flag]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--tls-ca-file") && said.contains("invalid peer certificate"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}
