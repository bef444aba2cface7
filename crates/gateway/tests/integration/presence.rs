//! The dot: when watchers see a user come and go, in both notations, and when they must see nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use presence_protocol::{Availability, Format};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE};
use crate::house::{House, Kind, LATE_MAX, QUICK, SLOW, on_both_stores};

on_both_stores!(
    who_connects_is_shown_online_in_both_notations,
    a_bye_is_shown_at_once_and_not_after_grace,
    who_is_back_within_grace_here_or_elsewhere_causes_no_push,
    who_drops_and_stays_away_is_shown_offline_once_and_not_before_grace,
    who_falls_silent_is_shown_offline_after_ttl_and_its_socket_closes_with_4004,
    who_crosses_ttl_by_heartbeats_is_never_shown_offline,
);

/// The gateway counts in whole milliseconds, so that a duration may come out so much shorter than a finer clock says.
const ROUNDING: Duration = Duration::from_millis(2);

/// Two users who watch others: with JSON here, with `MessagePack` there.
async fn two_watchers(house: &House, watched: &[&str]) -> [Client; 2] {
    let mut json = Client::join(house.here(), Format::Json, "a-json").await;
    let mut msgpack = Client::join(house.there(), Format::MsgPack, "a-msgpack").await;
    for watcher in [&mut json, &mut msgpack] {
        for state in watcher.watch(watched).await {
            assert_eq!((state.state, state.since), (Availability::Offline, None));
        }
    }
    [json, msgpack]
}

async fn who_connects_is_shown_online_in_both_notations(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watchers = two_watchers(&house, &["b"]).await;
    let before = Instant::now();
    let _b = Client::join(house.here(), Format::Json, "b").await;
    for watcher in &mut watchers {
        let push = watcher.expect_online("b").await;
        let took = push.at - before;
        println!("{kind:?}: dialled, signed in and shown online in {took:?}");
        assert!(took < LATE_MAX, "{took:?}");
        assert!(push.state.version > 0 && push.state.since.is_some(), "{push:?}");
    }
}

async fn a_bye_is_shown_at_once_and_not_after_grace(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watchers = two_watchers(&house, &["b"]).await;
    let b = Client::join(house.there(), Format::MsgPack, "b").await;
    for watcher in &mut watchers {
        watcher.expect_online("b").await;
    }
    let before = Instant::now();
    b.bye().await;
    for watcher in &mut watchers {
        let took = watcher.expect_offline("b").await.at - before;
        println!("{kind:?}: signed out and shown offline in {took:?}");
        assert!(took < LATE_MAX, "{took:?} is not well before the grace");
    }
}

async fn who_is_back_within_grace_here_or_elsewhere_causes_no_push(kind: Kind) {
    let grace = Duration::from_secs(1);
    let house = House::new(kind, QUICK.ttl(Duration::from_secs(5)).grace(grace)).await;
    let mut watchers = two_watchers(&house, &["b"]).await;
    let mut b = Client::join(house.here(), Format::Json, "b").await;
    for watcher in &mut watchers {
        watcher.expect_online("b").await;
    }
    for addr in [house.here(), house.there(), house.here()] {
        let dropped = Instant::now();
        b.reset().await;
        b = Client::join(addr, Format::Json, "b").await;
        assert!(dropped.elapsed() < grace, "this machine is too busy to be back within grace");
    }
    for watcher in &mut watchers {
        watcher.expect_nothing_for(grace + Duration::from_millis(300)).await;
        assert_eq!(watcher.query(["b"]).await[0].state, Availability::Online);
    }
}

