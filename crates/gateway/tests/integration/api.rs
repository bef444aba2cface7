//! HTTP beside the socket: health, metrics, and the calls for the backend.

use presence_protocol::Format;
use serde_json::{Value, json};

use crate::client::Client;
use crate::house::{House, Kind, OPEN, SLOW, on_both_stores};
use crate::http::{self, Answer, Http};

on_both_stores!(
    the_backend_is_answered_in_the_order_asked,
    the_backend_may_ask_for_one_user_whatever_the_name,
);

async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, flags).await
}

fn json_of(answer: &Answer) -> Value {
    assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    serde_json::from_str(&answer.body).expect("JSON")
}

#[tokio::test]
async fn a_living_gateway_is_healthy_and_ready_and_measured() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    client.watch(["c", "d"]).await;
    assert_eq!(http::get(gateway.here(), "/healthz").await.status, 200);
    assert_eq!(http::get(gateway.here(), "/readyz").await.status, 200);
    let answer = http::get(gateway.here(), "/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/openmetrics-text"), "{}", answer.head);
    assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
    for (name, value) in [
        ("presence_connections", 1),
        ("presence_sessions", 1),
        ("presence_users", 1),
        ("presence_watched_users", 2),
        ("presence_watches", 2),
        ("presence_degraded", 0),
    ] {
        assert_eq!(http::metric(gateway.here(), name).await, Some(value), "{name}");
    }
}

