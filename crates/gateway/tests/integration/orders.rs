//! What the app's backend orders of a user holds on every gateway, those to come and those that did not listen included.

use presence_protocol::{ClientMessage, Format, UserState};
use presence_testkit::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE};
use crate::dial::Dial;
use crate::house::{House, Kind, QUICK, SLOW, on_both_stores, shared_redis};
use crate::http::{self, Http};
use crate::process::Process;
use crate::tokens::{self, JWT_FLAG, hello, token_with_claim};

on_both_stores!(
    a_revoked_users_sockets_close_and_tokens_of_before_let_nobody_in,
    revoking_one_users_tokens_leaves_others_alone,
);

fn issued_at(user: &str, second: u64) -> String {
    token_with_claim(user, "iat", &second.into())
}

async fn sign_in(house: &House, token: String) -> Client {
    let mut client = Client::dial(house.there(), Format::Json).await;
    client.hello_with(hello(token)).await;
    client
}

/// Answers from which second on tokens count.
pub(crate) async fn revoke(house: &House, name: &str) -> u64 {
    let path = format!("/v1/users/{name}/revoke");
    let answer = Http::connect(house.here()).await.post(&path, "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    body["issued_from"].as_u64().expect("a second")
}

async fn expect_refused(addr: std::net::SocketAddr, token: &str) {
    // This first: a socket that was let in by mistake would be closed a moment later all the same.
    let bearer = [format!("authorization: Bearer {token}")];
    assert_eq!(http::refused_upgrade(addr, &bearer).await.status, 401);
    let mut client = Client::dial(addr, Format::Json).await;
    client.send(&ClientMessage::Hello(hello(token.to_owned())));
    client.expect_close(4002).await;
}

async fn a_revoked_users_sockets_close_and_tokens_of_before_let_nobody_in(kind: Kind) {
    let house = House::with(kind, SLOW, &[JWT_FLAG]).await;
    let now = jsonwebtoken::get_current_timestamp();
    let (old, undated) = (issued_at("b", now - 60), tokens::token("b"));
    let mut sessions = Vec::new();
    for (addr, token) in [(house.here(), &old), (house.there(), &old), (house.there(), &undated)] {
        let mut client = Client::dial(addr, Format::MsgPack).await;
        client.hello_with(hello(token.clone())).await;
        sessions.push(client);
    }
    sessions.push(Dial::new(house.here()).bearer(&old).open().await);
    let last = sessions.last_mut().expect("there is one");
    last.hello_with(presence_protocol::Hello::default()).await;
    let from = revoke(&house, "b").await;
    assert!((now..now + 60).contains(&from), "{from}");
    for session in &mut sessions {
        session.expect_close(4002).await;
    }
    for addr in [house.here(), house.there()] {
        expect_refused(addr, &old).await;
        expect_refused(addr, &undated).await;
        expect_refused(addr, &issued_at("b", from - 1)).await;
        let mut client = Client::dial(addr, Format::Json).await;
        client.hello_with(hello(issued_at("b", from))).await;
        // A fresh token does not make an old one good.
        client.send(&ClientMessage::Hello(hello(old.clone())));
        client.expect_close(4002).await;
    }
}

async fn revoking_one_users_tokens_leaves_others_alone(kind: Kind) {
    let house = House::with(kind, SLOW, &[JWT_FLAG]).await;
    let mut other = sign_in(&house, issued_at("bb", 1)).await;
    let mut b = sign_in(&house, issued_at("b", 1)).await;
    revoke(&house, "b").await;
    b.expect_close(4002).await;
    other.fence().await;
    sign_in(&house, issued_at("bb", 1)).await.bye().await;
}

#[tokio::test]
async fn a_gateway_that_starts_later_knows_whose_tokens_were_revoked() {
    let house = House::with(Kind::TwoOnRedis, SLOW, &[JWT_FLAG]).await;
    revoke(&house, "b").await;
    let later = Process::start(shared_redis(), house.prefix(), SLOW, &["--auth=jwt", JWT_FLAG]);
    let later = later.await;
    expect_refused(later.addr, &issued_at("b", 1)).await;
}

#[tokio::test]
async fn an_order_that_a_gateway_could_not_hear_is_found() {
    let server = RedisServer::start();
    let house = House::on(&server, SLOW, &[JWT_FLAG]).await;
    let mut b = sign_in(&house, issued_at("b", 1)).await;
    // As a gateway does whose word was lost on the way.
    let orders = format!("{}:orders", house.prefix());
    let now = jsonwebtoken::get_current_timestamp().to_string();
    assert_eq!(server.cli(&["ZADD", &orders, &now, "revoke b"]), "1");
    server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    b.expect_close(4002).await;
}

#[tokio::test]
async fn a_redis_that_restarted_empty_is_told_again_whose_tokens_were_revoked() {
    let server = RedisServer::start();
    let house = House::on(&server, QUICK, &[JWT_FLAG]).await;
    let from = revoke(&house, "b").await;
    server.cli(&["FLUSHALL"]);
    let orders = format!("{}:orders", house.prefix());
    let restored = async || {
        let date = server.cli(&["ZSCORE", &orders, "revoke b"]);
        (date == from.to_string()).then_some(())
    };
    eventually("the order is there again", PATIENCE, restored).await;
    expect_refused(house.there(), &issued_at("b", from - 1)).await;
    sign_in(&house, issued_at("b", from)).await.bye().await;
}

#[tokio::test]
async fn where_nobody_has_a_token_there_is_nothing_to_revoke() {
    let gateway = House::new(Kind::OneEmbedded, SLOW).await;
    let mut b = Client::join(gateway.here(), Format::Json, "b").await;
    let answer = Http::connect(gateway.here()).await.post("/v1/users/b/revoke", "").await;
    assert_eq!(answer.status, 409, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(body["error"]["code"], json!("no_tokens"));
    b.fence().await;
}

#[tokio::test]
async fn a_refresh_changes_nothing_where_tokens_decide() {
    let house = House::with(Kind::TwoOnRedis, SLOW, &[JWT_FLAG]).await;
    let mut watcher = sign_in(&house, tokens::token_to_watch("a", &["b"])).await;
    watcher.watch(["b"]).await;
    let answer = Http::connect(house.here()).await.post("/v1/users/a/refresh", "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let _b = sign_in(&house, tokens::token("b")).await;
    let push: UserState = watcher.expect_online("b").await.state;
    assert_eq!(push.user.as_str(), "b");
}
