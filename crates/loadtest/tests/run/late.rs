//! Servers that are looked at and answer late.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, sleep};
use std::time::Duration;

use crate::gateway::Gateway;
use crate::{loadtest, report, said};

#[test]
fn a_server_that_answers_late_delays_the_run_and_no_connection() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let metrics = format!("--metrics=http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            sleep(Duration::from_secs(3));
            let _ = stream.read(&mut [0; 1_024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        }
    });
    let users = ["--connections=40", "--rate=40/s", "--watch=5", "--duration=1s"];
    let json = format!("--json={}", file.display());
    let output = loadtest(&gateway, &[&users[..], &[&metrics, &json]].concat()).output();
    let output = output.expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let report = report(&file);
    let timings = report["timings"].as_array().expect("timings");
    let connect = timings.iter().find(|timing| timing["name"] == "connect").expect("connects");
    assert!(connect["max_ms"].as_f64() < Some(1_500.0), "{said}");
}
