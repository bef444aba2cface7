//! A Redis Cluster of several primaries: where things are published, and what becomes of a store whose cluster changes.

use std::time::Duration;

use presence::Config;
use presence::store::notice::Notice;
use presence::store::redis::{Mode, PubSub, keys_of};
use presence::store::{Cause, Event, Standing, StoreError};
use presence_testkit::{RedisCluster, eventually};
use tokio::sync::Mutex;

use crate::opening::report;
use crate::world::{Gateway, PATIENCE, World, join, leave, quick, shared_cluster, slow, user};

/// Clusters of a test's own are started one after the other: each is six processes.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Some users of each primary, in one bucket each.
const NAMES: [&str; 12] =
    ["ana", "bo", "cy", "di", "ed", "flo", "gus", "hal", "ivy", "jo", "kit", "lou"];

#[tokio::test]
async fn a_cluster_of_redis_7_is_listened_to_by_bucket_and_older_gateways_are_heard() {
    let cluster = shared_cluster();
    let report = report(cluster.url()).await;
    assert_eq!(report.mode, Mode::Cluster { primaries: 3 });
    assert_eq!(report.pubsub, PubSub::Sharded);

    let world = World::at(cluster.url(), slow());
    let mut g = world.gateway("g").await;
    for name in NAMES {
        g.join(name, "ios").await;
        g.heard(name).await;
    }
    g.store().tell(Notice::Disconnect(user("ana"))).await.expect("it is told");
    g.event_until(
        |event| matches!(event, Event::Notice(Notice::Disconnect(told)) if *told == user("ana")),
    )
    .await;
    let channels = format!("{}:{{*}}:events", world.prefix());
    let listened = cluster.cli_everywhere(&["PUBSUB", "SHARDCHANNELS", &channels]);
    assert_eq!(listened.iter().map(|answer| answer.lines().count()).sum::<usize>(), 1024);
    let published = cluster.cli_everywhere(&["INFO", "commandstats"]).concat();
    assert!(published.contains("cmdstat_spublish:"), "{published}");
    assert!(!published.contains("cmdstat_publish:"), "nothing goes through every server");

    // A gateway that knows no sharded channels tells on the shared one.
    let tell = "return redis.call('PUBLISH', ARGV[1], cmsgpack.pack({disconnect = ARGV[2]}))";
    let channel = format!("{}:events", world.prefix());
    for server in cluster.primaries() {
        cluster.server(server).cli(&["EVAL", tell, "0", &channel, NAMES[server]]);
        g.event_until(
            |event| matches!(event, Event::Notice(Notice::Disconnect(told)) if *told == user(NAMES[server])),
        )
        .await;
    }
}

async fn hears_everybody(g: &mut Gateway, cause: Cause) {
    for name in NAMES {
        let claim = if cause == Cause::Joined { join(name, "ios") } else { leave(name, cause) };
        g.apply_until_taken(claim).await;
        assert_eq!(g.heard(name).await.cause(), Some(cause), "{name}");
    }
}

/// The first answer after a fault.
async fn found_again(g: &Gateway, name: &str) -> Standing {
    let look = async || g.store().snapshot(vec![user(name)]).await.ok();
    eventually("the store answers again", PATIENCE, look).await.remove(0)
}

