//! Redis answers, and refuses: its memory is full, it evicts what it was told to keep, or it may not be configured.

use std::time::Duration;

use presence_protocol::Format;
use presence_testkit::{RedisServer, eventually};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE};
use crate::crowd::{Crowd, TIMES};
use crate::house::{House, OPEN, prefix};
use crate::http;
use crate::observer::Observer;
use crate::process::{Process, keys_of};

/// Longer than TTL and grace: the keys of all users run out, since they cannot be renewed.
const FULL_FOR: Duration = Duration::from_millis(4500);

/// Some megabytes of other people's keys.
const FILL: &str = "for i = 1, 5000 do redis.call('SET', 'other:' .. i, string.rep('x', 500)) end";

#[tokio::test]
async fn a_redis_that_is_full_is_weathered() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    crowd.expect_degraded(true).await;
    crowd.shuffle().await;
    crowd.observe_for(FULL_FOR).await;
    crowd.expect_bounded().await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    crowd.expect_healed(Instant::now()).await;
}

/// Refusals come and go with what others write into the same Redis.
#[tokio::test]
async fn a_redis_that_is_full_now_and_then_is_weathered() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    for round in 0..8 {
        redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
        crowd.observe_for(Duration::from_millis(300)).await;
        redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        crowd.observe_for(Duration::from_millis(100)).await;
        if round == 4 {
            crowd.shuffle().await;
        }
    }
    crowd.expect_healed(Instant::now()).await;
}

/// What a gateway does on a gap: it reads all watched users from Redis.
async fn read_all_again(redis: &RedisServer, house: &House) {
    let gaps = async || {
        let [here, there] = house.addrs();
        let total = "presence_gaps_total";
        Some(http::metric(here, total).await? + http::metric(there, total).await?)
    };
    let before = gaps().await.expect("it is told");
    redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let after = async || gaps().await.filter(|gaps| *gaps >= before + 2);
    eventually("both gateways read again", PATIENCE, after).await;
}

/// A policy that evicts is wrong for presence, and yet nobody alive is shown offline for one key.
#[tokio::test]
async fn whose_key_is_evicted_stays_online_and_is_asserted_again() {
    // Longer from one vouching to the next than a loss is held back.
    let times = TIMES.ttl(Duration::from_secs(4)).grace(Duration::from_millis(200));
    let redis = RedisServer::start();
    let house = House::on(&redis, times, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    for user in ["stays0", "everywhere"] {
        let [key, seen] = keys_of(house.prefix(), user).await;
        for evicted in [key, seen] {
            assert_eq!(redis.cli(&["DEL", &evicted]), "1");
            read_all_again(&redis, &house).await;
            crowd.observe_for(times.ttl / 4).await;
            let back = async || (redis.cli(&["EXISTS", &evicted]) == "1").then_some(());
            eventually(&format!("{evicted} is there again"), times.ttl, back).await;
        }
    }
    crowd.expect_healed(Instant::now()).await;
}

/// As of a primary that hung, was replaced, and woke: what it tells before it is a replica is newer than what its successor knows.
#[tokio::test]
async fn what_redis_has_lost_since_it_was_shown_is_told_anew() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let [here, there] = house.addrs();
    let mut ana = Client::join(here, Format::Json, "ana").await;
    let mut observer = Observer::join(there, 1).await;
    observer.watch(&["ana".to_owned()]).await;
    assert!(observer.sees_online("ana"));
    let [_, seen] = keys_of(house.prefix(), "ana").await;
    let line = format!("{} ", redis.cli(&["GET", &seen]).trim_end());
    let version: u64 = line.split(' ').next().expect("it is first").parse().expect("a number");
    redis.cli(&["SET", &seen, &format!("{} offline {} . . .  ", version + 1, version / 1000)]);
    read_all_again(&redis, &house).await;
    observer.observe_until_offline("ana").await;
    redis.cli(&["SET", &seen, &line]);
    let begun = Instant::now();
    let healed = times_to_settle() + PATIENCE;
    while !observer.sees_online("ana") {
        assert!(begun.elapsed() < healed, "ana is still shown offline");
        let step = Duration::from_millis(50);
        tokio::join!(observer.observe_for(step), ana.next_within(step));
    }
}

/// For so long after a gap a Redis that has lost something may tell of its own accord what is right.
fn times_to_settle() -> Duration {
    TIMES.ttl + TIMES.grace + Duration::from_secs(6)
}

/// Where a user's key goes together with all that tells of its gateway, nobody can know better: but it passes.
#[tokio::test]
async fn a_redis_that_evicted_whatever_is_oldest_is_healed() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    crowd.expect_nobody();
    redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "3mb"]);
    for _ in 0..4 {
        redis.send(&["EVAL", FILL, "0"]);
        crowd.observe_for(Duration::from_millis(500)).await;
    }
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    // Whoever leaves before the gateway has vouched is not known of.
    crowd.observe_for(TIMES.ttl).await;
    crowd.expect_truth().await;
    crowd.shuffle().await;
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn a_redis_that_may_not_be_configured_is_told_of_with_advice_and_works() {
    let redis = RedisServer::start_with(&["--rename-command", "CONFIG", ""]);
    let here = Process::start(&redis, &prefix(), TIMES, &[]).await;
    let warned = here
        .said
        .iter()
        .any(|line| line.contains("WARN") && line.contains("set `notify-keyspace-events Ex`"));
    assert!(warned, "{:#?}", here.said);
    let mut watcher = Client::join(here.addr, Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let b = Client::join(here.addr, Format::Json, "b").await;
    watcher.expect_online("b").await;
    b.hang_up();
    watcher.expect_offline("b").await;
    // Also after a reconnect, where it is tried again.
    redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    let back =
        async || (http::metric(here.addr, "presence_reconnects_total").await? > 0).then_some(());
    eventually("it has reconnected", PATIENCE, back).await;
    let _b = Client::join(here.addr, Format::Json, "b").await;
    loop {
        let push = watcher.expect_presence("b").await;
        if push.state.state.as_str() == "online" {
            break;
        }
    }
}