#[tokio::test]
async fn without_an_api_key_there_are_no_calls_for_the_backend() {
    let args = ["presence-gateway", "--dev", "--listen=127.0.0.1:0"];
    let settings = presence_gateway::settings::Settings::from_parts(args, [], None);
    let gateway = presence_gateway::Gateway::start(settings.expect("good settings")).await;
    let addr = gateway.as_ref().expect("it starts").addr();
    let mut http = Http::connect(addr).await;
    for answer in [
        http.query(r#"{"users":["b"]}"#).await,
        http.get_with_key("/v1/presence/b").await,
        http.post("/v1/users/b/disconnect", "").await,
    ] {
        let error = &json_of(&answer)["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!("no_api_key")));
        assert!(error["message"].to_string().contains("--api-key"), "{error}");
    }
    assert_eq!(http.get("/v1/stats").await.status, 200);
}

#[tokio::test]
async fn without_the_right_key_the_backend_is_refused() {
    let gateway = gateway(&[OPEN]).await;
    for header in [
        "x-nothing: here",
        "authorization: Bearer the key of other tests",
        "authorization: the key of these tests",
        "authorization: Bearer ",
    ] {
        for call in ["GET /v1/presence/b", "POST /v1/presence/query"] {
            let mut http = Http::connect(gateway.here()).await;
            let answer = http.send(call, &[header.to_owned()], r#"{"users":["b"]}"#).await;
            assert_eq!(answer.status, 401, "{call} {header}");
            assert_eq!(json_of(&answer)["error"]["code"], "bad_api_key");
        }
    }
}

/// Offline, with no `since`; the version is since when the store remembers.
fn assert_never_seen(state: &serde_json::Value, user: &str) {
    let version = &state["version"];
    assert!(version.is_u64(), "{state}");
    assert_eq!(*state, json!({ "user": user, "state": "offline", "version": version }));
}

async fn the_backend_is_answered_in_the_order_asked(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut b = Client::dial(house.there(), Format::Json).await;
    b.hello_from("b", "ios").await;
    let online = watcher.expect_online("b").await.state;
    http::until_online(house.here(), "a").await;
    let mut http = Http::connect(house.here()).await;
    let answer = http.query(r#"{"users":["c","b","a","b"],"unknown":true}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let users = &json_of(&answer)["users"];
    assert_never_seen(&users[0], "c");
    for at in [1, 3] {
        assert_eq!(users[at], serde_json::to_value(&online).expect("JSON"));
    }
    assert_eq!((&users[2]["user"], &users[2]["state"]), (&json!("a"), &json!("online")));
    assert_eq!(users.as_array().map(Vec::len), Some(4));
    assert_eq!(json_of(&http.query(r#"{"users":[]}"#).await), json!({ "users": [] }));
}

async fn the_backend_may_ask_for_one_user_whatever_the_name(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut http = Http::connect(house.here()).await;
    for (path, name) in
        [("b", "b"), ("query", "query"), ("%D0%B0%D0%BD%D0%B0%2F1%20%3F", "ана/1 ?")]
    {
        let mut watcher = Client::join(house.here(), Format::Json, "a").await;
        watcher.watch([name]).await;
        let _session = Client::join(house.there(), Format::MsgPack, name).await;
        let online = watcher.expect_online(name).await.state;
        let answer = http.get_with_key(&format!("/v1/presence/{path}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(json_of(&answer), serde_json::to_value(&online).expect("JSON"));
    }
    let answer = http.get_with_key("/v1/presence/nobody").await;
    assert_never_seen(&json_of(&answer), "nobody");
}

#[tokio::test]
async fn a_bad_body_is_refused_with_what_would_be_right() {
    let gateway = gateway(&[OPEN]).await;
    let mut http = Http::connect(gateway.here()).await;
    let too_many = json!({ "users": vec!["b"; 10_001] }).to_string();
    let long = json!({ "users": ["b", "x".repeat(129)] }).to_string();
    let large = json!({ "users": ["x".repeat(2 << 20)] }).to_string();
    for (body, status, code, fault) in [
        ("", 400, "bad_message", "EOF while parsing a value"),
        ("{", 400, "bad_message", "EOF while parsing an object"),
        (r#"["b"]"#, 422, "bad_message", "[0]: invalid type: string"),
        (r#"{"users":"b"}"#, 422, "bad_message", "users: invalid type: string"),
        (r#"{"users":[7]}"#, 422, "bad_message", "users[0]: invalid type: integer `7`"),
        (r#"{"users":["b",""]}"#, 400, "bad_user_id", "users[1]: "),
        (&long, 400, "bad_user_id", "users[1]: "),
        (&too_many, 400, "too_many_watches", "at most 10000 users"),
        (&large, 413, "bad_message", "a body is at most 2097152 bytes"),
    ] {
        // One that is too large is not read to its end, and the connection closes.
        let answer = Http::connect(gateway.here()).await.query(body).await;
        let clipped = &body[..body.len().min(40)];
        assert_eq!(answer.status, status, "{clipped}: {answer:?}");
        let error = &json_of(&answer)["error"];
        assert_eq!(error["code"], code, "{clipped}: {answer:?}");
        let message = error["message"].as_str().expect("a sentence");
        let what = message.strip_prefix("expected {\"users\":[\"id\", …]}: ");
        assert_eq!(what.is_some(), code == "bad_message", "{message}");
        assert!(what.unwrap_or(message).starts_with(fault), "{message}");
    }
    let answer = http.get_with_key(&format!("/v1/presence/{}", "x".repeat(129))).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    // Not JSON by its own word.
    let key = format!("authorization: Bearer {}", crate::house::API_KEY);
    let answer = http.send("POST /v1/presence/query", &[key], r#"{"users":["b"]}"#).await;
    assert_eq!(answer.status, 415, "{answer:?}");
    assert!(answer.body.contains("'Content-Type: application/json'"), "{answer:?}");
}

#[tokio::test]
async fn what_is_no_call_is_refused_as_json() {
    let gateway = gateway(&[OPEN]).await;
    let mut http = Http::connect(gateway.here()).await;
    for path in ["/v1", "/v1/", "/v1/presence", "/v1/presence/", "/v1/presence/b/c", "/v1/users/b"]
    {
        let answer = http.get_with_key(path).await;
        let code = json_of(&answer)["error"]["code"].clone();
        assert_eq!((answer.status, code), (404, json!("no_such_call")), "{path}");
    }
    for (call, allow) in
        [("POST /v1/presence/b", "get,head"), ("DELETE /v1/presence/query", "get,head,post")]
    {
        let answer = http.send(call, &[], "").await;
        let code = json_of(&answer)["error"]["code"].clone();
        assert_eq!((answer.status, code), (405, json!("wrong_method")), "{call}");
        assert!(answer.head.contains(&format!("allow: {allow}\r\n")), "{answer:?}");
    }
}
