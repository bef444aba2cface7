//! Heartbeats, and noticing that the gateway gives none.

use presence_client::{Client, DisconnectReason, Event, Heartbeat};
use tokio::time::{Instant, timeout};

use crate::gateway::{HEARTBEAT, Sent, TTL, connected, gateway, next_but_changes};

#[tokio::test(start_paused = true)]
async fn pings_come_each_heartbeat_a_little_early_and_not_in_step() {
    let (_gateway, mut socket, _client, _events) = connected().await;
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(socket.sent().await, Sent::Ping);
        gaps.push(began.elapsed());
    }
    assert!(gaps.iter().all(|gap| *gap >= HEARTBEAT.mul_f64(0.79)), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= HEARTBEAT.mul_f64(1.01)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap.abs_diff(gaps[0]).as_millis() > 100), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn who_only_answers_pings_sends_none() {
    let (mut gateway, mut options) = gateway();
    options.heartbeat = Heartbeat::AnswerPingsOnly;
    let _client = Client::connect(options);
    let mut socket = gateway.welcome().await;
    assert!(timeout(HEARTBEAT * 2, socket.sent()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_silent_for_its_ttl_is_left() {
    let (mut gateway, socket, _client, mut events) = connected().await;
    let began = Instant::now();
    // The socket stays open, but nobody reads it and no Pong is sent.
    let _socket = gateway.accept().await;
    assert!(began.elapsed() >= TTL && began.elapsed() < TTL + HEARTBEAT, "{:?}", began.elapsed());
    let lost = next_but_changes(&mut events).await;
    assert!(
        matches!(&lost, Some(Event::Disconnected { reason: DisconnectReason::Silent, .. })),
        "{lost:?}"
    );
    drop(socket);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_answers_pings_is_kept() {
    let (_gateway, mut socket, _client, mut events) = connected().await;
    let answering = async {
        loop {
            assert_eq!(socket.sent().await, Sent::Ping);
        }
    };
    assert!(timeout(TTL * 10, answering).await.is_err());
    assert!(timeout(HEARTBEAT, events.next()).await.is_err(), "nothing happened");
}
