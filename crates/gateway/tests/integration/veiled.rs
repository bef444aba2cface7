//! Whoever is blocked sees the other as if signed out, byte for byte: in pushes, in snapshots and in what a watch costs.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, Show};

use crate::app::App;
use crate::client::{Client, users};
use crate::house::{House, Kind, OPEN, SLOW, on_both_stores};
use crate::http::{self, Http};
use crate::invisible::shape;

on_both_stores!(
    who_is_veiled_looks_like_who_signed_out,
    blocking_looks_like_a_bye_and_unblocking_like_a_return,
    veiling_who_is_offline_shows_nothing,
    what_a_veil_shows_and_what_follows_it_is_newer_than_what_was_shown,
);

/// For so long nothing must come.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

pub(crate) async fn house(kind: Kind, app: &App, more: &[&str]) -> House {
    let flags = app.flags();
    let mut all = vec![OPEN];
    all.extend(flags.iter().map(String::as_str));
    all.extend(more);
    House::with(kind, SLOW, &all).await
}

pub(crate) async fn refresh(house: &House, name: &str) {
    let path = format!("/v1/users/{name}/refresh");
    let answer = Http::connect(house.here()).await.post(&path, "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

/// A moment as the app's backend would tell it.
pub(crate) fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_micros() as u64
}

/// What a socket is told of a user: a look-up, and a new watch.
async fn told(house: &House, name: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    for request in ["query", "watch"] {
        a.send_text(&format!(r#"{{"type":"{request}","users":["{name}"]}}"#));
        told.push(String::from_utf8(a.next_frame().await.to_vec()).expect("JSON"));
    }
    a.bye().await;
    told
}

async fn who_is_veiled_looks_like_who_signed_out(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let mut signed_out = Client::dial(house.there(), Format::Json).await;
    signed_out.hello_from("signed-out", "ios").await;
    http::until_online(house.here(), "signed-out").await;
    signed_out.bye().await;
    http::until_told(house.there()).await;
    let mut veiled = Client::dial(house.there(), Format::Json).await;
    veiled.hello_from("veiled", "ios").await;
    http::until_online(house.here(), "veiled").await;
    let since_us = now_us();
    app.veil("a", "veiled", since_us);
    let before = told(&house, "veiled").await;
    for (veiled, signed_out) in before.iter().zip(told(&house, "signed-out").await) {
        assert_eq!(shape(veiled.as_bytes()), shape(signed_out.as_bytes()));
        let state =
            format!(r#""state":"offline","version":{since_us},"since":{}}}"#, since_us / 1000);
        assert!(veiled.contains(&state), "{veiled}");
    }
    // Whatever the veiled user does, and whoever else watches.
    let mut other = Client::join(house.here(), Format::Json, "z").await;
    assert_eq!(other.watch(["veiled"]).await[0].state.as_str(), "online");
    veiled.set_status(Show::Busy, Some("in a meeting"));
    other.expect_online("veiled").await;
    assert_eq!(told(&house, "veiled").await, before);
    veiled.bye().await;
    other.expect_offline("veiled").await;
    assert_eq!(told(&house, "veiled").await, before);
}

async fn blocking_looks_like_a_bye_and_unblocking_like_a_return(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let mut sessions = Vec::new();
    for name in ["signed-out", "veiled"] {
        let mut client = Client::dial(house.there(), Format::Json).await;
        client.hello_from(name, "ios").await;
        http::until_online(house.here(), name).await;
        sessions.push(client);
    }
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    let mut z = Client::join(house.here(), Format::Json, "z").await;
    for watcher in [&mut a, &mut z] {
        watcher.watch(["signed-out", "veiled"]).await;
    }
    sessions.remove(0).bye().await;
    let bye = a.next_frame().await;
    z.expect_offline("signed-out").await;
    app.veil("a", "veiled", now_us());
    refresh(&house, "a").await;
    let blocked = a.next_frame().await;
    assert_eq!(shape(&blocked), shape(&bye));
    // It is as if nobody were there: no change is pushed, and the end is none.
    sessions[0].set_status(Show::Away, None);
    z.expect_online("veiled").await;
    a.expect_nothing_for(QUIET).await;
    app.allow("a", "veiled");
    refresh(&house, "a").await;
    let back = a.expect_online("veiled").await;
    assert_eq!(back.state.show, Some(Show::Away));
    sessions.remove(0).bye().await;
    a.expect_offline("veiled").await;
}

/// Nothing else would be believed: the time of blocking may be before the last change, and none may follow unblocking.
async fn what_a_veil_shows_and_what_follows_it_is_newer_than_what_was_shown(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let veiled = Client::join(house.there(), Format::Json, "veiled").await;
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    let before_us = now_us();
    a.watch(["veiled"]).await;
    veiled.set_status(Show::Away, None);
    let mut last = a.expect_online("veiled").await.state.version;
    for since_us in [before_us, now_us()] {
        app.veil("a", "veiled", since_us);
        refresh(&house, "a").await;
        let blocked = a.expect_offline("veiled").await.state.version;
        assert!(blocked > last, "{blocked} after {last}");
        refresh(&house, "a").await;
        a.expect_nothing_for(QUIET).await;
        app.allow("a", "veiled");
        refresh(&house, "a").await;
        last = a.expect_online("veiled").await.state.version;
        assert!(last > blocked, "{last} after {blocked}");
        assert_eq!(http::query(house.there(), &["veiled"]).await[0].version, last);
    }
}

async fn veiling_who_is_offline_shows_nothing(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    Client::join(house.there(), Format::Json, "b").await.bye().await;
    http::until_told(house.there()).await;
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    assert_eq!(a.watch(["b"]).await[0].state.as_str(), "offline");
    app.veil("a", "b", now_us());
    refresh(&house, "a").await;
    a.expect_nothing_for(QUIET).await;
    let _b = Client::join(house.there(), Format::Json, "b").await;
    http::until_online(house.here(), "b").await;
    a.expect_nothing_for(QUIET).await;
}

#[tokio::test]
async fn who_is_veiled_takes_a_place_on_the_watch_list_until_unwatched() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--max-watch=3"]).await;
    for name in ["b", "c"] {
        app.veil("a", name, now_us());
    }
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    let names = ["c", "d", "b"];
    let told = a.watch(names).await;
    assert_eq!(told.iter().map(|state| state.user.as_str()).collect::<Vec<_>>(), names);
    // Once more, and as they are.
    app.allow("a", "c");
    refresh(&house, "a").await;
    a.watch(names).await;
    let more = users(["e"]);
    let refused = a.ask(|id| ClientMessage::Watch { users: more, id, grant: None }).await;
    assert_eq!(refused.expect_err("there is no room").code, ErrorCode::TooManyWatches);
    a.unwatch(["b"]);
    a.watch(["e"]).await;
    assert_eq!(http::metric(house.here(), "presence_watches").await, Some(3));
    a.unwatch(["c", "d", "e"]);
    a.fence().await;
    assert_eq!(http::metric(house.here(), "presence_watched_users").await, Some(0));
}

#[tokio::test]
async fn nobody_is_watched_with_and_without_a_veil_at_once() {
    let app = App::start().await;
    // With no room for both: that would show as a refusal.
    let flags = ["--watch-callback-ttl=0s", "--max-watch=1"];
    let house = house(Kind::OneEmbedded, &app, &flags).await;
    let b = Client::join(house.here(), Format::Json, "b").await;
    http::until_online(house.here(), "b").await;
    let mut a = Client::join(house.here(), Format::Json, "a").await;
    for expected in ["online", "offline", "online", "offline"] {
        assert_eq!(a.watch(["b"]).await[0].state.as_str(), expected);
        assert_eq!(http::metric(house.here(), "presence_watches").await, Some(1));
        if expected == "online" { app.veil("a", "b", now_us()) } else { app.allow("a", "b") }
    }
    b.set_status(Show::Away, None);
    a.expect_nothing_for(QUIET).await;
}
