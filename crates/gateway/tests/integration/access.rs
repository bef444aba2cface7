//! Nobody where they don't belong: whom a token lets its user watch, and the backend's `disconnect`.

use presence_protocol::{ClientMessage, ErrorCode, Format, RequestId, UserId, UserState};
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, users};
use crate::house::{House, Kind, LATE_MAX, OPEN, QUICK, SLOW, on_both_stores};
use crate::http::{Http, until_online};
use crate::tokens::{JWT_FLAG, hello, token, token_to_watch};

on_both_stores!(
    the_backend_disconnects_every_session_of_a_user_on_every_gateway,
    who_may_watch_some_is_told_of_these_only,
);

const DISCONNECT: &str = "/v1/users/b/disconnect";

fn names(states: &[UserState]) -> Vec<&str> {
    states.iter().map(|state| state.user.as_str()).collect()
}

async fn the_backend_disconnects_every_session_of_a_user_on_every_gateway(kind: Kind) {
    let house = House::new(kind, QUICK).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut sessions = Vec::new();
    for addr in [house.here(), house.there(), house.there()] {
        sessions.push(Client::join(addr, Format::MsgPack, "b").await);
    }
    watcher.expect_online("b").await;
    let before = Instant::now();
    let answer = Http::connect(house.here()).await.post(DISCONNECT, "").await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    for session in &mut sessions {
        session.expect_close(4007).await;
    }
    let push = watcher.expect_offline("b").await;
    let latest = house.times.grace + LATE_MAX;
    assert!(push.at - before < latest, "{:?}", push.at - before);
    // The watcher is another user, and goes on; the user may come back.
    watcher.fence().await;
    let _back = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
}

#[tokio::test]
async fn disconnecting_a_user_who_is_not_here_harms_nobody() {
    let house = House::new(Kind::TwoOnRedis, SLOW).await;
    let mut other = Client::join(house.here(), Format::Json, "bb").await;
    let answer = Http::connect(house.here()).await.post(DISCONNECT, "").await;
    assert!((200..300).contains(&answer.status), "{answer:?}");
    other.fence().await;
}

#[tokio::test]
async fn disconnecting_needs_the_api_key() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[OPEN]).await;
    let mut b = Client::join(gateway.here(), Format::Json, "b").await;
    let mut http = Http::connect(gateway.here()).await;
    let wrong = ["authorization: Bearer the key of other tests".to_owned()];
    let answer = http.send(&format!("POST {DISCONNECT}"), &wrong, "").await;
    assert_eq!(answer.status, 401, "{answer:?}");
    assert_eq!(
        http.post(&format!("/v1/users/{}/disconnect", "x".repeat(129)), "").await.status,
        400
    );
    b.fence().await;
}

async fn who_may_watch_some_is_told_of_these_only(kind: Kind) {
    let house = House::with(kind, SLOW, &[JWT_FLAG]).await;
    let mut watcher = Client::dial(house.here(), Format::Json).await;
    watcher.hello_with(hello(token_to_watch("a", &["b", "team1:*"]))).await;
    let id = RequestId::Number(7);
    for kind in ["watch", "query"] {
        // In two messages: the refusal, and the answer about the rest, in the order asked.
        watcher.send_text(&format!(
            r#"{{"type":"{kind}","users":["team1:x","c","b","team2:x","b"],"id":7}}"#
        ));
        let error = watcher.expect_error(ErrorCode::NotAllowed).await;
        assert_eq!(error.users.iter().map(UserId::as_str).collect::<Vec<_>>(), ["c", "team2:x"]);
        assert_eq!(error.id.as_ref(), Some(&id));
        let states = watcher.answer(&id).await;
        assert_eq!(names(&states.expect("a snapshot")), ["team1:x", "b", "b"]);
    }
    for name in ["c", "bb", "team2:x"] {
        let mut client = Client::dial(house.there(), Format::Json).await;
        client.hello_with(hello(token(name))).await;
        until_online(house.there(), name).await;
        client.bye().await;
    }
    let mut allowed = Client::dial(house.there(), Format::Json).await;
    allowed.hello_with(hello(token("team1:x"))).await;
    watcher.expect_online("team1:x").await;
    watcher.fence().await;
}

#[tokio::test]
async fn who_may_watch_nobody_is_refused_whomever_they_ask_for() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG]).await;
    let mut client = Client::dial(gateway.here(), Format::MsgPack).await;
    client.hello_with(hello(token_to_watch("a", &[]))).await;
    let refused =
        client.ask(|id| ClientMessage::Query { users: users(["a", "b"]), id, grant: None }).await;
    let error = refused.expect_err("nobody is allowed");
    assert_eq!((error.code, error.users), (ErrorCode::NotAllowed, users(["a", "b"])));
}

#[tokio::test]
async fn a_fresh_token_that_allows_fewer_takes_the_others_off_the_watch_list() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG]).await;
    let mut watcher = Client::dial(gateway.here(), Format::Json).await;
    watcher.hello_with(hello(token("a"))).await;
    watcher.watch(["b", "c"]).await;
    watcher.hello_with(hello(token_to_watch("a", &["c"]))).await;
    let error = watcher.expect_error(ErrorCode::NotAllowed).await;
    assert_eq!((error.users, error.id), (users(["b"]), None));
    let mut sessions = Vec::new();
    for name in ["b", "c"] {
        let mut client = Client::dial(gateway.here(), Format::Json).await;
        client.hello_with(hello(token(name))).await;
        until_online(gateway.here(), name).await;
        sessions.push(client);
    }
    watcher.expect_online("c").await;
}

#[tokio::test]
async fn a_claim_of_the_wrong_kind_lets_nobody_in() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG]).await;
    for claim in [Value::from("b"), Value::from(7), Value::from(vec![1])] {
        let mut client = Client::dial(gateway.here(), Format::Json).await;
        let bad = crate::tokens::token_with_claim("a", "watch", &claim);
        client.send(&ClientMessage::Hello(hello(bad)));
        client.expect_close(4002).await;
    }
}
