//! Coming back, or not: jitter, close codes, draining, tokens and signing out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use presence_client::{Client, Credential, DisconnectReason, Event};
use presence_protocol::{ClientMessage, CloseReason, GatewayMessage, Show, Status};
use tokio::time::Instant;

use crate::gateway::{Sent, connected, gateway, next_but_changes};

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_back_at_once_and_then_with_jittered_backoff() {
    let (mut gateway, socket, _client, mut events) = connected().await;
    gateway.refuse(8);
    drop(socket);
    let mut waits = Vec::new();
    let _socket = gateway.welcome().await;
    loop {
        match next_but_changes(&mut events).await {
            Some(Event::Disconnected { retry_in, .. }) => waits.push(retry_in),
            Some(Event::Connected(_)) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((waits.len(), waits[0]), (9, Duration::ZERO));
    let mut cap = Duration::from_millis(500);
    for wait in &waits[1..] {
        cap = (cap * 2).min(Duration::from_mins(1));
        assert!(*wait <= cap, "{waits:?}");
    }
    let distinct: std::collections::HashSet<_> = waits.iter().collect();
    assert!(distinct.len() > 5, "no jitter: {waits:?}");
    assert_eq!(gateway.refusals_left(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_drops_every_newcomer_is_not_tried_at_once_for_ever() {
    let (mut gateway, socket, _client, _events) = connected().await;
    let began = Instant::now();
    drop(socket);
    for _ in 0..12 {
        drop(gateway.welcome().await);
    }
    assert!(began.elapsed() > Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_refuses_is_tried_again_when_it_says_and_not_before() {
    let (mut gateway, options) = gateway();
    let client = Client::connect(options);
    let mut events = client.events();
    gateway.answer("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\n").await;
    let refused = Instant::now();
    let retry_after = Some(Duration::from_secs(7));
    match events.next().await {
        Some(Event::Disconnected { reason, .. }) => {
            assert_eq!(reason, DisconnectReason::Refused { status: 503, retry_after });
        }
        other => panic!("{other:?}"),
    }
    gateway.welcome().await;
    let waited = refused.elapsed();
    assert!((7_000..8_000).contains(&waited.as_millis()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn draining_is_obeyed_before_and_after_the_close() {
    let (mut gateway, mut socket, _client, mut events) = connected().await;
    let told = Instant::now();
    socket.say(GatewayMessage::Draining { reconnect_after_ms: 2_500 }).await;
    let reconnect_in = Duration::from_millis(2_500);
    assert_eq!(events.next().await, Some(Event::Draining { reconnect_in }));
    socket.close(CloseReason::Draining).await;
    let mut socket = gateway.accept().await;
    assert_eq!(told.elapsed().as_millis(), 2_500);
    socket.hello().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_leaves_a_draining_gateway_that_does_not_close() {
    let (mut gateway, mut socket, _client, mut events) = connected().await;
    let told = Instant::now();
    socket.say(GatewayMessage::Draining { reconnect_after_ms: 2_500 }).await;
    gateway.accept().await;
    assert_eq!(told.elapsed().as_millis(), 2_500);
    events.next().await;
    let disconnected =
        Event::Disconnected { reason: DisconnectReason::Draining, retry_in: Duration::ZERO };
    assert_eq!(events.next().await, Some(disconnected));
}

#[tokio::test(start_paused = true)]
async fn who_is_disconnected_by_the_backend_stays_away() {
    let (mut gateway, socket, client, mut events) = connected().await;
    socket.close(CloseReason::Disconnected).await;
    assert_eq!(events.next().await, Some(Event::Ended(CloseReason::Disconnected)));
    assert_eq!(events.next().await, None);
    assert!(gateway.is_never_dialed_again().await);
    let mut late = client.events();
    assert_eq!(late.next().await, Some(Event::Ended(CloseReason::Disconnected)));
}

#[tokio::test(start_paused = true)]
async fn bye_is_said_and_nobody_comes_back() {
    let (mut gateway, mut socket, client, mut events) = connected().await;
    let ((), ()) = tokio::join!(client.bye(), async {
        assert_eq!(socket.message().await, ClientMessage::Bye);
        socket.close(CloseReason::Bye).await;
    });
    assert_eq!(events.next().await, Some(Event::Ended(CloseReason::Bye)));
    assert!(gateway.is_never_dialed_again().await);
}

/// It may be in by then: else it would be shown online for the grace.
#[tokio::test(start_paused = true)]
async fn bye_is_said_by_who_has_yet_to_be_welcomed() {
    let (mut gateway, options) = gateway();
    let client = Client::connect(options);
    let mut socket = gateway.accept().await;
    socket.hello().await;
    let ((), ()) = tokio::join!(client.bye(), async {
        assert_eq!(socket.message().await, ClientMessage::Bye);
        socket.close(CloseReason::Bye).await;
    });
    assert!(gateway.is_never_dialed_again().await);
}

#[tokio::test(start_paused = true)]
async fn bye_ends_a_client_that_waits_to_reconnect() {
    let (mut gateway, socket, client, mut events) = connected().await;
    gateway.refuse(u32::MAX);
    drop(socket);
    next_but_changes(&mut events).await;
    client.bye().await;
    gateway.refuse(0);
    assert!(gateway.is_never_dialed_again().await);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_without_bye() {
    let (mut gateway, mut socket, client, mut events) = connected().await;
    let clone = client.clone();
    drop(client);
    assert_eq!(socket.sent().await, Sent::Ping, "a clone still lives");
    drop(clone);
    assert_eq!(socket.sent().await, Sent::Closed);
    assert_eq!(events.next().await, None);
    assert!(gateway.is_never_dialed_again().await);
}

#[tokio::test(start_paused = true)]
async fn the_status_goes_with_every_hello() {
    let (mut gateway, mut options) = gateway();
    options.status = Some(Status { show: Show::Invisible, text: None });
    let client = Client::connect(options);
    let (mut socket, hello) = gateway.welcome_hello().await;
    assert_eq!(hello.show, Some(Show::Invisible));
    let busy = Status { show: Show::Busy, text: None };
    client.set_status(busy.clone());
    assert_eq!(socket.message().await, ClientMessage::Status(busy));
    drop(socket);
    let (mut socket, hello) = gateway.welcome_hello().await;
    assert_eq!(hello.show, Some(Show::Busy));
    assert_eq!(socket.sent().await, Sent::Ping, "it is not said twice");
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_replaced_and_a_refused_one_is_not_sent_again() {
    let (mut gateway, mut options) = gateway();
    let asked = Arc::new(AtomicU32::new(0));
    options.credential = Credential::TokenSource(Arc::new(move || {
        let asked = asked.fetch_add(1, Ordering::SeqCst);
        // The third and the fourth call give the same one.
        async move { format!("token-{}", if asked == 3 { 2 } else { asked }) }.boxed()
    }));
    let _client = Client::connect(options);
    let (socket, hello) = gateway.welcome_hello().await;
    assert_eq!(hello.token.as_deref(), Some("token-0"));
    socket.close(CloseReason::TokenExpired).await;
    let (socket, hello) = gateway.welcome_hello().await;
    assert_eq!(hello.token.as_deref(), Some("token-1"));
    socket.close(CloseReason::TokenExpired).await;
    let mut socket = gateway.accept().await;
    assert_eq!(socket.hello().await.token.as_deref(), Some("token-2"));
    socket.close(CloseReason::BadToken).await;
    let (_socket, hello) = gateway.welcome_hello().await;
    assert_eq!(hello.token.as_deref(), Some("token-4"));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_token_that_expires_ends_the_client() {
    let (mut gateway, mut options) = gateway();
    options.credential = Credential::Token("once".to_owned());
    let client = Client::connect(options);
    let mut events = client.events();
    gateway.welcome().await.close(CloseReason::TokenExpired).await;
    assert!(matches!(events.next().await, Some(Event::Connected(_))));
    assert_eq!(events.next().await, Some(Event::Ended(CloseReason::TokenExpired)));
}
