//! Redis: the keys that an operator may look at, and what happens while Redis is away: nobody is shown offline for it,
//! and when it is back, every view becomes the truth again.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, GatewayMessage};
use presence_testkit::{RedisServer, eventually};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE, users};
use crate::house::{
    HEAL_MAX, House, Kind, OPEN, QUICK, QUICK_AND_LENIENT, SLOW, Times, shared_redis,
};
use crate::http::{self, Http};
use crate::process::keys_of;

/// Sockets are kept alive while the test works on the server.
pub(crate) const TIMES: Times = Times { ttl: Duration::from_secs(2), ..QUICK };

pub(crate) async fn expect_degraded(client: &mut Client) -> bool {
    match client.next().await.message {
        GatewayMessage::Degraded { since } => since.is_some(),
        other => panic!("degraded was due, not {other:?}"),
    }
}

/// A watcher here, and two users there whom it sees online.
pub(crate) async fn watched(house: &House) -> (Client, Client, Client) {
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b", "c"]).await;
    let b = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    let c = Client::join(house.there(), Format::MsgPack, "c").await;
    watcher.expect_online("c").await;
    (watcher, b, c)
}

/// After an outage: what is shown is what was shown, and a change is told again.
pub(crate) async fn assert_healed(house: &House, watcher: &mut Client, b: Client) {
    // Longer than anything that an outage could have started.
    watcher.expect_nothing_for(TIMES.ttl + TIMES.grace + Duration::from_secs(1)).await;
    let ready = async || (http::get(house.here(), "/readyz").await.status == 200).then_some(());
    eventually("ready again", PATIENCE, ready).await;
    for state in http::query(house.there(), &["b", "c"]).await {
        assert_eq!(state.state.as_str(), "online", "{state:?}");
    }
    b.bye().await;
    watcher.expect_offline("b").await;
    watcher.fence().await;
}

#[tokio::test]
async fn the_key_of_a_user_exists_with_a_ttl_while_online_and_is_gone_after() {
    let house = House::new(Kind::TwoOnRedis, QUICK).await;
    let [key, seen] = keys_of(house.prefix(), "b").await;
    let redis = shared_redis();
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    assert_eq!(redis.cli(&["EXISTS", &key, &seen]), "0");
    let b = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    // Longer than a TTL, so that it was renewed.
    let ttl_ms = i64::try_from(QUICK.ttl.as_millis()).expect("short");
    let looking = async {
        let mut looks = tokio::time::interval(QUICK.ttl / 10);
        loop {
            looks.tick().await;
            assert_eq!(redis.cli(&["EXISTS", &key]), "1");
            let left: i64 = redis.cli(&["PTTL", &key]).parse().expect("a number");
            assert!((1..=ttl_ms).contains(&left), "{left}");
            let left: i64 = redis.cli(&["TTL", &key]).parse().expect("a number");
            assert!((0..=ttl_ms / 1000).contains(&left), "{left}");
        }
    };
    let _ = tokio::time::timeout(QUICK.ttl * 2, looking).await;
    b.bye().await;
    watcher.expect_offline("b").await;
    assert_eq!(redis.cli(&["EXISTS", &key]), "0");
    assert_eq!(redis.cli(&["PTTL", &key]), "-2");
    assert_eq!(redis.cli(&["EXISTS", &seen]), "1");
    assert!(redis.cli(&["PTTL", &seen]).parse::<i64>().expect("a number") > 0);
}

#[tokio::test]
async fn while_redis_hangs_nobody_is_shown_offline_and_a_real_leave_is_told_after() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    redis.pause();
    watcher.expect_nothing_for(Duration::from_secs(1)).await;
    assert!(expect_degraded(&mut watcher).await);
    // Away for longer than three seconds, TTL and grace.
    watcher.expect_nothing_for(Duration::from_secs(2)).await;
    redis.resume();
    assert!(!expect_degraded(&mut watcher).await);
    assert_healed(&house, &mut watcher, b).await;
    drop(c);
    watcher.expect_offline("c").await;
}

#[tokio::test]
async fn when_redis_restarts_empty_nobody_is_shown_offline_and_a_real_leave_is_told_after() {
    let mut redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    redis.kill();
    assert!(expect_degraded(&mut watcher).await);
    watcher.expect_nothing_for(Duration::from_secs(1)).await;
    let restarted = tokio::task::spawn_blocking(move || {
        redis.restart();
        redis
    });
    let redis = restarted.await.expect("it starts");
    assert!(!expect_degraded(&mut watcher).await);
    assert_healed(&house, &mut watcher, b).await;
    drop(c);
    watcher.expect_offline("c").await;
    drop(redis);
}

