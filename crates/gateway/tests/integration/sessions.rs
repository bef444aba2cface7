//! Who is connected from where, for the app's backend alone.

use presence_protocol::{Device, Format, Hello, Show};
use serde_json::{Value, json};

use crate::client::{Client, user};
use crate::house::{House, Kind, OPEN, SLOW, on_both_stores, prefix, shared_redis};
use crate::http::{self, Http};
use crate::process::Process;
use crate::raw::Raw;

on_both_stores!(every_session_on_every_gateway_is_told_of, who_has_no_session_has_an_empty_list);

async fn sessions(addr: std::net::SocketAddr, name: &str) -> Value {
    let path = format!("/v1/users/{name}/sessions");
    let answer = Http::connect(addr).await.get_with_key(&path).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).expect("JSON")
}

async fn every_session_on_every_gateway_is_told_of(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut clients = Vec::new();
    let mut expected = Vec::new();
    let cases = [
        (house.here(), Format::Json, Some("ios"), None),
        (house.there(), Format::MsgPack, None, Some(Show::Invisible)),
        (house.there(), Format::Json, Some("web"), Some(Show::Away)),
    ];
    for (addr, format, device, show) in cases {
        let mut client = Client::dial(addr, format).await;
        let device = device.map(|label| Device::new(label).expect("a label"));
        let hello =
            Hello { user: Some(user("b")), device: device.clone(), show, ..Hello::default() };
        let welcome = client.hello_with(hello).await;
        let (gateway, _) = welcome.session.as_str().split_once('-').expect("an id and a number");
        expected.push(json!({
            "id": welcome.session,
            "gateway": gateway,
            "device": device,
            "address": "127.0.0.1",
            "format": if format == Format::Json { "json" } else { "msgpack" },
            "show": show,
        }));
        clients.push(client);
        http::until_told(addr).await;
    }
    // The first is silent; the last gave a sign of life just now.
    clients[2].heartbeat();
    clients[2].fence().await;
    for addr in house.addrs() {
        let told = sessions(addr, "b").await;
        let mut list = told["sessions"].as_array().expect("a list").clone();
        let mut since = Vec::new();
        for session in &mut list {
            let session = session.as_object_mut().expect("a map");
            let time = |value: Option<Value>| value.and_then(|ms| ms.as_u64()).expect("a time");
            since.push(time(session.remove("since")));
            assert!(time(session.remove("heard")) + 5 >= since[since.len() - 1]);
        }
        assert!(since.is_sorted(), "{since:?}");
        list.sort_by_key(|session| session["id"].to_string());
        expected.sort_by_key(|session| session["id"].to_string());
        assert_eq!(list, expected);
        assert_eq!((&told["truncated"], &told["unanswered"]), (&json!(false), &json!([])));
    }
}

async fn who_has_no_session_has_an_empty_list(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut b = Client::join(house.there(), Format::Json, "b").await;
    b.fence().await;
    http::until_told(house.there()).await;
    assert_eq!(sessions(house.here(), "b").await["sessions"].as_array().map(Vec::len), Some(1));
    b.bye().await;
    http::until_told(house.there()).await;
    for name in ["b", "nobody"] {
        let told = sessions(house.here(), name).await;
        assert_eq!(told, json!({ "sessions": [], "truncated": false, "unanswered": [] }));
    }
}

#[tokio::test]
async fn a_gateway_that_does_not_answer_is_named() {
    let prefix = prefix();
    let one = Process::start(shared_redis(), &prefix, SLOW, &[OPEN]).await;
    let other = Process::start(shared_redis(), &prefix, SLOW, &[OPEN]).await;
    let mut here = Client::dial(one.addr, Format::Json).await;
    let here = here.hello("b").await;
    let mut there = Client::dial(other.addr, Format::Json).await;
    let there = there.hello("b").await;
    http::until_told(one.addr).await;
    http::until_told(other.addr).await;
    assert_eq!(sessions(one.addr, "b").await["sessions"].as_array().map(Vec::len), Some(2));
    other.signal("STOP").await;
    let told = sessions(one.addr, "b").await;
    other.signal("CONT").await;
    let gateway = |id: &presence_protocol::SessionId| {
        id.as_str().split_once('-').expect("an id and a number").0.to_owned()
    };
    assert_eq!(told["unanswered"], json!([gateway(&there.session)]));
    let told = told["sessions"].as_array().expect("a list");
    assert_eq!((told.len(), &told[0]["id"]), (1, &json!(here.session)));
}

#[tokio::test]
async fn the_address_of_a_session_is_what_a_trusted_proxy_tells_and_nobody_else() {
    for (trusted, address) in [("127.0.0.1", "203.0.113.7"), ("10.0.0.1", "127.0.0.1")] {
        let flag = format!("--trusted-proxies={trusted}");
        let gateway = House::with(Kind::OneEmbedded, SLOW, &[OPEN, &flag]).await;
        let header = ["x-forwarded-for: 203.0.113.7"];
        let (status, mut b) = Raw::ask(gateway.here(), b"", &header).await;
        assert_eq!(status, 101);
        b.hello("b").await;
        let told = sessions(gateway.here(), "b").await;
        assert_eq!(told["sessions"][0]["address"], address, "{told}");
    }
}

#[tokio::test]
async fn each_of_several_keys_opens_the_calls() {
    let keys = ["the first key of several", "the second key of several"];
    let flag = format!("--api-key={}", keys.join(","));
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[OPEN, &flag]).await;
    let calls = [
        "GET /v1/users/b/sessions",
        "POST /v1/users/b/refresh",
        "POST /v1/users/b/disconnect",
        "POST /v1/users/b/revoke",
    ];
    for (key, opens) in [(keys[0], true), (keys[1], true), (&keys.join(","), false), ("x", false)] {
        for call in calls {
            let header = [format!("authorization: Bearer {key}")];
            let answer = Http::connect(gateway.here()).await.send(call, &header, "").await;
            assert_eq!(answer.status != 401, opens, "{call} {key}: {answer:?}");
        }
    }
    for (key, count) in [(0, 8), (1, 4), (2, 4)] {
        let name = format!(r#"presence_api_calls_total{{key="{key}"}}"#);
        assert_eq!(http::metric(gateway.here(), &name).await, Some(count), "{name}");
    }
}
