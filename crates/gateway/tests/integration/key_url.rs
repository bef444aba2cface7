//! Keys that a URL publishes (JWKS): they change while clients come, and the URL is not always there.

use std::net::SocketAddr;
use std::time::Duration;

use presence_protocol::{ClientMessage, Format};
use presence_testkit::eventually;
use serde_json::json;
use tokio::time::Instant;

use crate::client::{Client, PATIENCE, user};
use crate::dial::Dial;
use crate::house::{House, Kind, SLOW};
use crate::http::{metric, refused_upgrade};
use crate::key_server::{KeyServer, Reply, key_set};
use crate::process::Process;
use crate::tokens::{NEW, OLD, hello, read};

async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, flags).await
}

async fn of(server: &KeyServer) -> House {
    gateway(&[&server.flag()]).await
}

async fn joins(addr: SocketAddr, token: &str) {
    let mut client = Client::dial(addr, Format::Json).await;
    assert_eq!(client.hello_with(hello(token.to_owned())).await.user, user("b"));
}

async fn is_refused(addr: SocketAddr, token: &str, code: u16) {
    let mut client = Client::dial(addr, Format::Json).await;
    client.send(&ClientMessage::Hello(hello(token.to_owned())));
    client.expect_close(code).await;
}

async fn keys(addr: SocketAddr) -> Option<u64> {
    metric(addr, r#"presence_auth_keys{source="url"}"#).await
}

#[tokio::test]
async fn who_signed_with_a_new_key_comes_in_before_it_was_seen_and_the_old_one_goes_on() {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = of(&server).await;
    assert_eq!(server.asked(), 1);
    joins(gateway.here(), &OLD.token("b", Some("may"))).await;

    server.set(key_set([OLD.jwk("may"), NEW.jwk("june")]));
    // All at once, in the request and in the hello: keys are fetched once for them.
    let june = NEW.token("b", Some("june"));
    let by_hello = (0..5).map(|_| joins(gateway.here(), &june));
    let by_request = async {
        let mut client = Dial::new(gateway.here()).bearer(&june).open().await;
        client.hello_with(presence_protocol::Hello::default()).await;
    };
    tokio::join!(futures::future::join_all(by_hello), by_request);
    assert_eq!(server.asked(), 2);
    joins(gateway.here(), &OLD.token("b", Some("may"))).await;
    assert_eq!(keys(gateway.here()).await, Some(2));
}

#[tokio::test]
async fn a_session_may_be_renewed_with_a_key_that_was_not_seen_yet() {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = of(&server).await;
    let mut client = Client::dial(gateway.here(), Format::MsgPack).await;
    client.hello_with(hello(OLD.token("b", Some("may")))).await;
    server.set(key_set([NEW.jwk("june")]));
    client.hello_with(hello(NEW.token("b", Some("june")))).await;
    client.fence().await;
}

#[tokio::test]
async fn keys_are_fetched_again_by_themselves() {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = gateway(&[&server.flag(), "--jwks-refresh=10s"]).await;
    server.set(key_set([OLD.jwk("may"), NEW.jwk("june")]));
    let fetched = async || (keys(gateway.here()).await == Some(2)).then_some(());
    eventually("nobody asked, and it is there", PATIENCE * 2, fetched).await;
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn made_up_names_do_not_make_a_gateway_ask_again_and_again() {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = of(&server).await;
    let before = Instant::now();
    for number in 0..20 {
        let made_up = NEW.token("b", Some(&format!("name {number}")));
        is_refused(gateway.here(), &made_up, 4002).await;
    }
    // Once at the start and once early; nobody was kept waiting for a third time.
    assert_eq!(server.asked(), 2);
    assert!(before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
    let refused = metric(gateway.here(), r#"presence_auth_refused_total{rule="unknown_key"}"#);
    assert_eq!(refused.await, Some(20));
}

#[tokio::test]
async fn a_key_that_is_no_longer_published_no_longer_counts() {
    let server = KeyServer::start(key_set([OLD.jwk("may"), NEW.jwk("june")])).await;
    let gateway = of(&server).await;
    server.set(key_set([NEW.jwk("june")]));
    // Any unknown name makes it look.
    is_refused(gateway.here(), &OLD.token("b", Some("july")), 4002).await;
    assert_eq!(keys(gateway.here()).await, Some(1));
    is_refused(gateway.here(), &OLD.token("b", Some("may")), 4002).await;
    joins(gateway.here(), &NEW.token("b", Some("june"))).await;
}

/// A URL that publishes a key, goes bad in this way, and publishes another key.
async fn goes_bad(reply: Reply, result: &str) {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = of(&server).await;
    server.set(reply);
    // An unknown name makes it look.
    is_refused(gateway.here(), &NEW.token("b", Some("june")), 1013).await;
    let counter = format!(r#"presence_jwks_refresh_total{{result="{result}"}}"#);
    assert!(metric(gateway.here(), &counter).await.is_some(), "{result}");
    joins(gateway.here(), &OLD.token("b", Some("may"))).await;
    assert_eq!(keys(gateway.here()).await, Some(1), "{result}");

    server.set(key_set([OLD.jwk("may"), NEW.jwk("june")]));
    let back = async || (keys(gateway.here()).await == Some(2)).then_some(());
    eventually("it tries again by itself", PATIENCE, back).await;
    joins(gateway.here(), &NEW.token("b", Some("june"))).await;
}

#[tokio::test]
async fn keys_are_used_on_while_their_url_answers_nothing_good() {
    let secret = json!({ "kty": "oct", "kid": "may", "k": "AAAA" });
    tokio::join!(
        goes_bad(Reply::Status("500 Internal Server Error"), "refused"),
        goes_bad(Reply::Status("302 Found\r\nlocation: /elsewhere"), "refused"),
        goes_bad(Reply::Body("<html>".to_owned()), "unusable"),
        goes_bad(key_set([]), "unusable"),
        goes_bad(key_set([secret]), "unusable"),
        goes_bad(Reply::Endless, "unreachable"),
    );
}

#[tokio::test]
async fn a_gateway_starts_without_its_url_and_sends_clients_back_until_it_is_there() {
    let addr = KeyServer::start(key_set([])).await.stop().await;
    let url = format!("--jwks-url=http://{addr}/keys?key=hush");
    let process = Process::launch(vec![url]).await;
    let said = process.said.join("\n");
    assert!(said.contains("cannot be had") && said.contains("Connection refused"), "{said}");
    assert!(said.contains("/keys?[secret]") && !said.contains("hush"), "{said}");

    let token = OLD.token("b", Some("may"));
    is_refused(process.addr, &token, 1013).await;
    let bearer = [format!("authorization: Bearer {token}")];
    let answer = refused_upgrade(process.addr, &bearer).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let refused = r#"presence_auth_refused_total{rule="keys_out_of_reach"}"#;
    assert_eq!(metric(process.addr, refused).await, Some(2));

    let _server = KeyServer::start_at(addr, key_set([OLD.jwk("may")])).await;
    eventually("the keys are there", PATIENCE, async || {
        (keys(process.addr).await == Some(1)).then_some(())
    })
    .await;
    joins(process.addr, &token).await;
    is_refused(process.addr, &NEW.token("b", Some("june")), 4002).await;
}

#[tokio::test]
async fn a_url_that_never_answers_delays_the_start_and_no_client() {
    let server = KeyServer::start(Reply::Silence).await;
    let before = Instant::now();
    let secrets = format!("--jwt-secret-file={}/secrets.txt", crate::tokens::FILES);
    let gateway = gateway(&[&server.flag(), &secrets]).await;
    assert!(before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
    // Whoever has a key that is there comes in at once.
    let before = Instant::now();
    let secret = read("secrets.txt");
    let claims = json!({ "sub": "b", "exp": 4_102_444_800_u64 });
    let key = jsonwebtoken::EncodingKey::from_secret(
        secret.lines().nth(1).expect("a second one").as_bytes(),
    );
    let header = jsonwebtoken::Header::default();
    let token = jsonwebtoken::encode(&header, &claims, &key.expect("a secret")).expect("a token");
    joins(gateway.here(), &token).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test]
async fn nobody_waits_long_for_a_url_that_fell_silent_and_nobody_else_waits_at_all() {
    let server = KeyServer::start(key_set([OLD.jwk("may")])).await;
    let gateway = of(&server).await;
    server.set(Reply::Silence);
    let before = Instant::now();
    let waits = async {
        is_refused(gateway.here(), &NEW.token("b", Some("june")), 1013).await;
        before.elapsed()
    };
    let comes_in = async {
        // While the other one waits.
        eventually("it is asked", PATIENCE, async || (server.asked() == 2).then_some(())).await;
        joins(gateway.here(), &OLD.token("b", Some("may"))).await;
        before.elapsed()
    };
    let (waited, came_in) = tokio::join!(waits, comes_in);
    assert!(came_in < waited && waited < Duration::from_secs(4), "{came_in:?}, {waited:?}");
}

#[tokio::test]
async fn over_https_only_the_named_authority_is_trusted() {
    let server = KeyServer::start_with_tls(key_set([OLD.jwk("may")])).await;
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, server.certificate().as_bytes()).expect("it is written");
    let trust = format!("--outbound-ca-file={}", file.path().display());
    let token = OLD.token("b", Some("may"));

    let trusting = gateway(&[&server.flag(), &trust]).await;
    joins(trusting.here(), &token).await;
    assert_eq!(server.asked(), 1);

    let wary = of(&server).await;
    is_refused(wary.here(), &token, 1013).await;
    assert_eq!(server.asked(), 1, "nothing is asked of who is not trusted");
}
