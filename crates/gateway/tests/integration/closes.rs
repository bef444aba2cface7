//! The table of close codes: each is provoked, and counted under its label. 1001 has no cause to provoke; 4004 is with
//! the dot, in `presence`, 1012 in `drain`, 1013 in `limits_of_memory`, and 4008 and 4009 in `limits`.

use std::net::SocketAddr;
use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, Hello};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

use crate::client::{Client, Heard, user, users};
use crate::dial::Dial;
use crate::house::{House, Kind, OPEN, QUICK, SLOW};
use crate::http::{metric, until_online};
use crate::tokens::{JWT_FLAG, LEEWAY_S, forged_token, hello, token, token_until};

/// A gateway with the embedded store, on which nothing lapses.
async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, flags).await
}

async fn assert_counted(addr: SocketAddr, reason: &str) {
    let name = format!("presence_closes_total{{reason=\"{reason}\"}}");
    assert_eq!(metric(addr, &name).await, Some(1), "{name}");
}

fn text_frame(payload: &'static [u8]) -> Frame {
    Frame::message(payload, OpCode::Data(Data::Text), true)
}

#[tokio::test]
async fn who_says_bye_is_closed_with_1000() {
    let gateway = gateway(&[OPEN]).await;
    Client::join(gateway.here(), Format::Json, "b").await.bye().await;
    assert_counted(gateway.here(), "bye").await;
}

#[tokio::test]
async fn who_closes_by_itself_is_answered_and_counted_as_peer() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    client.send_raw(Message::Close(None));
    assert!(matches!(client.end().await, Heard::Close(None)));
    assert_counted(gateway.here(), "peer").await;
}

#[tokio::test]
async fn a_frame_that_breaks_websocket_is_closed_with_1002() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    let opcode = OpCode::Data(Data::Text);
    let header = FrameHeader { is_final: true, rsv1: true, opcode, ..FrameHeader::default() };
    client.send_frame(Frame::from_payload(header, "{}".into()));
    client.expect_close(1002).await;
    assert_counted(gateway.here(), "protocol_error").await;
}

