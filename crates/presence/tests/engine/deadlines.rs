//! When a session that falls silent is asked, given up, and shown offline.

use std::pin::pin;
use std::time::Duration;

use futures::poll;
use presence::Config;
use presence_protocol::{Availability, CloseReason};
use tokio::time::{Instant, sleep};

use crate::client::{Client, Told, presence, user};

/// How coarse the wheel is, and what tasks take on a machine whose time the test moves.
const SLACK: Duration = Duration::from_millis(150);

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_after_a_heartbeat_and_a_quarter_and_given_up_at_the_ttl() {
    let config = Config::default();
    let presence = presence(&config);
    let start = Instant::now();
    let mut client = Client::join(&presence, "bo", None, None);
    for beat in [1, 2] {
        assert_eq!(client.told_within(config.ttl).await, Some(Told::Ping));
        let late = start.elapsed() - config.heartbeat * 5 / 4 * beat;
        assert!(late < SLACK, "{late:?}");
    }
    let close = Told::Close(CloseReason::NoHeartbeat);
    assert_eq!(client.told_within(config.ttl).await, Some(close));
    assert!(start.elapsed() >= config.ttl);
    assert!(start.elapsed() < config.ttl + SLACK, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_heartbeats_come_a_little_late_is_never_pinged() {
    let config = Config::default();
    let presence = presence(&config);
    let mut client = Client::join(&presence, "bo", None, None);
    for _ in 0..20 {
        assert_eq!(client.told_within(config.heartbeat * 6 / 5).await, None);
        client.session.heard();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_lives_for_ever() {
    let config = Config::default();
    let presence = presence(&config);
    let mut watcher = Client::join(&presence, "ana", None, None);
    let mut client = Client::join(&presence, "bo", None, None);
    watcher.watch(&["bo"]);
    let both =
        async { tokio::join!(watcher.live_for(10 * config.ttl), client.live_for(10 * config.ttl)) };
    both.await;
    assert_eq!(watcher.view[&user("bo")].state, Availability::Online);
    assert!(watcher.pushed <= 1, "a change was shown where there was none");
}

#[tokio::test(start_paused = true)]
async fn a_silent_death_is_shown_after_ttl_and_grace_and_not_before() {
    let config = Config::default();
    let presence = presence(&config);
    let mut watcher = Client::join(&presence, "ana", None, None);
    let silent = Client::join(&presence, "bo", None, None);
    let heard = Instant::now();
    watcher.watch(&["bo"]);
    watcher.live_for(config.ttl + config.grace - SLACK).await;
    assert_eq!(watcher.view[&user("bo")].state, Availability::Online);
    watcher.live_for(2 * SLACK).await;
    assert_eq!(watcher.view[&user("bo")].state, Availability::Offline, "{:?}", heard.elapsed());
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_closes_its_session_then_unless_it_was_renewed() {
    let presence = presence(&Config::default());
    let start = Instant::now();
    let mut client = Client::join(&presence, "bo", None, None);
    client.session.expire_after(Duration::from_secs(3));
    client.session.expire_after(Duration::from_secs(5));
    let close = Told::Close(CloseReason::TokenExpired);
    assert_eq!(client.told_within(Duration::from_secs(8)).await, Some(close));
    let late = start.elapsed() - Duration::from_secs(5);
    assert!(late < SLACK, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_process_was_stopped_counts_against_nobody() {
    let config = Config::default();
    let presence = presence(&config);
    let start = Instant::now();
    let mut client = Client::join(&presence, "bo", None, None);
    assert_eq!(client.told_within(config.ttl).await, Some(Told::Ping));
    let stop = Duration::from_mins(1);
    tokio::time::advance(stop).await;
    while client.told_within(config.ttl).await == Some(Told::Ping) {}
    let silent = start.elapsed() - stop;
    assert!(silent >= config.ttl && silent < config.ttl + SLACK, "{silent:?}");
}

/// Its socket's task may run before the stop is noticed.
#[tokio::test(start_paused = true)]
async fn who_comes_just_as_the_process_goes_on_is_asked_and_given_up_in_time() {
    let config = Config::default();
    let presence = presence(&config);
    sleep(config.heartbeat).await;
    let mut stop = pin!(tokio::time::advance(config.ttl / 2));
    assert!(poll!(stop.as_mut()).is_pending(), "time has passed, and nobody has run since");
    let mut client = Client::join(&presence, "bo", None, None);
    let start = Instant::now();
    stop.await;
    let mut asked = Vec::new();
    while client.told_within(config.ttl).await == Some(Told::Ping) {
        asked.push(start.elapsed());
    }
    let silent = start.elapsed();
    assert!(asked[0] < config.heartbeat * 5 / 4 + SLACK, "{asked:?}");
    assert!(silent >= config.ttl && silent < config.ttl + SLACK, "{silent:?}");
}