async fn who_drops_and_stays_away_is_shown_offline_once_and_not_before_grace(kind: Kind) {
    // A TTL that cannot be what ends it.
    let house = House::new(kind, QUICK.ttl(Duration::from_secs(30))).await;
    let mut watchers = two_watchers(&house, &["b"]).await;
    for reset in [true, false] {
        let b = Client::join(house.there(), Format::Json, "b").await;
        for watcher in &mut watchers {
            watcher.expect_online("b").await;
        }
        let dropped = Instant::now();
        if reset {
            b.reset().await;
        } else {
            b.hang_up();
        }
        for watcher in &mut watchers {
            let after = watcher.expect_offline("b").await.at - dropped;
            println!("{kind:?}: dropped and shown offline after {after:?}");
            let grace = house.times.grace;
            assert!(after + ROUNDING >= grace, "{after:?} is within the grace of {grace:?}");
            assert!(after < grace + LATE_MAX, "{after:?} is too late");
        }
    }
    for watcher in &mut watchers {
        watcher.expect_nothing_for(house.times.grace).await;
    }
}

async fn who_falls_silent_is_shown_offline_after_ttl_and_its_socket_closes_with_4004(kind: Kind) {
    // A grace too short to hide a death that comes before its time.
    let house = House::new(kind, QUICK.grace(Duration::from_millis(50))).await;
    let mut watchers = two_watchers(&house, &["b"]).await;
    let mut b = Client::join(house.there(), Format::MsgPack, "b").await;
    for watcher in &mut watchers {
        watcher.expect_online("b").await;
    }
    let before = Instant::now();
    let before_ms = wall_ms();
    b.heartbeat();
    b.freeze().await;
    let frozen = Instant::now();
    for watcher in &mut watchers {
        let push = watcher.expect_offline("b").await;
        let (ttl, grace) = (house.times.ttl, house.times.grace);
        println!("{kind:?}: silent and shown offline after {:?}", push.at - before);
        assert!(push.at - before + ROUNDING >= ttl, "{:?}: before TTL", push.at - before);
        assert!(push.at - frozen < ttl + grace + LATE_MAX, "{:?}: late", push.at - frozen);
        let since = push.state.since.expect("last seen");
        let last_seen = before_ms - 2..=before_ms + ttl.as_millis() as u64 / 2;
        assert!(last_seen.contains(&since), "{since} is not the last heartbeat: {last_seen:?}");
    }
    b.wake().await;
    b.expect_close(4004).await;
    for watcher in &mut watchers {
        watcher.expect_nothing_for(house.times.grace).await;
    }
}

async fn who_crosses_ttl_by_heartbeats_is_never_shown_offline(kind: Kind) {
    let house = House::new(kind, QUICK.ttl(Duration::from_millis(800))).await;
    let mut watchers = two_watchers(&house, &["by-pong", "by-message", "by-ping"]).await;
    let _with_pongs = Client::join(house.here(), Format::Json, "by-pong").await;
    let with_messages = Client::join(house.there(), Format::MsgPack, "by-message").await;
    let with_pings = Client::join(house.here(), Format::Json, "by-ping").await;
    for watcher in &mut watchers {
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let arrival = watcher.next().await;
            let presence_protocol::GatewayMessage::Presence { users } = arrival.message else {
                panic!("presence was due, not {:?}", arrival.message);
            };
            seen.extend(users);
        }
        assert!(seen.iter().all(|state| state.state == Availability::Online), "{seen:?}");
    }
    // These two read nothing, so that they answer no Ping.
    with_messages.freeze().await;
    with_pings.freeze().await;
    let beating = tokio::spawn(async move {
        let mut beats = tokio::time::interval(house.times.heartbeat);
        loop {
            beats.tick().await;
            with_messages.heartbeat();
            with_pings.ping();
        }
    });
    let [json, msgpack] = &mut watchers;
    let time = house.times.ttl * 10;
    tokio::join!(json.expect_nothing_for(time), msgpack.expect_nothing_for(time));
    beating.abort();
}

#[tokio::test]
async fn a_ping_is_answered_by_a_pong() {
    let house = House::new(Kind::OneEmbedded, SLOW).await;
    let mut client = Client::join(house.here(), Format::Json, "b").await;
    let before = Instant::now();
    client.ping();
    client.expect_pong().await;
    assert!(before.elapsed() < PATIENCE / 2);
}

fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_millis() as u64
}
