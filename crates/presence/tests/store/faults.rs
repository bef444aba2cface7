//! What becomes of a store whose Redis fails. Each test has a Redis of its own.

use std::time::{Duration, Instant};

use presence::Config;
use presence::store::{Cause, Claim, Event};
use presence_testkit::{RedisServer, eventually};
use tokio::time::sleep;

use crate::world::{Gateway, PATIENCE, World, join, leave, quick, slow, user};

fn is_gap(event: &Event) -> bool {
    matches!(event, Event::Gap)
}

fn is_reconnected(event: &Event) -> bool {
    matches!(event, Event::Reconnected)
}

async fn a_restart_with_nothing_heals(mut server: RedisServer) {
    let world = World::on(&server, slow());
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;

    server.kill();
    let started = Instant::now();
    g.apply_until_unreachable(join("ana", "ios")).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    server.restart();

    g.event_until(is_reconnected).await;
    assert_eq!(
        g.refresh(&["ana"]).await,
        [user("ana")],
        "it is empty, and the scripts are loaded again"
    );
    g.apply_until_taken(join("ana", "ios")).await;
    let told = g.heard("ana").await;
    assert_eq!(told.cause(), Some(Cause::Joined));
    assert!(g.look("ana").await.view.is_online());
    let flags = server.cli(&["CONFIG", "GET", "notify-keyspace-events"]);
    assert!(flags.contains('x'), "expired keys are told of again: {flags}");
}

#[tokio::test]
async fn a_redis_that_restarts_with_nothing_is_healed() {
    a_restart_with_nothing_heals(RedisServer::start()).await;
}

#[tokio::test]
async fn a_cluster_that_restarts_with_nothing_is_healed() {
    a_restart_with_nothing_heals(RedisServer::start_cluster()).await;
}

#[tokio::test]
async fn a_loss_that_had_to_wait_for_the_store_is_held_back_nonetheless() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let (waiting, other) = (world.gateway("waiting").await, world.gateway("other").await);
    waiting.join("ana", "ios").await;
    server.pause();
    waiting.apply_until_unreachable(join("bo", "ios")).await;
    server.resume();
    let long_ago = Claim { age: 2 * world.config.grace, ..leave("ana", Cause::Closed) };
    waiting.apply_until_taken(long_ago).await;
    let standing = other.look("ana").await;
    assert!(!standing.view.is_online() && standing.shown().is_online(), "{standing:?}");
    other.join("ana", "ios").await;
    assert!(waiting.look("ana").await.held.is_none(), "she was back elsewhere all the time");
}

#[tokio::test]
async fn a_bye_that_had_to_wait_for_the_store_gives_other_gateways_time() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let (waiting, other) = (world.gateway("waiting").await, world.gateway("other").await);
    waiting.join("ana", "ios").await;
    waiting.join("cy", "ios").await;
    server.pause();
    waiting.apply_until_unreachable(join("bo", "ios")).await;
    server.resume();
    let late = |name| Claim { age: Duration::from_secs(2), ..leave(name, Cause::Bye) };
    waiting.apply_until_taken(late("ana")).await;
    let held = other.look("ana").await.held.expect("she may be elsewhere");
    assert!(held.before.is_online() && held.remaining <= Duration::from_secs(4), "{held:?}");
    other.join("ana", "ios").await;
    assert!(waiting.look("ana").await.held.is_none(), "and she is");
    // A loss that is held back for longer is shown with the bye that explains it.
    waiting.apply(leave("cy", Cause::Closed)).await;
    waiting.apply(late("cy")).await;
    let held = other.look("cy").await.held.expect("cy may be elsewhere");
    assert!(held.remaining <= Duration::from_secs(4), "{held:?}");
}

/// Makes a call that waits in a paused Redis, for longer than is usual and not so long that it is given up.
async fn in_a_paused<T>(server: &RedisServer, call: impl Future<Output = T>) -> T {
    server.pause();
    let resume = async {
        sleep(Duration::from_millis(1300)).await;
        server.resume();
    };
    tokio::join!(call, resume).0
}

/// The sender of such a call could not know that the store was away.
#[tokio::test]
async fn a_call_that_waited_in_a_paused_redis_finds_nobody_offline() {
    let server = RedisServer::start();
    let world = World::on(&server, quick());
    let gateway = world.gateway("g").await;
    gateway.join("ana", "ios").await;
    let standing = in_a_paused(&server, gateway.look("ana")).await;
    assert!(standing.shown().is_online(), "{standing:?}");
}

#[tokio::test]
async fn a_bye_that_waited_in_a_paused_redis_gives_other_gateways_time() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let gateway = world.gateway("g").await;
    gateway.join("ana", "ios").await;
    in_a_paused(&server, gateway.leave("ana", Cause::Bye)).await;
    let standing = gateway.look("ana").await;
    assert!(!standing.view.is_online() && standing.shown().is_online(), "{standing:?}");
}

#[tokio::test]
async fn a_loss_whose_hold_ended_in_a_paused_redis_is_held_until_others_had_time() {
    let server = RedisServer::start();
    let world = World::on(&server, quick());
    let gateway = world.gateway("g").await;
    gateway.join("ana", "ios").await;
    gateway.leave("ana", Cause::Closed).await;
    let standing = in_a_paused(&server, async {
        // Asked when the hold is over, as relays do.
        sleep(world.config.grace).await;
        gateway.look("ana").await
    });
    let standing = standing.await;
    assert!(standing.shown().is_online(), "{standing:?}");
    gateway.look_until("it ends", "ana", |standing| standing.held.is_none()).await;
}

