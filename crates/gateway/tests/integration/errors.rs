//! The table of errors: one message is refused, with its id where it has one, and the socket goes on.
//! `not_allowed` is with the permissions, in `access`; `store_unavailable` with the store's faults, in `outages`.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, RequestId};

use crate::client::{Client, users};
use crate::house::{House, Kind, OPEN, SLOW};
use crate::http::{metric, until_online};

async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, flags).await
}

#[tokio::test]
async fn each_bad_message_is_refused_with_its_code_and_id_and_the_socket_stays() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    let number = |number| Some(RequestId::Number(number));
    let text = |text: &str| Some(RequestId::Text(text.into()));
    let table = [
        ("", ErrorCode::BadMessage, None),
        ("[]", ErrorCode::BadMessage, None),
        (r#"{"id":1}"#, ErrorCode::BadMessage, number(1)),
        (r#"{"type":7,"id":2}"#, ErrorCode::BadMessage, number(2)),
        (r#"{"type":"watch","id":3}"#, ErrorCode::BadMessage, number(3)),
        (r#"{"type":"watch","users":"b","id":"x"}"#, ErrorCode::BadMessage, text("x")),
        (
            r#"{"type":"watch","users":["b"],"users":["c"],"id":5}"#,
            ErrorCode::BadMessage,
            number(5),
        ),
        (r#"{"type":"status","show":"asleep"}"#, ErrorCode::BadMessage, None),
        (r#"{"type":"nudge","id":6}"#, ErrorCode::UnknownType, number(6)),
        (r#"{"type":"welcome","id":7}"#, ErrorCode::UnknownType, number(7)),
        (r#"{"type":"watch","users":["b",""],"id":8}"#, ErrorCode::BadUserId, number(8)),
    ];
    for (message, code, id) in table {
        client.send_text(message);
        let error = client.expect_error(code).await;
        assert_eq!(error.id, id, "{message}: {error:?}");
    }
    let long = "x".repeat(129);
    client.send_text(&format!(r#"{{"type":"query","users":["b","{long}"],"id":9}}"#));
    assert_eq!(client.expect_error(ErrorCode::BadUserId).await.id, number(9));
    client.fence().await;
    for (code, count) in [("bad_message", 8), ("unknown_type", 2), ("bad_user_id", 2)] {
        let name = format!("presence_refused_messages_total{{code=\"{code}\"}}");
        assert_eq!(metric(gateway.here(), &name).await, Some(count), "{name}");
    }
}

#[tokio::test]
async fn a_refused_watch_watches_nobody() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    client.send_text(r#"{"type":"watch","users":["b",""]}"#);
    client.expect_error(ErrorCode::BadUserId).await;
    let b = Client::join(gateway.here(), Format::Json, "b").await;
    until_online(gateway.here(), "b").await;
    b.bye().await;
    client.fence().await;
    client.expect_nothing_for(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_watch_list_that_would_be_too_long_is_refused_whole() {
    let gateway = gateway(&[OPEN, "--max-watch=3"]).await;
    let mut client = Client::dial(gateway.here(), Format::MsgPack).await;
    assert_eq!(client.hello("a").await.max_watch, 3);
    // Twice the same is one, also in a request of its own.
    assert_eq!(client.watch(["b", "c", "b"]).await.len(), 3);
    assert_eq!(client.watch(["c", "b"]).await.len(), 2);
    let refused =
        client.ask(|id| ClientMessage::Watch { users: users(["d", "e"]), id, grant: None }).await;
    assert_eq!(refused.expect_err("two too many").code, ErrorCode::TooManyWatches);
    let query = ["b", "c", "d", "e"];
    let refused =
        client.ask(|id| ClientMessage::Query { users: users(query), id, grant: None }).await;
    assert_eq!(refused.expect_err("one too many").code, ErrorCode::TooManyWatches);
    let name = "presence_refused_messages_total{code=\"too_many_watches\"}";
    assert_eq!(metric(gateway.here(), name).await, Some(2));
    client.unwatch(["b"]);
    assert_eq!(client.watch(["d"]).await.len(), 1);
    // Nobody of the refused request is watched.
    for name in ["b", "e", "d"] {
        let session = Client::join(gateway.here(), Format::Json, name).await;
        until_online(gateway.here(), name).await;
        session.bye().await;
    }
    client.expect_presence("d").await;
}

#[tokio::test]
async fn what_is_over_the_rate_is_refused_and_dropped_and_the_rest_is_handled() {
    let gateway = gateway(&[OPEN, "--message-rate=10"]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    // Four seconds' worth may come at once.
    for _ in 0..60 {
        client.heartbeat();
    }
    client.expect_error(ErrorCode::RateLimited).await;
    client.expect_error(ErrorCode::RateLimited).await;
    let name = "presence_refused_messages_total{code=\"rate_limited\"}";
    let refused = metric(gateway.here(), name).await.expect("it is counted");
    assert!((2..=20).contains(&refused), "{refused}");
}

#[tokio::test]
async fn an_id_is_echoed_as_it_came_and_unknown_fields_are_ignored() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    for (id, echoed) in [("7", r#""id":7,"#), (r#""7""#, r#""id":"7","#), ("null", "")] {
        client.send_text(&format!(
            r#"{{"type":"query","users":["b"],"id":{id},"by":{{"the":["way"]}}}}"#
        ));
        let frame = client.next_frame().await;
        let expected = format!(
            r#"{{"type":"snapshot",{echoed}"users":[{{"user":"b","state":"offline","version":"#
        );
        assert!(frame.starts_with(expected.as_bytes()), "{frame:?}");
    }
}
