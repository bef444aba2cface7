//! An invisible user looks exactly like an offline one, byte for byte, wherever states are told.

use std::time::{Duration, Instant};

use presence_protocol::{Format, Hello, Show, StatusText};
use tokio_tungstenite::tungstenite::Bytes;

use crate::client::{Client, user};
use crate::house::{House, Kind, QUICK, QUICK_AND_LENIENT, SLOW, Times, on_both_stores};
use crate::http::{self, Http};

on_both_stores!(
    who_becomes_invisible_looks_like_who_said_bye,
    nothing_that_an_invisible_user_does_shows,
    who_signs_in_invisible_never_flashes_online,
    an_invisible_session_that_is_lost_shows_no_other_within_grace,
    who_becomes_visible_again_is_shown_online,
);

/// A frame with every number as `0` and the names as `someone`: what is left must be the same.
pub(crate) fn shape(frame: &[u8]) -> String {
    let text = std::str::from_utf8(frame).expect("JSON");
    let names = ["\"signed-out\"", "\"invisible\"", "\"veiled\""];
    let text = names.iter().fold(text.to_owned(), |text, name| text.replace(name, "someone"));
    let mut shape = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        if letter != '0' || !shape.ends_with('0') {
            shape.push(letter);
        }
    }
    shape
}

/// What everyone can learn of a user: a look-up by a socket, a new watch, and both calls of the backend.
async fn all_that_is_told(house: &House, name: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut stranger = Client::join(house.there(), Format::Json, "stranger").await;
    for request in ["query", "watch"] {
        stranger.send_text(&format!(r#"{{"type":"{request}","users":["{name}"]}}"#));
        told.push(String::from_utf8(stranger.next_frame().await.to_vec()).expect("JSON"));
    }
    let mut http = Http::connect(house.here()).await;
    told.push(http.query(&format!(r#"{{"users":["{name}"]}}"#)).await.body);
    told.push(http.get_with_key(&format!("/v1/presence/{name}")).await.body);
    stranger.bye().await;
    told
}

async fn who_becomes_invisible_looks_like_who_said_bye(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    let mut pushed: Vec<Bytes> = Vec::new();
    let mut sessions = Vec::new();
    for name in ["signed-out", "invisible"] {
        watcher.watch([name]).await;
        let mut client = Client::dial(house.here(), Format::Json).await;
        client.hello_from(name, "ios").await;
        watcher.expect_online(name).await;
        client.set_status(Show::Busy, Some("in a meeting"));
        watcher.expect_online(name).await;
        sessions.push(client);
    }
    sessions.remove(0).bye().await;
    pushed.push(watcher.next_frame().await);
    sessions[0].set_status(Show::Invisible, Some("nobody must read this"));
    pushed.push(watcher.next_frame().await);
    assert_eq!(shape(&pushed[0]), shape(&pushed[1]));
    assert!(shape(&pushed[0]).contains(r#""state":"offline","version":0,"since":0}"#));

    let signed_out = all_that_is_told(&house, "signed-out").await;
    let invisible = all_that_is_told(&house, "invisible").await;
    for (signed_out, invisible) in signed_out.iter().zip(&invisible) {
        assert_eq!(shape(signed_out.as_bytes()), shape(invisible.as_bytes()));
    }
    // The first byte of a difference would be the version or the age: both are as they were pushed.
    let state = |frame: &[u8]| {
        let text = String::from_utf8(frame.to_vec()).expect("JSON");
        let start = text.find(r#"{"user""#).expect("a state");
        text[start..=text.find('}').expect("its end")].to_owned()
    };
    for told in &invisible {
        assert_eq!(state(told.as_bytes()), state(&pushed[1]));
    }
}

async fn nothing_that_an_invisible_user_does_shows(kind: Kind) {
    let house = House::new(kind, QUICK).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut b = Client::dial(house.there(), Format::MsgPack).await;
    b.hello_from("b", "ios").await;
    watcher.expect_online("b").await;
    b.set_status(Show::Invisible, None);
    watcher.expect_offline("b").await;
    let before = all_that_is_told(&house, "b").await;
    b.set_status(Show::Invisible, Some("another text"));
    b.heartbeat();
    let mut other = Client::dial(house.here(), Format::Json).await;
    let hello = Hello { user: Some(user("b")), show: Some(Show::Invisible), ..Hello::default() };
    other.hello_with(hello).await;
    other.reset().await;
    watcher.expect_nothing_for(house.times.ttl + house.times.grace).await;
    assert_eq!(all_that_is_told(&house, "b").await, before);
    b.bye().await;
    watcher.expect_nothing_for(house.times.grace * 2).await;
    assert_eq!(all_that_is_told(&house, "b").await, before);
}

async fn who_signs_in_invisible_never_flashes_online(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let never_seen = all_that_is_told(&house, "b").await;
    let mut b = Client::dial(house.there(), Format::Json).await;
    let hello = Hello { user: Some(user("b")), show: Some(Show::Invisible), ..Hello::default() };
    b.hello_with(hello).await;
    watcher.expect_nothing_for(Duration::from_millis(300)).await;
    assert_eq!(all_that_is_told(&house, "b").await, never_seen);
}

/// Another device of the user's is there, and would show: it does when the invisible one is gone for longer than grace.
async fn an_invisible_session_that_is_lost_shows_no_other_within_grace(kind: Kind) {
    let grace = Duration::from_millis(1500);
    let house = House::new(kind, Times { grace, ..QUICK_AND_LENIENT }).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut laptop = Client::dial(house.here(), Format::Json).await;
    laptop.hello_from("b", "web").await;
    watcher.expect_online("b").await;
    let hidden =
        || Hello { user: Some(user("b")), show: Some(Show::Invisible), ..Hello::default() };
    let mut phone = Client::dial(house.there(), Format::Json).await;
    phone.hello_with(hidden()).await;
    watcher.expect_offline("b").await;
    phone.reset().await;
    watcher.expect_nothing_for(grace / 10).await;
    let mut phone = Client::dial(house.there(), Format::Json).await;
    phone.hello_with(hidden()).await;
    watcher.expect_nothing_for(grace + grace / 2).await;
    let lost = Instant::now();
    phone.reset().await;
    watcher.expect_online("b").await;
    assert!(lost.elapsed() >= grace, "{:?}", lost.elapsed());
}

async fn who_becomes_visible_again_is_shown_online(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::MsgPack, "a").await;
    watcher.watch(["b"]).await;
    let mut b = Client::dial(house.there(), Format::Json).await;
    let hello = Hello { user: Some(user("b")), show: Some(Show::Invisible), ..Hello::default() };
    b.hello_with(hello).await;
    b.set_status(Show::Away, Some("back at 3"));
    let push = watcher.expect_online("b").await;
    assert_eq!(push.state.show, Some(Show::Away));
    assert_eq!(push.state.text.as_ref().map(StatusText::as_str), Some("back at 3"));
    assert_eq!(http::query(house.here(), &["b"]).await, [push.state]);
}