#[tokio::test]
async fn a_restart_too_quick_to_be_told_of_is_healed_all_the_same() {
    let mut redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let (mut watcher, b, _c) = watched(&house).await;
    let restarted = tokio::task::spawn_blocking(move || {
        redis.restart();
        redis
    });
    let _redis = restarted.await.expect("it starts");
    assert_healed(&house, &mut watcher, b).await;
}

/// As where another takes over that had not got it yet.
#[tokio::test]
async fn who_left_is_told_again_to_a_redis_that_forgot_it() {
    let redis = RedisServer::start();
    let house = House::on(&redis, QUICK_AND_LENIENT, &[OPEN]).await;
    let (mut watcher, b, _c) = watched(&house).await;
    let keys = keys_of(house.prefix(), "b").await;
    let copy = |from: &str, to: &str| assert_eq!(redis.cli(&["COPY", from, to, "REPLACE"]), "1");
    for key in &keys {
        copy(key, &format!("{key}:before"));
    }
    b.bye().await;
    watcher.expect_offline("b").await;
    for key in &keys {
        copy(&format!("{key}:before"), key);
    }
    // Nobody there watches b, so that the store is asked.
    assert_eq!(http::query(house.there(), &["b"]).await[0].state.as_str(), "online");
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("b is offline", HEAL_MAX, async || {
        let told = http::try_query(house.there(), &["b"]).await?;
        (told[0].state.as_str() == "offline").then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_really_left_during_an_outage_is_shown_offline_within_five_seconds_after_it() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    redis.pause();
    assert!(expect_degraded(&mut watcher).await);
    b.bye().await;
    let _new = Client::join(house.there(), Format::Json, "d").await;
    watcher.expect_nothing_for(Duration::from_secs(1)).await;
    redis.resume();
    let resumed = Instant::now();
    // The change may be told before it is noticed that the outage is over.
    let (mut told, mut over) = (false, false);
    while !(told && over) {
        let arrival = watcher.next().await;
        assert!(arrival.at - resumed < HEAL_MAX, "{:?}", arrival.at - resumed);
        match arrival.message {
            GatewayMessage::Degraded { since: None } => over = true,
            GatewayMessage::Presence { users } => {
                assert_eq!(users.len(), 1, "{users:?}");
                assert_eq!((users[0].user.as_str(), users[0].state.as_str()), ("b", "offline"));
                told = true;
            }
            other => panic!("not expected: {other:?}"),
        }
    }
    http::until_online(house.here(), "d").await;
    assert_eq!(watcher.query(["c"]).await[0].state.as_str(), "online");
    drop(c);
}

#[tokio::test]
async fn what_cannot_be_known_is_refused_with_store_unavailable_and_a_watch_is_kept() {
    let redis = RedisServer::start();
    let house = House::on(&redis, SLOW, &[OPEN]).await;
    let (mut watcher, _b, _c) = watched(&house).await;
    let _d = Client::join(house.there(), Format::Json, "d").await;
    http::until_online(house.there(), "d").await;
    let mut http = Http::connect(house.here()).await;
    redis.pause();
    let watch =
        watcher.ask(|id| ClientMessage::Watch { users: users(["b", "d"]), id, grant: None }).await;
    assert_eq!(watch.expect_err("d is not known").code, ErrorCode::StoreUnavailable);
    let query =
        watcher.ask(|id| ClientMessage::Query { users: users(["e"]), id, grant: None }).await;
    assert_eq!(query.expect_err("e is not known").code, ErrorCode::StoreUnavailable);
    // Who is watched already is known.
    assert_eq!(watcher.query(["b"]).await[0].state.as_str(), "online");
    assert_eq!(http.query(r#"{"users":["e"]}"#).await.status, 503);
    assert_eq!(http.query(r#"{"users":["b"]}"#).await.status, 200);
    let not_ready = async || (http::get(house.here(), "/readyz").await.status == 503).then_some(());
    eventually("not ready", PATIENCE, not_ready).await;
    assert_eq!(http::get(house.here(), "/healthz").await.status, 200);
    // Who signs in now is told at once.
    let mut late = Client::join(house.here(), Format::Json, "f").await;
    assert!(expect_degraded(&mut late).await);
    redis.resume();
    assert!(!expect_degraded(&mut late).await);
    loop {
        match watcher.next().await.message {
            GatewayMessage::Degraded { .. } => {}
            GatewayMessage::Presence { users } => {
                assert_eq!(users.len(), 1, "{users:?}");
                assert_eq!((users[0].user.as_str(), users[0].state.as_str()), ("d", "online"));
                break;
            }
            other => panic!("not expected: {other:?}"),
        }
    }
}
