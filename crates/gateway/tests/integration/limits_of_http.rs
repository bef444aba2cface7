//! What a request may cost before it is one: time, and bytes.

use presence_testkit::eventually;

use crate::client::PATIENCE;
use crate::house::{API_KEY, House, Kind, OPEN, SLOW};
use crate::http::{Http, metric};
use crate::raw::Raw;

async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, &[&[OPEN], flags].concat()).await
}

async fn until_late(gateway: &House, times: u64) {
    let name = "presence_refused_connections_total{why=\"late\"}";
    let late = async || (metric(gateway.here(), name).await == Some(times)).then_some(());
    eventually("they are counted", PATIENCE, late).await;
}

#[tokio::test]
async fn a_request_whose_head_does_not_come_in_time_is_given_up() {
    let gateway = gateway(&["--http-timeout=300ms"]).await;
    for beginning in ["", "GET /ws HT", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow:"] {
        let mut raw = Raw::connect(gateway.here()).await;
        raw.write(beginning.as_bytes()).await;
        raw.rest().await;
    }
    until_late(&gateway, 3).await;
}

#[tokio::test]
async fn a_connection_that_makes_no_further_request_is_closed() {
    let gateway = gateway(&["--http-timeout=300ms"]).await;
    let mut raw = Raw::connect(gateway.here()).await;
    raw.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(raw.rest().await.ends_with("ok\n"));
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_answered_with_408() {
    let gateway = gateway(&["--http-timeout=300ms"]).await;
    let mut raw = Raw::connect(gateway.here()).await;
    let request = format!(
        "POST /v1/presence/query HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {API_KEY}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"users\":"
    );
    raw.write(request.as_bytes()).await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.ends_with("the request did not come in time\n"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_asks_again_and_again_without_reading_is_closed() {
    let gateway = gateway(&["--http-timeout=300ms"]).await;
    let raw = Raw::connect(gateway.here()).await;
    let many = "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    // Written until nothing more is taken.
    for _ in 0..100 {
        if raw.stream.try_write(many.as_bytes()).is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let gone = async || {
        let busy = metric(gateway.here(), "presence_handshakes").await;
        // The one that asks is one of them.
        (busy <= Some(1)).then_some(())
    };
    eventually("it is let go", PATIENCE, gone).await;
}

#[tokio::test]
async fn a_head_or_a_body_too_large_is_refused() {
    let gateway = gateway(&[]).await;
    let mut raw = Raw::connect(gateway.here()).await;
    raw.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-long: ").await;
    raw.write(&vec![b'x'; 20_000]).await;
    let answer = raw.rest().await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");

    let long = format!("{{\"users\":[\"{}\"]}}", "x".repeat(2 << 20));
    let answer = Http::connect(gateway.here()).await.query(&long).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}
