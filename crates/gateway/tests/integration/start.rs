//! Starting: what is wrong with the settings is said in one line, before anything is bound.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::client::PATIENCE;
use crate::house::SLOW;
use crate::process::{Process, command, output_of};

/// Runs the binary, which must refuse to start. Answers the one line that it says.
async fn refusal(command: tokio::process::Command) -> String {
    let before = Instant::now();
    let output = output_of(command).await;
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.code().is_some_and(|code| code != 0), "{:?}: {said}", output.status);
    assert!(output.stdout.is_empty(), "{:?}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(said.trim_end().lines().count(), 1, "one line, not:\n{said}");
    assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
    said
}

#[tokio::test]
async fn without_a_choice_of_authentication_there_is_no_start() {
    let said = refusal(command::<&str>([])).await;
    assert!(said.contains("auth") && said.contains("--dev"), "{said}");
}

#[tokio::test]
async fn an_unknown_key_in_the_file_is_named() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "auth = \"none\"\nheartbeet = \"10s\"").expect("it is written");
    let said = refusal(command([&format!("--config={}", file.path().display())])).await;
    assert!(said.contains("heartbeet") && said.contains("heartbeat"), "{said}");
}

#[tokio::test]
async fn an_unknown_variable_is_named() {
    let mut command = command(["--dev"]);
    command.env("PRESENCE_HEARTBEET", "10s");
    let said = refusal(command).await;
    assert!(said.contains("PRESENCE_HEARTBEET"), "{said}");
}

#[tokio::test]
async fn a_value_that_makes_no_sense_is_named_with_what_would() {
    for (flag, words) in [
        ("--ttl=15s", ["ttl", "20s"]),
        ("--heartbeat=soon", ["heartbeat", "250ms"]),
        ("--listen=somewhere", ["listen", "127.0.0.1:8080"]),
        ("--redis-url=http://redis", ["redis_url", "redis://"]),
    ] {
        let said = refusal(command(["--dev", flag])).await;
        assert!(words.iter().all(|word| said.contains(word)), "{flag}: {said}");
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_said_in_one_line() {
    // Bound and closed again, so that nobody listens there.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr();
    let url = format!("redis://{}", port.expect("an address"));
    let said = refusal(command(["--dev", "--listen=127.0.0.1:0", &format!("--redis-url={url}")]));
    let said = said.await;
    assert!(said.contains(&url) && said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_redis_that_does_not_answer_is_said_in_one_line() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("an address"));
    let said = refusal(command(["--dev", "--listen=127.0.0.1:0", &format!("--redis-url={url}")]));
    assert!(said.await.contains(&url));
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_said_in_one_line() {
    let flags = ["--dev", "--tls-cert-file=/nowhere/cert.pem", "--tls-key-file=/nowhere/key.pem"];
    let said = refusal(command(flags)).await;
    assert!(said.contains("tls_cert_file /nowhere/cert.pem"), "{said}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_said_in_one_line() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    let said = refusal(command(["--dev", &format!("--listen={addr}")])).await;
    assert!(said.contains(&addr) && said.contains("choose where with --listen"), "{said}");
}

#[tokio::test]
async fn the_settings_are_told_as_one_object() {
    let process = Process::alone(SLOW, &["--last-seen=30d"]).await;
    let lines = process.said.iter().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.filter(|line: &Value| line["settings"].is_object()).collect();
    let [line] = lines.as_slice() else { panic!("one line, not {lines:#?}") };
    for (field, value) in [("message", "started"), ("level", "INFO")] {
        assert_eq!(line[field], value, "{line:#}");
    }
    let timestamp = line["timestamp"].as_str().expect("a time");
    assert_eq!((timestamp.len(), timestamp.chars().last()), (27, Some('Z')), "{timestamp}");
    let settings = &line["settings"];
    for (setting, value) in [("last_seen", "30d"), ("revocation_kept", "1d"), ("heartbeat", "20s")]
    {
        assert_eq!(settings[setting], value, "{settings:#}");
    }
    assert!(settings["address_header"].is_string() && settings["gateway"].is_string());
}

#[tokio::test]
async fn who_wants_only_warnings_is_not_told_the_settings() {
    let process = Process::alone(SLOW, &["--log=info,presence_gateway::logs=warn"]).await;
    assert!(
        process.said.iter().all(|line| !line.contains("revocation_kept")),
        "{:?}",
        process.said
    );
}

#[tokio::test]
async fn for_eyes_the_settings_are_told_in_lines_that_can_be_read() {
    let mut process = command(["--dev", "--listen=127.0.0.1:0", "--log-format=human"]);
    let mut child = process.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let mut said = Vec::new();
    let told = timeout(PATIENCE, async {
        while said.last().is_none_or(|line: &String| !line.contains("demo page: http://")) {
            said.push(lines.next_line().await.expect("a line").expect("it says where the page is"));
        }
    });
    told.await.unwrap_or_else(|_| panic!("no demo page in {said:#?}"));
    let settings: Vec<_> = said.iter().filter(|line| line.contains("started with")).collect();
    assert!(settings.len() > 1 && settings.iter().all(|line| line.len() <= 200), "{said:#?}");
    let settings = settings.into_iter().cloned().collect::<String>();
    for setting in ["last_seen=\"30d\"", "revocation_kept=\"1d\"", "address_header", "gateway="] {
        assert!(settings.contains(setting), "no {setting} in {settings}");
    }
    child.kill().await.expect("it ends");
}
