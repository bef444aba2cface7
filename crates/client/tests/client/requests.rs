//! Watch lists and queries: split, few in flight, and asked again when they were lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use presence_client::{Client, Event, GrantSource, Options, QueryError};
use presence_protocol::Availability::Online;
use presence_protocol::{
    ClientMessage, ErrorCode, ErrorMessage, GatewayMessage, Grant, RequestId, UserId, UserState,
};
use tokio::time::timeout;

use crate::gateway::{Socket, changed, connected, gateway, next_but_changes, state, user, users};

fn refusal(code: ErrorCode, id: Option<RequestId>) -> GatewayMessage {
    GatewayMessage::Error(ErrorMessage { code, message: String::new(), id, users: Vec::new() })
}

fn snapshot(id: Option<RequestId>, asked: &[UserId]) -> GatewayMessage {
    let users = asked.iter().map(|user| UserState::never_seen(user.clone())).collect();
    GatewayMessage::Snapshot { id, users }
}

/// Answers `watch` messages until all of these are asked for; returns how many there were.
async fn answer_all(socket: &mut Socket, expected: &[UserId]) -> usize {
    let mut left: BTreeSet<UserId> = expected.iter().cloned().collect();
    let mut messages = 0;
    while !left.is_empty() {
        let (asked, id) = socket.watch().await;
        assert!(asked.iter().all(|user| left.remove(user)), "somebody was asked for twice");
        socket.say(snapshot(id, &asked)).await;
        messages += 1;
    }
    messages
}

#[tokio::test(start_paused = true)]
async fn a_big_watch_list_is_split_into_small_frames() {
    let (mut gateway, mut socket, client, _events) = connected().await;
    // The longest ids there are, 128 KiB in all; the scripted gateway checks each frame's length.
    let list: Vec<UserId> = (0..1000).map(|n| user(&format!("{n:0128}"))).collect();
    client.watch(list.clone());
    assert!(answer_all(&mut socket, &list).await >= 8);
    drop(socket);
    let mut socket = gateway.welcome().await;
    assert!(answer_all(&mut socket, &list).await >= 8, "and again after a reconnect");
}

#[tokio::test(start_paused = true)]
async fn few_requests_are_in_flight_at_once() {
    let (_gateway, mut socket, client, _events) = connected().await;
    client.watch(users(0..5000));
    let mut asked = Vec::new();
    while let Ok(watch) = timeout(Duration::from_millis(10), socket.watch()).await {
        asked.push(watch);
    }
    assert_eq!(asked.len(), 4);
    let (users, id) = asked.remove(0);
    socket.say(snapshot(id, &users)).await;
    socket.watch().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_rate_limited_or_never_answered_is_asked_again() {
    let (_gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo")]);
    let (_, id) = socket.watch().await;
    socket.say(refusal(ErrorCode::RateLimited, id)).await;
    assert_eq!(socket.watch().await.0, [user("bo")]);
    // No answer at all.
    assert_eq!(socket.watch().await.0, [user("bo")]);
    socket.presence(vec![state("bo", Online, 1)]).await;
    assert_eq!(changed(&mut events).await, [state("bo", Online, 1)]);
}

#[tokio::test(start_paused = true)]
async fn users_beyond_the_gateways_limit_are_asked_for_when_there_is_room() {
    let (_gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo")]);
    let (asked, id) = socket.watch().await;
    socket.say(snapshot(id, &asked)).await;
    client.watch([user("cy")]);
    let (_, id) = socket.watch().await;
    socket.say(refusal(ErrorCode::TooManyWatches, id)).await;
    assert!(matches!(next_but_changes(&mut events).await, Some(Event::Refused(_))));
    client.unwatch([user("bo")]);
    assert_eq!(socket.message().await, ClientMessage::Unwatch { users: vec![user("bo")] });
    assert_eq!(socket.watch().await.0, [user("cy")]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_be_watched_is_told_and_the_others_are_watched() {
    let (_gateway, mut socket, client, mut events) = connected().await;
    client.watch([user("bo"), user("cy")]);
    let (_, id) = socket.watch().await;
    let GatewayMessage::Error(error) = refusal(ErrorCode::NotAllowed, id.clone()) else {
        unreachable!()
    };
    let error = ErrorMessage { users: vec![user("cy")], ..error };
    socket.say(GatewayMessage::Error(error.clone())).await;
    socket.say(GatewayMessage::Snapshot { id, users: vec![state("bo", Online, 1)] }).await;
    assert_eq!(events.next().await, Some(Event::Refused(error)));
    assert_eq!(changed(&mut events).await, [state("bo", Online, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_grant_goes_with_what_asks_for_users_and_who_is_undecided_is_asked_for_again() {
    let (mut gateway, options) = gateway();
    let grant: GrantSource = Arc::new(|users| Some(Grant::new(users[0].to_string())));
    let client = Client::connect(Options { grant: Some(grant), ..options });
    let mut socket = gateway.welcome().await;
    client.watch([user("bo")]);
    for _ in 0..2 {
        let ClientMessage::Watch { id, grant, .. } = socket.message().await else { panic!() };
        assert_eq!(grant, Some(Grant::new("bo".to_owned())));
        socket.say(refusal(ErrorCode::Undecided, id)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_is_split_and_answered_in_the_order_asked() {
    let (_gateway, mut socket, client, _events) = connected().await;
    let mut list = users(0..600);
    list.reverse();
    let answering = async {
        for _ in 0..3 {
            match socket.message().await {
                ClientMessage::Query { users, id, .. } => socket.say(snapshot(id, &users)).await,
                other => panic!("{other:?}"),
            }
        }
    };
    let (answer, ()) = tokio::join!(client.query(list.clone()), answering);
    let answered: Vec<UserId> = answer.unwrap().into_iter().map(|state| state.user).collect();
    assert_eq!(answered, list);
}

#[tokio::test(start_paused = true)]
async fn a_query_outlives_a_reconnect_but_not_its_timeout() {
    let (mut gateway, mut socket, client, _events) = connected().await;
    let reconnecting = async {
        assert!(matches!(socket.message().await, ClientMessage::Query { .. }));
        drop(socket);
        let mut socket = gateway.welcome().await;
        let ClientMessage::Query { users, id, .. } = socket.message().await else { panic!() };
        socket.say(snapshot(id, &users)).await;
        socket
    };
    let (answer, mut socket) = tokio::join!(client.query([user("bo")]), reconnecting);
    assert_eq!(answer, Ok(vec![UserState::never_seen(user("bo"))]));
    let (answer, _) = tokio::join!(client.query([user("bo")]), socket.message());
    assert_eq!(answer, Err(QueryError::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_refused_query_says_why_and_an_ended_client_says_so() {
    let (_gateway, mut socket, client, _events) = connected().await;
    let refusing = async {
        let ClientMessage::Query { id, .. } = socket.message().await else { panic!() };
        socket.say(refusal(ErrorCode::StoreUnavailable, id)).await;
    };
    let (answer, ()) = tokio::join!(client.query([user("bo")]), refusing);
    assert!(matches!(answer, Err(QueryError::Refused(_))));
    drop(socket);
    client.bye().await;
    assert_eq!(client.query([user("bo")]).await, Err(QueryError::Ended));
}
