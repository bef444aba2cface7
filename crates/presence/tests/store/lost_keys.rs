//! Single keys that Redis has lost (evicted, expired early, deleted by hand) or cannot write: what is known still decides.

use std::time::Duration;

use presence::Config;
use presence::store::redis::{UserKeys, keys_of};
use presence::store::{Cause, Event, StoreError};
use presence_testkit::{RedisServer, eventually};

use crate::world::{
    Gateway, Kind, PATIENCE, ROUNDING, World, join, labels, leave, quick, shared_server, slow, user,
};

async fn ana_online(world: &World) -> (Gateway, UserKeys) {
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;
    (g, keys_of(world.prefix(), &user("ana")))
}

fn delete(key: &str) {
    assert_eq!(shared_server(Kind::Redis).cli(&["DEL", key]), "1");
}

#[tokio::test]
async fn a_user_whose_key_alone_is_lost_is_shown_until_the_gateway_had_time_to_join_it_again() {
    // The gateway vouches within the TTL, which is long after the grace.
    let world = World::new(Kind::Redis, Config { grace: quick().grace, ..slow() });
    let (g, keys) = ana_online(&world).await;
    let seen = g.look("ana").await.view;
    delete(&keys.user);
    let standing = g.look("ana").await;
    let held = standing.held.expect("the loss is held back");
    assert_eq!(held.before, seen);
    assert!(held.remaining > world.config.ttl / 2, "{held:?}");
    assert_eq!(g.refresh(&["ana"]).await, [user("ana")]);
    g.join("ana", "ios").await;
    assert_eq!(g.look("ana").await.held, None);
}

/// Two gateways, and ana's key lost while she was on the first; a loss is held back for the TTL if nobody tells more.
async fn ana_lost() -> (World, Gateway, Gateway) {
    let world = World::new(Kind::Redis, Config { grace: quick().grace, ..slow() });
    let (g, keys) = ana_online(&world).await;
    let h = world.gateway("h").await;
    delete(&keys.user);
    (world, g, h)
}

#[tokio::test]
async fn who_is_joined_again_otherwise_than_before_is_shown_so_at_once() {
    let (_, g, h) = ana_lost().await;
    assert!(h.look("ana").await.held.is_some());
    g.join("ana", "web").await;
    let standing = h.look("ana").await;
    assert_eq!((labels(&standing.view), standing.held), (vec!["web"], None));
    g.leave("ana", Cause::Bye).await;
    let standing = h.look("ana").await;
    assert!(!standing.view.is_online() && standing.held.is_none(), "{standing:?}");
}

#[tokio::test]
async fn who_moved_meanwhile_is_gone_when_the_gateway_before_has_told() {
    let (world, g, h) = ana_lost().await;
    assert!(h.look("ana").await.held.is_some());
    h.join("ana", "web").await;
    h.leave("ana", Cause::Closed).await;
    let held = h.look("ana").await.held.expect("g may have her still");
    assert!(held.remaining > world.config.ttl / 2, "{held:?}");
    g.leave("ana", Cause::Closed).await;
    let held = h.look("ana").await.held;
    assert!(held.is_none_or(|held| held.remaining <= world.config.grace + ROUNDING));
}

/// While the devices differ, she is shown as before for as long as the one before may come back.
#[tokio::test]
async fn who_moved_to_another_device_is_waited_for_no_longer_either() {
    let (world, g, h) = ana_lost().await;
    assert!(h.look("ana").await.held.is_some());
    h.join("ana", "web").await;
    g.leave("ana", Cause::Closed).await;
    h.leave("ana", Cause::Closed).await;
    let held = h.look("ana").await.held;
    assert!(
        held.as_ref().is_none_or(|held| held.remaining <= world.config.grace + ROUNDING),
        "{held:?}"
    );
}

#[tokio::test]
async fn the_bye_on_one_gateway_does_not_hide_who_may_live_on_another() {
    let (_, g, h) = ana_lost().await;
    h.join("ana", "web").await;
    h.leave("ana", Cause::Bye).await;
    assert!(h.shown("ana").await.is_online(), "g may have her still");
    g.join("ana", "ios").await;
    let standing = h.look("ana").await;
    assert!(standing.view.is_online() && standing.held.is_none(), "{standing:?}");
}

#[tokio::test]
async fn the_bye_of_a_user_whose_record_is_lost_is_told() {
    let world = World::new(Kind::Redis, slow());
    let (mut g, keys) = ana_online(&world).await;
    let seen = g.look("ana").await.view;
    delete(&keys.seen);
    g.leave("ana", Cause::Bye).await;
    g.event_until(|event| {
        let Event::Transitions(told) = event else { return false };
        told.iter().any(|ana| {
            !ana.view.is_online() && ana.view.version > seen.version && ana.held.is_none()
        })
    })
    .await;
}

/// Else nobody who is told or asked of together with ana would ever be known.
#[tokio::test]
async fn a_key_that_somebody_else_wrote_is_as_good_as_lost() {
    let world = World::new(Kind::Redis, slow());
    let (g, keys) = ana_online(&world).await;
    let (bucket, _) = keys.user.split_once(":user:").expect("a user's key");
    let gateways = format!("{bucket}:gateways");
    let redis = |words: &[&str]| shared_server(Kind::Redis).cli(words);
    let spoils: [&[&str]; 5] = [
        &["SET", &keys.user, "mine"],
        &["LPUSH", &keys.seen, "mine"],
        &["SET", &keys.seen, "mine"],
        &["SET", &gateways, "mine"],
        &["HSET", &keys.user, "mine", "mine"],
    ];
    for spoil in spoils {
        let spoil_it = || {
            if spoil[0] != "HSET" {
                redis(&["DEL", spoil[1]]);
            }
            redis(spoil);
        };
        spoil_it();
        g.look("ana").await;
        spoil_it();
        g.refresh(&["ana"]).await;
        spoil_it();
        let batch = ["bo", "ana", "cy"].map(|name| join(name, "web"));
        g.store().apply(batch.into()).await.expect("it is taken");
        for name in ["bo", "ana", "cy"] {
            assert!(g.look(name).await.view.is_online(), "{name} after {spoil:?}");
        }
        g.leave("ana", Cause::Bye).await;
        assert!(!g.shown("ana").await.is_online(), "after {spoil:?}");
        g.join("ana", "ios").await;
    }
}

/// Else the loss of a user who moved would be taken, and the join that goes with it refused.
#[tokio::test]
async fn a_redis_that_is_full_refuses_all_of_a_batch() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let (g, _) = ana_online(&world).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let batch = vec![leave("ana", Cause::Bye), join("bo", "ios")];
    let error = g.store().apply(batch).await.expect_err("it is full");
    assert!(matches!(error, StoreError::Refused(_)), "{error}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(g.look("ana").await.view.is_online());
}

#[tokio::test]
async fn who_lapsed_while_redis_was_full_is_not_offline_at_once() {
    let server = RedisServer::start();
    let world = World::on(&server, Config { grace: Duration::from_millis(1), ..quick() });
    let (g, keys) = ana_online(&world).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    g.store().apply(vec![join("ana", "ios")]).await.expect_err("it is full");
    let lapsed = async || (server.cli(&["EXISTS", &keys.user]) == "0").then_some(());
    eventually("nobody could vouch for the TTL", PATIENCE, lapsed).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let standing = g.look("ana").await;
    assert!(!standing.view.is_online() && standing.shown().is_online(), "{standing:?}");
}
