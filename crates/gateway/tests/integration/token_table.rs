//! The table of tokens that another library made (`tests/tokens/make.py`), over real sockets: no bad one gets in, all bad
//! ones get the same answer, the log and the metrics say which rule each broke, and no log line holds a token.

use std::collections::BTreeMap;

use presence_protocol::{ClientMessage, Format, Hello};
use presence_testkit::eventually;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Client, Heard, PATIENCE, user};
use crate::dial::Dial;
use crate::http::{get, metric, refused_upgrade};
use crate::key_server::{KeyServer, Reply};
use crate::process::Process;
use crate::tokens::{FILES, hello, read};

/// The most that a gateway reads of a request's head, in bytes.
const HEAD_LEN_MAX: usize = 16 << 10;

/// What the log says of each.
const REFUSED: &str = "a client was refused";

#[derive(Deserialize)]
struct Row {
    name: String,
    token: String,
    user: Option<String>,
    rule: Option<String>,
}

impl Row {
    /// Whether HTTP carries it as it is: spaces around a header's value are not part of it, and a head that is too long is
    /// refused before anybody looks at it.
    fn fits_a_header(&self) -> bool {
        self.token.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
            && !self.token.is_empty()
            && self.token.len() < HEAD_LEN_MAX
    }
}

async fn gateway(keys: &KeyServer) -> Process {
    Process::launch(vec![
        format!("--jwt-secret-file={FILES}/secrets.txt"),
        format!("--jwt-public-key-file={FILES}/public.pem"),
        keys.flag(),
        "--jwt-issuer=https://auth.test".to_owned(),
        "--jwt-audience=presence".to_owned(),
        "--max-frame-bytes=1MiB".to_owned(),
        "--log=trace".to_owned(),
    ])
    .await
}

#[tokio::test]
async fn no_bad_token_gets_in_and_none_is_told_more_than_another() {
    let rows: Vec<Row> = serde_json::from_str(&read("table.json")).expect("a table");
    let keys = KeyServer::start(Reply::Body(read("jwks.json"))).await;
    let process = gateway(&keys).await;
    let addr = process.addr;
    let mut broken: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut closes, mut answers) = (BTreeMap::new(), BTreeMap::new());
    for row in &rows {
        let mut client = Client::dial(addr, Format::Json).await;
        if let Some(name) = &row.user {
            let welcome = client.hello_with(hello(row.token.clone())).await;
            assert_eq!(welcome.user, user(name), "{}", row.name);
            let mut client = Dial::new(addr).bearer(&row.token).open().await;
            assert_eq!(client.hello_with(Hello::default()).await.user, user(name), "{}", row.name);
            continue;
        }
        client.send(&ClientMessage::Hello(hello(row.token.clone())));
        let rule = row.rule.as_deref().expect("a user or a rule");
        *broken.entry(rule).or_default() += 1;
        match client.end().await {
            Heard::Close(Some(close)) => closes.entry(close).or_insert_with(Vec::new).push(rule),
            other => panic!("{}: a close was due, not {other:?}", row.name),
        }
        if row.fits_a_header() {
            *broken.entry(rule).or_default() += 1;
            let bearer = [format!("authorization: Bearer {}", row.token)];
            let answer = refused_upgrade(addr, &bearer).await;
            let head: Vec<_> =
                answer.head.lines().filter(|line| !line.starts_with("date:")).collect();
            answers.entry((head.join("\n"), answer.body)).or_insert_with(Vec::new).push(&row.name);
        }
    }
    // Byte for byte the same, but that who has expired is told to come back with a fresh token.
    assert_eq!(answers.len(), 1, "{answers:?}");
    let codes: Vec<u16> = closes.keys().map(|(code, _)| *code).collect();
    assert_eq!(codes, [4002, 4003], "{closes:?}");
    for ((code, _), rules) in closes {
        let all = rules.iter().all(|rule| (*rule == "expired") == (code == 4003));
        assert!(all, "{code}: {rules:?}");
    }
    for (rule, times) in &broken {
        let counter = format!(r#"presence_auth_refused_total{{rule="{rule}"}}"#);
        assert_eq!(metric(addr, &counter).await, Some(*times), "{rule}");
    }
    let total: u64 = broken.values().sum();
    let log = eventually("the whole log is read", PATIENCE, async || {
        let log = process.log();
        let refused = log.iter().filter(|line| line.contains(REFUSED)).count();
        (refused as u64 >= total).then_some(log)
    })
    .await;
    assert_log(&log, &rows, &broken);
}

/// Which rule was broken is in the log as often as it was; and nothing of a token is.
fn assert_log(log: &[String], rows: &[Row], broken: &BTreeMap<&str, u64>) {
    let mut logged: BTreeMap<String, u64> = BTreeMap::new();
    for line in log {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if line["message"] == REFUSED {
            *logged.entry(line["rule"].as_str().expect("a rule").to_owned()).or_default() += 1;
        }
    }
    let broken: BTreeMap<String, u64> =
        broken.iter().map(|(rule, times)| ((*rule).to_owned(), *times)).collect();
    assert_eq!(logged, broken);
    let log = log.join("\n");
    for row in rows {
        for part in row.token.split('.').filter(|part| part.len() > 12) {
            assert!(!log.contains(part), "the log holds a part of: {}", row.name);
        }
    }
    for secret in read("secrets.txt").lines() {
        assert!(!log.contains(secret));
    }
}

#[tokio::test]
async fn a_token_in_the_url_is_not_read_and_not_logged() {
    let keys = KeyServer::start(Reply::Body(read("jwks.json"))).await;
    let process = gateway(&keys).await;
    let rows: Vec<Row> = serde_json::from_str(&read("table.json")).expect("a table");
    let good = &rows.iter().find(|row| row.user.is_some()).expect("a good one").token;
    let mut client = Dial::new(process.addr).path(&format!("/ws?token={good}")).open().await;
    client.send(&ClientMessage::Hello(Hello::default()));
    client.expect_close(4002).await;
    get(process.addr, &format!("/v1/presence/x?access_token={good}")).await;
    let no_token = r#"presence_auth_refused_total{rule="no_token"}"#;
    assert_eq!(metric(process.addr, no_token).await, Some(1));
    assert!(!process.log().join("\n").contains(good.as_str()));
}