/// Changes users, as long as the cluster is in trouble and a moment longer.
async fn churn(g: &Gateway) {
    for name in NAMES.iter().cycle() {
        let _ = g.store().apply(vec![join(name, "web"), join("always", "ios")]).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_primary_that_is_killed_under_churn_makes_nobody_offline_and_its_replica_is_listened_to()
{
    let _turn = ONE_AT_A_TIME.lock().await;
    let mut cluster = RedisCluster::start();
    let config = Config { ttl: Duration::from_secs(20), ..slow() };
    let world = World::at(cluster.url(), config);
    let (mut g, busy) = (world.gateway("g").await, world.gateway("busy").await);
    hears_everybody(&mut g, Cause::Joined).await;

    let keys = keys_of(world.prefix(), &user("ana"));
    let slot = cluster.slot_of(&keys.user);
    let old = cluster.primary_of(slot).expect("the cluster is whole");
    cluster.replicate(old).await;
    cluster.kill(old);
    let new = tokio::select! {
        new = cluster.failover(slot, old) => new,
        () = churn(&busy) => unreachable!(),
    };
    for name in NAMES {
        let standing = found_again(&g, name).await;
        assert!(standing.shown().is_online(), "{name}: {standing:?}");
    }
    g.event_until(|event| matches!(event, Event::Gap | Event::Reconnected)).await;
    hears_everybody(&mut g, Cause::Bye).await;

    hears_expired(&mut g, &cluster, new, &keys.user).await;
}

/// The server tells of expired keys, and is listened to.
async fn hears_expired(g: &mut Gateway, cluster: &RedisCluster, primary: usize, key: &str) {
    let server = cluster.server(primary);
    eventually("expired keys are told of", PATIENCE, async || {
        let flags = server.cli(&["CONFIG", "GET", "notify-keyspace-events"]);
        Some(()).filter(|()| flags.contains('x'))
    })
    .await;
    g.apply_until_taken(join("ana", "ios")).await;
    server.cli(&["PEXPIRE", key, "1"]);
    eventually("the key expires", PATIENCE, async || {
        Some(()).filter(|()| server.cli(&["EXISTS", key]) == "0")
    })
    .await;
    g.event_until(|event| matches!(event, Event::Expired(expired) if *expired == user("ana")))
        .await;
}

#[tokio::test]
async fn a_replica_that_takes_over_in_good_order_is_followed() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let cluster = RedisCluster::start();
    let world = World::at(cluster.url(), slow());
    let mut g = world.gateway("g").await;
    hears_everybody(&mut g, Cause::Joined).await;
    let key = keys_of(world.prefix(), &user("ana")).user;
    let slot = cluster.slot_of(&key);
    let old = cluster.primary_of(slot).expect("the cluster is whole");
    cluster.promote(cluster.replicas_of(old)[0]).await;
    let new = cluster.failover(slot, old).await;
    for name in NAMES {
        assert!(found_again(&g, name).await.shown().is_online(), "{name}");
    }
    g.event_until(|event| matches!(event, Event::Gap | Event::Reconnected)).await;
    hears_everybody(&mut g, Cause::Bye).await;
    hears_expired(&mut g, &cluster, new, &key).await;
}

#[tokio::test]
async fn a_slot_that_moves_takes_its_users_and_its_channel_along() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let cluster = RedisCluster::start();
    let world = World::at(cluster.url(), slow());
    let (mut listener, speaker) = (world.gateway("listener").await, world.gateway("speaker").await);
    let slot = cluster.slot_of(&keys_of(world.prefix(), &user("ana")).user);
    speaker.join("ana", "ios").await;
    let before = listener.heard("ana").await.view;

    let from = cluster.primary_of(slot).expect("the cluster is whole");
    let to = cluster.primaries().into_iter().find(|&number| number != from).expect("another");
    cluster.migrate_slot(slot, to);
    // The listener says nothing about this slot, so that nobody tells it.
    listener.event_until(|event| matches!(event, Event::Gap)).await;
    assert_eq!(found_again(&speaker, "ana").await.view, before);
    speaker.apply_until_taken(leave("ana", Cause::Bye)).await;
    assert_eq!(listener.heard("ana").await.cause(), Some(Cause::Bye));
}

#[tokio::test]
async fn while_a_slot_moves_its_users_wait_and_no_half_of_their_keys_is_taken_for_all() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let cluster = RedisCluster::start();
    let world = World::at(cluster.url(), Config { ttl: Duration::from_mins(1), ..quick() });
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    let before = g.heard("ana").await.view;
    let slot = cluster.slot_of(&keys_of(world.prefix(), &user("ana")).user);
    let from = cluster.primary_of(slot).expect("the cluster is whole");
    let to = cluster.primaries().into_iter().find(|&number| number != from).expect("another");

    let waits = async || {
        let error =
            g.store().snapshot(vec![user("ana")]).await.expect_err("its keys are on their way");
        assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
        let error = g.store().apply(vec![join("ana", "web")]).await.expect_err("they are");
        assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    };
    cluster.begin_migration(slot, to);
    waits().await;
    let keys = cluster.server(from).cli(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "9"]);
    let port = cluster.server(to).port().to_string();
    for key in keys.lines() {
        let moved = cluster.server(from).cli(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        assert_eq!(moved, "OK");
        waits().await;
    }
    cluster.end_migration(slot, to);
    assert_eq!(found_again(&g, "ana").await.view, before);
}
