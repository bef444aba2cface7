//! Redis with sentinels: another server takes over, by their word, and is followed.

use presence::store::redis::{Mode, keys_of};
use presence::store::{Cause, Event};
use presence_testkit::{RedisSentinel, eventually};

use crate::opening::{error, report};
use crate::permissions::{documented, everything_works, words};
use crate::world::{Gateway, PATIENCE, World, join, leave, slow, user};

async fn is_back(g: &mut Gateway) {
    g.event_until(|event| matches!(event, Event::Reconnected)).await;
    let look = async || g.store().snapshot(vec![user("ana")]).await.ok();
    let standings = eventually("the store answers again", PATIENCE, look).await;
    assert!(standings[0].shown().is_online(), "{standings:?}");
    g.apply_until_taken(leave("ana", Cause::Bye)).await;
    assert_eq!(g.heard("ana").await.cause(), Some(Cause::Bye));
}

/// What was written to the primary has reached the replica.
async fn is_replicated(redis: &RedisSentinel, world: &World, primary: usize) {
    let seen = keys_of(world.prefix(), &user("ana")).seen;
    let replica = redis.server(1 - primary);
    eventually("it is replicated", PATIENCE, async || {
        Some(()).filter(|()| replica.cli(&["EXISTS", &seen]) == "1")
    })
    .await;
}

#[tokio::test]
async fn a_primary_that_is_killed_is_replaced_and_changes_are_told_by_the_new_one() {
    let mut redis = RedisSentinel::start();
    assert_eq!(report(redis.url()).await.mode, Mode::Sentinel);
    let world = World::at(redis.url(), slow());
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;
    let old = redis.primary().expect("a primary");
    is_replicated(&redis, &world, old).await;
    redis.kill(old);
    redis.failover(old).await;
    is_back(&mut g).await;
}

#[tokio::test]
async fn a_plain_url_for_a_sentinel_is_told_which_form_is_right() {
    let redis = RedisSentinel::start();
    let url = redis.url().replace("redis-sentinel://", "redis://");
    let url = url.split_once('?').map_or(url.as_str(), |(url, _)| url);
    let error = error(url.to_owned()).await.to_string();
    assert!(error.contains("start with redis-sentinel://"), "{error}");
    assert!(error.contains("sentinelServiceName"), "{error}");
}

/// Whether its refusals tell of it, or the sentinel cuts the connection: either will do.
#[tokio::test]
async fn a_primary_that_became_a_replica_under_open_connections_is_left() {
    let redis = RedisSentinel::start();
    let world = World::at(redis.url(), slow());
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;
    let old = redis.primary().expect("a primary");
    is_replicated(&redis, &world, old).await;
    redis.promote_replica();
    let new = redis.failover(old).await;
    let moved = async || g.store().apply(vec![join("bo", "ios")]).await.ok();
    let server = redis.server(new);
    eventually("claims go to the new primary", 3 * PATIENCE, async || {
        moved().await?;
        let key = keys_of(world.prefix(), &user("bo")).user;
        Some(()).filter(|()| server.cli(&["EXISTS", &key]) == "1")
    })
    .await;
    is_back(&mut g).await;
}

#[tokio::test]
async fn what_the_documentation_grants_is_enough_at_server_and_sentinel() {
    let redis = RedisSentinel::start();
    let [line, _] = documented();
    for number in [0, 1] {
        assert_eq!(redis.server(number).cli(&[&words(&line)[..], &["+role"]].concat()), "OK");
    }
    let at_sentinel = ["ACL", "SETUSER", "gateway", "on", ">password", "+ping", "+sentinel"];
    assert_eq!(redis.sentinel_cli(&at_sentinel), "OK");
    let url = redis.url_as("gateway", "password");
    let primary = redis.primary().expect("a primary");
    everything_works(&url, redis.server(primary)).await;
    let wrong = error(url.replace("sentinelPassword=password", "sentinelPassword=wrong")).await;
    assert!(!wrong.to_string().contains("wrong"), "{wrong}");
}