async fn heard_after_gap(g: &mut Gateway) {
    g.event_until(is_gap).await;
    g.join("bo", "ios").await;
    assert_eq!(g.heard("bo").await.cause(), Some(Cause::Joined));
}

async fn a_killed_subscriber_is_a_gap(server: RedisServer) {
    let world = World::on(&server, slow());
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;
    assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1");
    heard_after_gap(&mut g).await;
}

#[tokio::test]
async fn a_killed_subscriber_is_a_gap_and_events_go_on() {
    a_killed_subscriber_is_a_gap(RedisServer::start()).await;
}

#[tokio::test]
async fn a_killed_subscriber_of_a_cluster_is_a_gap_and_events_go_on() {
    a_killed_subscriber_is_a_gap(RedisServer::start_cluster()).await;
}

#[tokio::test]
async fn nothing_is_told_to_have_been_missed_when_nothing_was() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let mut g = world.gateway("g").await;
    for name in ["a", "b", "c"] {
        g.join(name, "ios").await;
        assert!(matches!(g.event().await, Event::Transitions(_)));
    }
}

#[tokio::test]
async fn a_killed_command_connection_is_a_reconnect() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    g.event_until(is_reconnected).await;
    g.apply_until_taken(join("bo", "ios")).await;
    g.heard("bo").await;
}

#[tokio::test]
async fn a_redis_that_hangs_is_unreachable_in_time_and_a_lapse_meanwhile_is_forgiven() {
    let server = RedisServer::start();
    let world = World::on(&server, Config { grace: Duration::from_millis(1), ..quick() });
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    let before = g.look("ana").await.view;

    server.pause();
    let started = Instant::now();
    g.apply_until_unreachable(join("bo", "ios")).await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    server.resume();

    let lapsed = eventually("a snapshot after the hang", PATIENCE, async || {
        g.store().snapshot(vec![user("ana")]).await.ok()
    })
    .await;
    assert_eq!(lapsed[0].shown(), &before, "the TTL and the grace are long over");
    assert!(!lapsed[0].view.is_online());
    g.event_until(is_reconnected).await;
    g.apply_until_taken(join("ana", "ios")).await;
    let back = g.look("ana").await;
    assert_eq!((back.view.since, back.held), (before.since, None));
}

/// A gateway that is stopped just when Redis is back cannot be told from one that died meanwhile. One that died before is not
/// waited for.
#[tokio::test]
async fn who_may_be_on_a_gateway_that_has_yet_to_tell_is_owed_the_grace_as_well() {
    let grace = Duration::from_secs(2);
    for (died_before, waits_for) in [(false, Duration::from_millis(1500)), (true, Duration::ZERO)] {
        let server = RedisServer::start();
        let world = World::on(&server, Config { grace, ..quick() });
        let (stopped, other) = (world.gateway("stopped").await, world.gateway("other").await);
        for name in ["ana", "bo"] {
            stopped.join(name, "ios").await;
        }
        other.join("bo", "web").await;
        let renew = async |gateway: &Gateway| gateway.store().renew().await.expect("it is renewed");
        let renewed = Instant::now();
        renew(&stopped).await;
        eventually("the other has renewed last", PATIENCE, async || {
            renew(&other).await;
            Some(()).filter(|()| !died_before || renewed.elapsed() > world.config.ttl / 2)
        })
        .await;
        server.pause();
        other.apply_until_unreachable(join("cy", "ios")).await;
        server.resume();
        let back = Instant::now();
        renew(&other).await;
        other.leave("bo", Cause::Bye).await;
        for name in ["ana", "bo"] {
            let standing = other.look(name).await;
            let held_for = back.elapsed() + standing.held.expect("it is held back").remaining;
            let expected = Duration::from_secs(4) + waits_for;
            assert!(
                held_for.abs_diff(expected) < Duration::from_millis(400),
                "{name}: {held_for:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_store_that_is_full_refuses_and_is_not_taken_for_lost() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let g = world.gateway("g").await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = g.store().apply(vec![join("ana", "ios")]).await.expect_err("it is full");
    assert!(matches!(error, presence::store::StoreError::Refused(_)), "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
}

#[tokio::test]
async fn dropping_a_store_ends_its_connections_and_its_events() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let Gateway { opened } = world.gateway("g").await;
    let connections =
        || server.cli(&["CLIENT", "LIST"]).lines().filter(|line| !line.is_empty()).count();
    assert_eq!(connections(), 3, "two of the store, and the one that asks");
    drop(opened.store);
    eventually("only the one that asks is left", PATIENCE, async || {
        Some(()).filter(|()| connections() == 1)
    })
    .await;
    let mut events = opened.events;
    assert!(events.recv().await.is_none());
}

/// The one that had trouble holds for longer than the others would, who must not show the loss meanwhile.
#[tokio::test]
async fn a_loss_that_is_held_for_trouble_is_held_for_everybody() {
    let server = RedisServer::start();
    let grace = Duration::from_millis(300);
    let world = World::on(&server, Config { grace, ..slow() });
    let (troubled, other) = (world.gateway("troubled").await, world.gateway("other").await);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    troubled.store().apply(vec![join("bo", "ios")]).await.expect_err("it is full");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    other.join("ana", "ios").await;
    other.leave("ana", Cause::Closed).await;
    troubled.leave("ana", Cause::Closed).await;
    let held = other.look("ana").await.held.expect("for a while");
    assert!(held.remaining > grace, "{held:?}");
}
