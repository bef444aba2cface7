//! Public keys in a file: read at the start, and again when it changes.

use std::net::SocketAddr;
use std::path::Path;

use presence_protocol::{ClientMessage, Format};
use presence_testkit::eventually;

use crate::client::{Client, PATIENCE, user};
use crate::http::metric;
use crate::process::{Process, command, output_of};
use crate::tokens::{NEW, OLD, hello, read};

/// Replaces a file as a careful program does: never half written.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("it is written");
    std::fs::rename(&new, path).expect("it is renamed");
}

async fn until_read(addr: SocketAddr, result: &str, times: u64) {
    let counter = format!(r#"presence_key_file_reads_total{{result="{result}"}}"#);
    let read = async || (metric(addr, &counter).await == Some(times)).then_some(());
    eventually(&format!("{times} times {result}"), PATIENCE, read).await;
}

async fn joins(addr: SocketAddr, token: String) {
    let mut client = Client::dial(addr, Format::Json).await;
    assert_eq!(client.hello_with(hello(token)).await.user, user("b"));
}

async fn is_refused(addr: SocketAddr, token: String) {
    let mut client = Client::dial(addr, Format::Json).await;
    client.send(&ClientMessage::Hello(hello(token)));
    client.expect_close(4002).await;
}

#[tokio::test]
async fn a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.pem");
    std::fs::write(&path, OLD.public_pem()).expect("it is written");
    let flag = format!("--jwt-public-key-file={}", path.display());
    let process = Process::launch(vec![flag]).await;
    let addr = process.addr;
    let said = process.said.join("\n");
    assert!(said.contains("file: EdDSA"), "{said}");
    until_read(addr, "ok", 1).await;
    joins(addr, OLD.token("b", None)).await;
    is_refused(addr, NEW.token("b", None)).await;

    // Both, as in a rotation.
    replace(&path, &(OLD.public_pem() + &NEW.public_pem()));
    until_read(addr, "ok", 2).await;
    joins(addr, OLD.token("b", None)).await;
    joins(addr, NEW.token("b", Some("june"))).await;

    // Half a key, then none at all, then no file: the last good ones go on, and each is said once.
    replace(&path, &NEW.public_pem()[..60]);
    until_read(addr, "unusable", 1).await;
    replace(&path, &read("keys/file-ed.private-test-only.pem"));
    until_read(addr, "unusable", 2).await;
    std::fs::remove_file(&path).expect("it was there");
    until_read(addr, "unreachable", 1).await;
    joins(addr, OLD.token("b", None)).await;
    joins(addr, NEW.token("b", None)).await;
    let warnings = async || {
        let log = process.log().into_iter();
        let warnings: Vec<_> = log.filter(|line| line.contains("WARN")).collect();
        (warnings.len() == 3).then_some(warnings)
    };
    let warnings = eventually("each is said once", PATIENCE, warnings).await;
    assert!(warnings[1].contains("private key"), "{warnings:?}");

    // Of the same length and kind as the first one.
    replace(&path, &NEW.public_pem());
    until_read(addr, "ok", 3).await;
    joins(addr, NEW.token("b", None)).await;
    is_refused(addr, OLD.token("b", None)).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_used_at_the_start_is_said_in_one_line() {
    for (file, why) in [
        ("/nowhere/keys.pem".to_owned(), "cannot read /nowhere/keys.pem"),
        (format!("{}/keys/short-rsa.public.pem", crate::tokens::FILES), "1024 bits"),
        (format!("{}/secrets.txt", crate::tokens::FILES), "no public key in it"),
    ] {
        let output = output_of(command([&format!("--jwt-public-key-file={file}")])).await;
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!((output.status.code(), said.trim_end().lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("jwt_public_key_file") && said.contains(why), "{said}");
    }
}