#[tokio::test]
async fn a_frame_of_the_other_kind_is_closed_with_1003_before_hello_and_after() {
    let gateway = gateway(&[OPEN]).await;
    for (format, wrong) in [
        (Format::Json, Message::binary(&b"\x81\xa4type\xa9heartbeat"[..])),
        (Format::MsgPack, Message::text(r#"{"type":"heartbeat"}"#)),
    ] {
        let mut signed_in = Client::join(gateway.here(), format, "b").await;
        let mut stranger = Client::dial(gateway.here(), format).await;
        for client in [&mut signed_in, &mut stranger] {
            client.send_raw(wrong.clone());
            client.expect_close(1003).await;
        }
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_closed_with_1007() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    client.send_frame(text_frame(b"{\"type\":\"bye\xff\"}"));
    client.expect_close(1007).await;
    assert_counted(gateway.here(), "not_utf8").await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_closed_with_1009_whole_or_in_pieces() {
    let gateway = gateway(&[OPEN, "--max-frame-bytes=2KiB"]).await;
    let padded = |len: usize| {
        let message = r#"{"type":"heartbeat","padding":""}"#;
        message.replace("\"\"", &format!("\"{}\"", "x".repeat(len - message.len())))
    };
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    client.send_text(&padded(2048));
    client.fence().await;
    client.send_text(&padded(2049));
    client.expect_close(1009).await;

    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    for opcode in [Data::Text, Data::Continue, Data::Continue] {
        client.send_frame(Frame::message(vec![b'x'; 1000], OpCode::Data(opcode), false));
    }
    client.expect_close(1009).await;
    let name = "presence_closes_total{reason=\"too_large\"}";
    assert_eq!(metric(gateway.here(), name).await, Some(2));
}

#[tokio::test]
async fn who_says_no_hello_in_time_is_closed_with_4001() {
    let gateway = gateway(&[OPEN, "--hello-timeout=200ms"]).await;
    let before = Instant::now();
    let mut silent = Client::dial(gateway.here(), Format::MsgPack).await;
    // A Ping is no hello.
    silent.ping();
    silent.expect_close(4001).await;
    assert!(before.elapsed() >= Duration::from_millis(200));
    assert_counted(gateway.here(), "no_hello").await;
}

#[tokio::test]
async fn who_says_something_else_first_is_told_why_and_closed_with_4001() {
    let gateway = gateway(&[OPEN, "--hello-timeout=1m"]).await;
    for (first, code) in [
        (r#"{"type":"watch","users":["b"]}"#, ErrorCode::BadMessage),
        (r#"{"type":"watch","users":5}"#, ErrorCode::BadMessage),
        (r#"{"type":"hallo"}"#, ErrorCode::UnknownType),
        ("{}", ErrorCode::BadMessage),
        ("hello", ErrorCode::BadMessage),
        ("", ErrorCode::BadMessage),
    ] {
        let mut client = Client::dial(gateway.here(), Format::Json).await;
        client.send_text(first);
        client.expect_error(code).await;
        client.expect_close(4001).await;
    }
    let mut client = Client::dial(gateway.here(), Format::MsgPack).await;
    client.send_raw(Message::binary(&b"zzz"[..]));
    client.expect_error(ErrorCode::BadMessage).await;
    client.expect_close(4001).await;
}

#[tokio::test]
async fn who_says_hello_badly_is_told_why_and_may_say_it_again() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    for (first, code) in [
        (r#"{"type":"hello","user":""}"#, ErrorCode::BadUserId),
        (r#"{"type":"hello","user":"a","device":"iPhone"}"#, ErrorCode::BadMessage),
        (r#"{"type":"hello"}"#, ErrorCode::BadMessage),
        (r#"{"type":"hello","user":"a""#, ErrorCode::BadMessage),
    ] {
        client.send_text(first);
        client.expect_error(code).await;
    }
    client.hello("a").await;
}

#[tokio::test]
async fn a_token_that_is_not_valid_is_closed_with_4002() {
    let gateway = gateway(&[JWT_FLAG]).await;
    for bad in [hello(forged_token("b")), hello("no token".to_owned()), hello(token(""))] {
        let mut client = Client::dial(gateway.here(), Format::Json).await;
        client.send(&ClientMessage::Hello(bad));
        let sentence = client.expect_close(4002).await;
        assert!(!sentence.contains("signature"), "a peer learns nothing by trying: {sentence}");
    }
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    assert_eq!(client.hello_with(hello(token("b"))).await.user, user("b"));
    client.send(&ClientMessage::Hello(hello(forged_token("b"))));
    client.expect_close(4002).await;
}

#[tokio::test]
async fn no_token_where_one_is_asked_for_is_closed_with_4002_and_told_why() {
    let gateway = gateway(&[JWT_FLAG]).await;
    for without in [Hello { user: Some(user("b")), ..Hello::default() }, Hello::default()] {
        let mut client = Client::dial(gateway.here(), Format::MsgPack).await;
        client.send(&ClientMessage::Hello(without));
        let error = client.expect_error(ErrorCode::BadMessage).await;
        assert!(error.message.contains("`token` is missing"), "{error:?}");
        client.expect_close(4002).await;
    }
}

#[tokio::test]
async fn a_token_where_nobody_can_verify_it_is_closed_with_4002_and_told_why() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    client.send(&ClientMessage::Hello(hello(token("b"))));
    let error = client.expect_error(ErrorCode::BadMessage).await;
    assert!(error.message.contains("without authentication"), "{error:?}");
    assert!(error.message.contains("`user`"), "{error:?}");
    client.expect_close(4002).await;
}

#[tokio::test]
async fn a_token_that_has_expired_is_closed_with_4003() {
    let gateway = gateway(&[JWT_FLAG]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    client.send(&ClientMessage::Hello(hello(token_until("b", -LEEWAY_S - 1))));
    client.expect_close(4003).await;
    assert_counted(gateway.here(), "token_expired").await;
}

#[tokio::test]
async fn a_session_closes_with_4003_when_its_token_expires_unless_a_fresh_one_came() {
    let gateway = House::with(Kind::OneEmbedded, QUICK, &[JWT_FLAG]).await;
    let soon = || hello(token_until("b", 2 - LEEWAY_S));
    let mut by_hello = Client::dial(gateway.here(), Format::Json).await;
    by_hello.hello_with(soon()).await;
    let mut by_request =
        Dial::new(gateway.here()).bearer(&token_until("b", 2 - LEEWAY_S)).open().await;
    by_request.hello_with(Hello::default()).await;
    let mut renewed = Client::dial(gateway.here(), Format::MsgPack).await;
    renewed.hello_with(soon()).await;
    let before = Instant::now();
    // A fresh token for another user is refused, and changes nothing.
    renewed.send(&ClientMessage::Hello(hello(token("c"))));
    renewed.expect_error(ErrorCode::BadMessage).await;
    assert_eq!(renewed.hello_with(hello(token("b"))).await.user, user("b"));

    by_hello.expect_close(4003).await;
    by_request.expect_close(4003).await;
    assert!(before.elapsed() < Duration::from_secs(4), "{:?}", before.elapsed());
    renewed.expect_nothing_for(Duration::from_millis(500)).await;
    renewed.fence().await;
}

#[tokio::test]
async fn who_reads_nothing_is_closed_with_4005_and_shown_offline() {
    let flags = [OPEN, "--write-timeout=300ms", "--max-frame-bytes=1MiB"];
    let times = SLOW.grace(Duration::from_millis(300));
    let gateway = House::with(Kind::OneEmbedded, times, &flags).await;
    let mut watcher = Client::join(gateway.here(), Format::Json, "a").await;
    watcher.watch(["slow"]).await;
    let mut slow = Dial::new(gateway.here()).receive_buffer(4096).open().await;
    slow.hello("slow").await;
    watcher.expect_online("slow").await;
    slow.freeze().await;
    // Answers of about 170 KB each, more than all buffers on the way can hold.
    let names = users((0..1000).map(|number| format!("{number:0>128}")));
    for _ in 0..40 {
        slow.send(&ClientMessage::Query { users: names.clone(), id: None, grant: None });
    }
    watcher.expect_offline("slow").await;
    assert_counted(gateway.here(), "too_slow").await;
    slow.wake().await;
    slow.expect_close(4005).await;
}

#[tokio::test]
async fn who_floods_is_told_first_and_then_closed_with_4006() {
    let gateway = gateway(&[OPEN, "--message-rate=10"]).await;
    let mut client = Client::join(gateway.here(), Format::MsgPack, "b").await;
    for _ in 0..300 {
        client.heartbeat();
    }
    client.expect_error(ErrorCode::RateLimited).await;
    client.expect_close(4006).await;
    assert_counted(gateway.here(), "rate_limited").await;

    let mut client = Client::join(gateway.here(), Format::MsgPack, "b").await;
    for _ in 0..300 {
        client.ping();
    }
    client.expect_close(4006).await;
}

#[tokio::test]
async fn a_second_hello_is_answered_by_a_second_welcome_of_the_same_session() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    let first = client.hello("b").await;
    assert_eq!(client.hello("b").await, first);
    client.send(&ClientMessage::Hello(Hello { user: Some(user("c")), ..Hello::default() }));
    client.expect_error(ErrorCode::BadMessage).await;
    until_online(gateway.here(), "b").await;
    assert_eq!(client.query(["c"]).await[0].state.as_str(), "offline");
}
