//! Redis cannot serve: it is stopped, gone, empty, read-only, busy or loading. While it lasts, clients are told `degraded`
//! and nobody is shown offline; when it is over, every view becomes the truth.

use std::time::Duration;

use presence_testkit::{RedisServer, eventually};
use tokio::time::Instant;

use crate::client::PATIENCE;
use crate::crowd::{Crowd, TIMES};
use crate::house::{House, OPEN};

/// Long enough for every key, every grace and every lease to run out.
const LONG: Duration = Duration::from_millis(4500);

/// Longer than TTL, and not than TTL and grace.
const SHORT: Duration = Duration::from_secs(3);

async fn crowd_on(redis: &RedisServer) -> (House, Crowd) {
    let house = House::on(redis, TIMES, &[OPEN]).await;
    let crowd = Crowd::gather(house.addrs()).await;
    (house, crowd)
}

/// From when Redis began to fail, until so long after: everybody is told, once, and the gateways remember no more than
/// one claim a user, however many heartbeats come.
async fn weather(crowd: &mut Crowd, time: Duration) {
    let end = Instant::now() + time;
    crowd.expect_degraded(true).await;
    crowd.shuffle().await;
    crowd.beat();
    crowd.observe_for(end.saturating_duration_since(Instant::now())).await;
    crowd.beat();
    crowd.expect_bounded().await;
    assert!(crowd.observers.iter().all(|observer| observer.degraded_told == 1));
}

async fn a_stop_is_weathered(time: Duration) {
    let redis = RedisServer::start();
    let (_house, mut crowd) = crowd_on(&redis).await;
    redis.pause();
    weather(&mut crowd, time).await;
    redis.resume();
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn a_redis_that_is_stopped_for_longer_than_ttl_is_weathered() {
    a_stop_is_weathered(SHORT).await;
}

#[tokio::test]
async fn a_redis_that_is_stopped_for_many_ttls_is_weathered() {
    a_stop_is_weathered(LONG).await;
}

#[tokio::test]
async fn a_redis_that_restarts_empty_after_many_ttls_is_weathered() {
    let mut redis = RedisServer::start();
    let (_house, mut crowd) = crowd_on(&redis).await;
    redis.kill();
    weather(&mut crowd, LONG).await;
    let restarted = tokio::task::spawn_blocking(move || {
        redis.restart();
        redis
    });
    let _redis = restarted.await.expect("it starts");
    crowd.expect_healed(Instant::now()).await;
}

/// After a failover, a gateway may reach what is a replica now: it answers reads, from whatever data it has.
#[tokio::test]
async fn a_redis_that_becomes_a_replica_of_an_empty_one_is_weathered() {
    let (redis, other) = (RedisServer::start(), RedisServer::start());
    let (_house, mut crowd) = crowd_on(&redis).await;
    redis.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    crowd.expect_degraded(true).await;
    let synced =
        async || redis.cli(&["INFO", "replication"]).contains("link_status:up").then_some(());
    eventually("it has the other one's data", PATIENCE, synced).await;
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
    redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    weather(&mut crowd, LONG).await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn a_redis_that_becomes_a_replica_and_keeps_its_data_is_weathered() {
    let redis = RedisServer::start();
    let (_house, mut crowd) = crowd_on(&redis).await;
    // Nobody is at that port: it waits for its primary, and serves what it has.
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    weather(&mut crowd, SHORT).await;
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn a_redis_that_is_busy_with_a_script_is_weathered() {
    let redis = RedisServer::start_with(&["--lua-time-limit", "100"]);
    let (_house, mut crowd) = crowd_on(&redis).await;
    redis.send(&["EVAL", "while true do end", "0"]);
    weather(&mut crowd, SHORT).await;
    redis.cli(&["SCRIPT", "KILL"]);
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_weathered() {
    let redis = RedisServer::start_with(&[
        "--enable-debug-command",
        "yes",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let (_house, mut crowd) = crowd_on(&redis).await;
    // So slow that it takes seconds; it keeps what it has.
    redis.cli(&["CONFIG", "SET", "key-load-delay", "50000"]);
    redis.send(&["DEBUG", "RELOAD"]);
    weather(&mut crowd, SHORT).await;
    // It hears of it between two keys or so.
    redis.send(&["CONFIG", "SET", "key-load-delay", "0"]);
    crowd.expect_healed(Instant::now()).await;
}
