//! Users that a file names, with their tokens and contacts.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;

use crate::gateway::Gateway;
use crate::{loadtest, report, said};

const SECRET: &str = "a secret that is long enough for HS256";
const USERS: u64 = 24;

fn name(number: u64) -> String {
    format!("user {}@example.com", number % USERS)
}

fn token(user: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let claims = json!({ "sub": user, "exp": (now + Duration::from_mins(10)).as_secs() });
    let key = EncodingKey::from_secret(SECRET.as_bytes()).expect("it is one");
    jsonwebtoken::encode(&Header::default(), &claims, &key).expect("it is signed")
}

#[test]
fn users_of_a_file_sign_in_by_their_tokens_and_watch_their_contacts() {
    let gateway = Gateway::start_with(&[&format!("--jwt-secret={SECRET}")], "");
    let folder = tempfile::tempdir().expect("a folder");
    let [people, json] = ["people.jsonl", "report.json"].map(|name| folder.path().join(name));
    let mut lines = String::new();
    for number in 0..USERS {
        let contacts: Vec<_> = (1..=number % 4).map(|next| name(number + next)).collect();
        let user = name(number);
        let line = json!({ "user": user, "token": token(&user), "contacts": contacts });
        writeln!(lines, "{line}").expect("it is a text");
    }
    std::fs::write(&people, lines).expect("it is written");
    let people = format!("--people={}", people.display());
    let json = json.display().to_string();
    let flags = [&people, "--rate=200/s", "--duration=2s", "--workers=2", "--json", &json];
    let output = loadtest(&gateway, &flags).output().expect("it runs");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let report = report(json.as_ref());
    let counts = &report["counts"];
    let watches = USERS / 4 * (1 + 2 + 3);
    assert_eq!((&counts["planned"], &counts["views"]), (&USERS.into(), &watches.into()), "{said}");
    assert_eq!(counts["views_online"], watches, "{said}");
    assert!(report["scenario"].as_str().is_some_and(|toml| toml.contains("people.jsonl")));
}

#[test]
fn what_is_wrong_in_the_file_is_told_with_its_line_and_nothing_is_begun() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.jsonl");
    std::fs::write(&file, "{\"user\": \"ana\", \"contacts\": [\"bo\"]}").expect("it is written");
    let people = format!("--people={}", file.display());
    let output = crate::loadtest_of("ws://127.0.0.1:9/ws", &[&people]).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("people.jsonl: line 1: contacts: bo has no line"), "{said}");
}
