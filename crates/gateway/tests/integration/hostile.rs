//! Hostile input: each is answered by one clear error or close, and nobody else notices.

use fastrand::Rng;
use presence_protocol::{ErrorCode, Format, GatewayMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::client::{Client, Heard, PATIENCE};
use crate::peace::Peace;

#[tokio::test]
async fn random_bytes_in_frames_are_each_refused() {
    let peace = Peace::new(&[]).await;
    let mut random = Rng::with_seed(7);
    let mut attacker = peace.attacker(Format::MsgPack).await;
    for _ in 0..500 {
        let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        attacker.send_raw(Message::binary(bytes));
        attacker.expect_error(ErrorCode::BadMessage).await;
    }
    let mut attacker = peace.attacker(Format::Json).await;
    for _ in 0..500 {
        let text: String = (0..random.usize(..200)).map(|_| random.char(..)).collect();
        attacker.send_text(&text);
        attacker.expect_error(ErrorCode::BadMessage).await;
    }
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn random_bytes_instead_of_frames_or_of_http_end_that_connection_only() {
    let peace = Peace::new(&[]).await;
    let mut random = Rng::with_seed(8);
    for upgraded in [true, false] {
        for _ in 0..50 {
            let mut stream = TcpStream::connect(peace.gateway.addr).await.expect("accepted");
            if upgraded {
                let upgrade = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
                stream.write_all(upgrade.as_bytes()).await.expect("it is taken");
            }
            let bytes: Vec<u8> = (0..1000).map(|_| random.u8(..)).collect();
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            let mut answer = Vec::new();
            let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
            drop(read.expect("the gateway closes"));
        }
    }
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn deep_nesting_and_boundless_headers_are_refused() {
    let peace = Peace::new(&[]).await;
    let deep_arrays = vec![0x91; 60_000];
    let deep_maps = [0x81, 0xa1, b'x'].repeat(20_000);
    let message = |head: &[u8]| [b"\x82\xa4type\xa5watch\xa5users", head].concat();
    let four_billion_items = message(b"\xdd\xff\xff\xff\xff\xa1b");
    let four_billion_fields = b"\xdf\xff\xff\xff\xff\xa4type\xa5watch".to_vec();
    let four_billion_bytes = message(b"\x91\xdb\xff\xff\xff\xffb");
    let mut attacker = peace.attacker(Format::MsgPack).await;
    for bytes in
        [deep_arrays, deep_maps, four_billion_items, four_billion_fields, four_billion_bytes]
    {
        attacker.send_raw(Message::binary(bytes));
        attacker.expect_error(ErrorCode::BadMessage).await;
    }
    let mut attacker = peace.attacker(Format::Json).await;
    for text in ["[".repeat(60_000), r#"{"x":"#.repeat(10_000)] {
        attacker.send_text(&text);
        attacker.expect_error(ErrorCode::BadMessage).await;
    }
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn a_hundred_thousand_ids_in_one_watch_are_too_large_a_frame_or_too_many_watches() {
    let ids: Vec<String> = (0..100_000).map(|number| format!("\"u{number}\"")).collect();
    let watch = format!(r#"{{"type":"watch","users":[{}]}}"#, ids.join(","));
    let peace = Peace::new(&[]).await;
    let mut attacker = peace.attacker(Format::Json).await;
    attacker.send_text(&watch);
    attacker.expect_close(1009).await;
    peace.assert_undisturbed().await;

    let peace = Peace::new(&["--max-frame-bytes=16MiB"]).await;
    let mut attacker = peace.attacker(Format::Json).await;
    attacker.send_text(&watch);
    attacker.expect_error(ErrorCode::TooManyWatches).await;
    attacker.send_text(&watch.replacen("watch", "query", 1));
    attacker.expect_error(ErrorCode::TooManyWatches).await;
    attacker.send_text(&watch.replacen("watch", "unwatch", 1));
    attacker.expect_error(ErrorCode::TooManyWatches).await;
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn a_flood_of_tiny_frames_is_cut_off() {
    let peace = Peace::new(&["--message-rate=50"]).await;
    let mut attacker = peace.attacker(Format::Json).await;
    for _ in 0..5_000 {
        attacker.send_text("{}");
    }
    attacker.expect_close(4006).await;
    // Pieces of one message that never ends, and that need not even grow.
    for piece in ["x", ""] {
        let mut attacker = peace.attacker(Format::Json).await;
        attacker.send_frame(Frame::message("{", OpCode::Data(Data::Text), false));
        for _ in 0..5_000 {
            attacker.send_frame(Frame::message(piece, OpCode::Data(Data::Continue), false));
        }
        attacker.expect_close(4006).await;
    }
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn who_floods_before_saying_who_it_is_is_closed_at_once() {
    let peace = Peace::new(&["--message-rate=50"]).await;
    for flood in [Message::Ping(Bytes::new()), Message::text(r#"{"type":"hello"}"#)] {
        let mut stranger = Client::dial(peace.gateway.addr, Format::Json).await;
        for _ in 0..1_000 {
            stranger.send_raw(flood.clone());
        }
        stranger.expect_close(4006).await;
    }
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn a_header_that_claims_a_huge_frame_is_closed_before_the_frame_comes() {
    let peace = Peace::new(&[]).await;
    let mut stream = TcpStream::connect(peace.gateway.addr).await.expect("accepted");
    let upgrade = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(upgrade.as_bytes()).await.expect("it is taken");
    stream.write_all(b"\x81\xff\x00\x00\xff\xff\xff\xff\xff\xff\0\0\0\0").await.expect("taken");
    let mut answer = Vec::new();
    // The gateway waits a moment for our side.
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it closes").expect("no reset");
    let close = answer
        .windows(4)
        .position(|bytes| bytes[0] == 0x88 && bytes[2..4] == 1009_u16.to_be_bytes());
    assert!(close.is_some(), "{}", String::from_utf8_lossy(&answer));
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn whatever_is_sent_the_socket_answers_or_closes() {
    let peace = Peace::new(&[]).await;
    let mut random = Rng::with_seed(9);
    let good = b"\x83\xa4type\xa5watch\xa5users\x92\xa1b\xa1c\xa2id\x07".to_vec();
    let mut attacker = peace.attacker(Format::MsgPack).await;
    for _ in 0..500 {
        let mut bytes = good.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        attacker.send_raw(Message::binary(bytes));
        attacker
            .send_raw(Message::binary(&b"\x83\xa4type\xa5query\xa5users\x90\xa2id\xa5fence"[..]));
        loop {
            match attacker.next().await.message {
                GatewayMessage::Snapshot { id: Some(id), .. } if id.to_string() == "fence" => break,
                GatewayMessage::Snapshot { .. } | GatewayMessage::Error(_) => {}
                other => panic!("not expected: {other:?}"),
            }
        }
    }
    attacker.send_raw(Message::Close(None));
    assert!(matches!(attacker.end().await, Heard::Close(_)));
    peace.assert_undisturbed().await;
}
