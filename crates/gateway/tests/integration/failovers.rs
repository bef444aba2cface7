//! Redis in more than one process: another one takes over while clients are connected. Nobody is shown offline for it, and
//! what really changes is told, whoever serves it.

use std::time::Duration;

use presence_protocol::{Format, GatewayMessage};
use presence_testkit::{RedisCluster, RedisSentinel, eventually};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE};
use crate::house::{House, OPEN};
use crate::http;
use crate::outages::{TIMES, assert_healed, expect_degraded, watched};
use crate::process::keys_of;

/// So long after a failover at most, gateways serve as before.
const FOUND_MAX: Duration = Duration::from_secs(8);

/// The watcher may be told that Redis is away, and that it is back, and nothing else.
async fn only_degraded_for(watcher: &mut Client, time: Duration) {
    let deadline = tokio::time::Instant::now() + time;
    while let Some(arrival) = watcher.next_within(deadline - tokio::time::Instant::now()).await {
        let message = arrival.message;
        assert!(matches!(message, GatewayMessage::Degraded { .. }), "{message:?}");
    }
}

/// The watcher is told that Redis is back, and nothing else; it may be told that it is away once more before.
async fn until_back(watcher: &mut Client) {
    loop {
        match watcher.next().await.message {
            GatewayMessage::Degraded { since: None } => return,
            GatewayMessage::Degraded { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Both gateways are ready, and stay so for a moment.
async fn until_ready(house: &House) {
    let mut good = 0;
    eventually("both are ready again", 2 * PATIENCE, async || {
        let ready = http::get(house.here(), "/readyz").await.status == 200
            && http::get(house.there(), "/readyz").await.status == 200;
        good = if ready { good + 1 } else { 0 };
        (good >= 20).then_some(())
    })
    .await;
}

async fn slot_of(cluster: &RedisCluster, house: &House, name: &str) -> u16 {
    let [key, _] = keys_of(house.prefix(), name).await;
    cluster.slot_of(&key)
}

#[tokio::test]
async fn when_a_primary_of_a_cluster_is_killed_nobody_is_shown_offline_and_a_real_leave_is_told() {
    let mut cluster = RedisCluster::start();
    let house = House::at(&cluster.url(), TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    let slot = slot_of(&cluster, &house, "b").await;
    let old = cluster.primary_of(slot).expect("the cluster is whole");
    cluster.replicate(old).await;
    cluster.kill(old);
    cluster.failover(slot, old).await;
    until_ready(&house).await;
    only_degraded_for(&mut watcher, Duration::from_secs(2)).await;
    assert_healed(&house, &mut watcher, b).await;
    drop(c);
    watcher.expect_offline("c").await;
}

/// A server that hangs still takes connections, and who looks for the servers of a cluster may ask it first.
#[tokio::test]
async fn when_a_primary_of_a_cluster_hangs_for_good_its_replica_is_found_and_changes_are_told() {
    let cluster = RedisCluster::start();
    let (old, slot) = cluster.first_primary();
    // One gateway knows of no other server, but for what it was told.
    let urls = [cluster.url(), cluster.url_of(old)];
    let house = House::on_urls(urls, TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    cluster.replicate(old).await;
    cluster.pause(old);
    assert!(expect_degraded(&mut watcher).await);
    cluster.failover(slot, old).await;
    let promoted = Instant::now();
    until_ready(&house).await;
    assert!(promoted.elapsed() < FOUND_MAX, "{:?}", promoted.elapsed());
    until_back(&mut watcher).await;
    only_degraded_for(&mut watcher, Duration::from_secs(2)).await;
    assert_healed(&house, &mut watcher, b).await;
    drop(c);
    watcher.expect_offline("c").await;
    let newcomers = House::at(&cluster.url(), TIMES, &[OPEN]).await;
    until_ready(&newcomers).await;
}

#[tokio::test]
async fn when_a_slot_moves_its_users_are_shown_as_before_and_changes_are_told_within_five_seconds()
{
    let cluster = RedisCluster::start();
    let house = House::at(&cluster.url(), TIMES, &[OPEN]).await;
    let (mut watcher, b, _c) = watched(&house).await;
    let slot = slot_of(&cluster, &house, "b").await;
    let from = cluster.primary_of(slot).expect("the cluster is whole");
    let to = cluster.primaries().into_iter().find(|&number| number != from).expect("another");
    cluster.migrate_slot(slot, to);
    b.bye().await;
    let told = tokio::time::timeout(Duration::from_secs(5), watcher.expect_offline("b")).await;
    told.expect("a change is told within five seconds");
    let _b = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    watcher.expect_nothing_for(TIMES.ttl).await;
}

#[tokio::test]
async fn when_a_primary_with_sentinels_is_killed_nobody_is_shown_offline_and_a_real_leave_is_told()
{
    let mut redis = RedisSentinel::start();
    let house = House::at(&redis.url(), TIMES, &[OPEN]).await;
    let (mut watcher, b, c) = watched(&house).await;
    let old = redis.primary().expect("a primary");
    redis.kill(old);
    redis.failover(old).await;
    until_ready(&house).await;
    only_degraded_for(&mut watcher, Duration::from_secs(2)).await;
    assert_healed(&house, &mut watcher, b).await;
    drop(c);
    watcher.expect_offline("c").await;
}
