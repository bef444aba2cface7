//! What the application sees: no step backwards, no news that are none, and stale when it is.

use presence_client::{Event, Freshness};
use presence_protocol::Availability::{Offline, Online};
use presence_protocol::GatewayMessage;

use crate::gateway::{changed, connected, next_but_changes, state, user};

#[tokio::test(start_paused = true)]
async fn backward_versions_are_dropped() {
    let (_gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo")]);
    let (_, id) = socket.watch().await;
    // The push overtakes the snapshot.
    socket.presence(vec![state("bo", Online, 5)]).await;
    assert_eq!(changed(&mut events).await, [state("bo", Online, 5)]);
    socket.say(GatewayMessage::Snapshot { id, users: vec![state("bo", Offline, 4)] }).await;
    socket.presence(vec![state("bo", Offline, 3)]).await;
    socket.presence(vec![state("bo", Offline, 6)]).await;
    assert_eq!(changed(&mut events).await, [state("bo", Offline, 6)]);
    assert_eq!(client.state(&user("bo")).unwrap().state, state("bo", Offline, 6));
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_all_are_watched_again_and_only_real_changes_are_told() {
    let (mut gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo"), user("cy")]);
    socket.answer_watch(vec![state("bo", Online, 5), state("cy", Online, 7)]).await;
    assert_eq!(changed(&mut events).await.len(), 2);
    drop(socket);
    let mut socket = gateway.welcome().await;
    assert!(matches!(next_but_changes(&mut events).await, Some(Event::Disconnected { .. })));
    let (asked, id) = socket.watch().await;
    assert_eq!(asked, [user("bo"), user("cy")]);
    let known = client.state(&user("bo")).unwrap();
    assert_eq!((known.state, known.freshness), (state("bo", Online, 5), Freshness::Stale));
    let users = vec![state("bo", Online, 5), state("cy", Offline, 9)];
    socket.say(GatewayMessage::Snapshot { id, users }).await;
    assert!(matches!(events.next().await, Some(Event::Connected(_))));
    assert_eq!(changed(&mut events).await, [state("cy", Offline, 9)]);
    assert_eq!(client.state(&user("bo")).unwrap().freshness, Freshness::Live);
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_late_is_told_what_is_true() {
    let (_gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo")]);
    socket.answer_watch(vec![state("bo", Online, 5)]).await;
    socket.say(GatewayMessage::Degraded { since: Some(9) }).await;
    assert_eq!(next_but_changes(&mut events).await, Some(Event::Degraded(Some(9))));
    let mut late = client.events();
    assert!(matches!(late.next().await, Some(Event::Connected(_))));
    assert_eq!(late.next().await, Some(Event::Degraded(Some(9))));
    assert_eq!(changed(&mut late).await, [state("bo", Online, 5)]);
}
