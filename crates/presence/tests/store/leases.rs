//! Leases in Redis: who is found dead, when its users fall due, and what an empty store is taken for.

use std::time::{Duration, Instant};

use presence::Config;
use presence::store::redis::keys_of;
use presence::store::{Cause, Lapse, Lease, LeaseState, Pulse, Standing};
use presence_testkit::{RedisServer, eventually};

use crate::world::{Gateway, Kind, PATIENCE, World, quick, shared_server, slow, user};

async fn renew(gateway: &Gateway) -> Pulse {
    gateway.store().renew().await.expect("the lease is renewed")
}

/// Renews one gateway's lease until it hears of a death.
async fn lapse_heard_by(gateway: &Gateway) -> Lapse {
    eventually("a death is heard of", PATIENCE, async || renew(gateway).await.lapsed.pop()).await
}

#[tokio::test]
async fn a_gateway_that_does_not_renew_is_found_dead_once() {
    let world = World::new(Kind::Redis, slow());
    let (living, dying) = (world.gateway("living").await, world.gateway("dying").await);
    let renewed = Instant::now();
    renew(&dying).await;
    assert_eq!(renew(&living).await.lapsed, [], "it lives still");

    let lapse = lapse_heard_by(&living).await;
    assert_eq!(lapse.gateway, "dying");
    // A lease counts from when its renewal was sent, by a clock that may be behind by a call.
    let age = renewed.elapsed() + Duration::from_millis(50);
    assert!(age > world.config.lease(), "{age:?}");
    let due = renewed.elapsed() + lapse.due_in;
    let expected = world.config.ttl + world.config.grace;
    assert!(due.abs_diff(expected) < Duration::from_secs(1), "{due:?}");
    assert_eq!(renew(&living).await.lapsed, [], "it is told once");
}

#[tokio::test]
async fn leases_tell_who_lives_until_they_are_given_up() {
    let world = World::new(Kind::Redis, slow());
    let (living, dying) = (world.gateway("living").await, world.gateway("dying").await);
    renew(&dying).await;
    renew(&living).await;
    let lease_of = |name: &str| -> Option<Lease> {
        living.store().leases().into_iter().find(|lease| lease.gateway == name)
    };
    for name in ["living", "dying"] {
        let lease = lease_of(name).expect("it has one");
        assert_eq!(lease.state, LeaseState::Good, "{lease:?}");
        assert!(lease.age < world.config.lease() && lease.held_for < PATIENCE, "{lease:?}");
    }
    let lapsed = eventually("its lease lapses", PATIENCE, async || {
        renew(&living).await;
        lease_of("dying").filter(|lease| lease.state == LeaseState::Lapsed)
    })
    .await;
    assert!(lapsed.age > world.config.lease() && lapsed.held_for >= lapsed.age, "{lapsed:?}");
    assert_eq!(lease_of("living").expect("it has one").state, LeaseState::Good);
    dying.store().release().await.expect("it is given up");
    renew(&living).await;
    assert_eq!(lease_of("dying"), None);
}

#[tokio::test]
async fn a_gateway_that_comes_back_and_dies_again_is_told_again() {
    let world = World::new(Kind::Cluster, slow());
    let (living, flaky) = (world.gateway("living").await, world.gateway("flaky").await);
    for had_lapsed in [false, true] {
        assert_eq!(renew(&flaky).await.lost, had_lapsed);
        assert_eq!(lapse_heard_by(&living).await.gateway, "flaky");
    }
}

#[tokio::test]
async fn the_users_of_a_dead_gateway_are_held_until_the_ttl_from_its_last_sign_of_life() {
    // The key expires long before the lease says that the user may be dead.
    let config = Config { ttl: Duration::from_secs(5), grace: Duration::from_secs(1), ..slow() };
    let world = World::new(Kind::Redis, config);
    let (living, dying) = (world.gateway("living").await, world.gateway("dying").await);
    dying.join("ana", "ios").await;
    let joined = Instant::now();
    let renewed = eventually("half a TTL has passed", PATIENCE, async || {
        renew(&dying).await;
        Some(Instant::now()).filter(|now| *now - joined > world.config.ttl / 2)
    })
    .await;
    lapse_heard_by(&living).await;
    let held =
        living.look_until("ana's key has expired", "ana", |standing| standing.held.is_some()).await;
    assert!(held.shown().is_online());
    let shown_until = renewed.elapsed() + held.held.expect("it is held back").remaining;
    let promised = world.config.ttl + world.config.grace;
    assert!(shown_until.abs_diff(promised) < Duration::from_millis(500), "{shown_until:?}");
}

#[tokio::test]
async fn a_paused_gateway_counts_as_alive_by_its_lease_though_nobody_vouched_for_longer() {
    let config = Config { ttl: Duration::from_secs(2), ..slow() };
    let world = World::new(Kind::Redis, config);
    let (living, paused) = (world.gateway("living").await, world.gateway("paused").await);
    paused.join("ana", "ios").await;
    living.join("ana", "web").await;
    let vouched = Instant::now();
    eventually("its vouch has lapsed", PATIENCE, async || {
        renew(&paused).await;
        living.refresh(&["ana"]).await;
        Some(()).filter(|()| vouched.elapsed() > world.config.ttl)
    })
    .await;
    lapse_heard_by(&living).await;
    living.leave("ana", Cause::Bye).await;
    let ana = living.look("ana").await;
    assert!(ana.view.is_online(), "its lease lapsed only just now: {ana:?}");
}

/// Without any trouble that a gateway could notice, as when Redis restarts between two calls.
#[tokio::test]
async fn a_bye_just_after_the_store_lost_everything_gives_other_gateways_time() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let (g, stopped) = (world.gateway("g").await, world.gateway("stopped").await);
    for gateway in [&g, &stopped] {
        renew(gateway).await;
        gateway.join("ana", "ios").await;
    }
    server.cli(&["FLUSHALL"]);
    assert!(renew(&g).await.lost);
    g.join("ana", "ios").await;
    g.leave("ana", Cause::Bye).await;
    let held = g.look("ana").await.held.expect("she may be elsewhere");
    let remaining = held.remaining;
    assert!(held.before.is_online() && remaining > Duration::from_secs(2), "{remaining:?}");
    stopped.join("ana", "ios").await;
    assert!(g.look("ana").await.held.is_none(), "and she is");
    // Later, a bye is a bye again.
    g.join("bo", "ios").await;
    eventually("all had time", PATIENCE, async || {
        g.join("bo", "ios").await;
        g.leave("bo", Cause::Bye).await;
        renew(&g).await;
        g.look("bo").await.held.is_none().then_some(())
    })
    .await;
}

/// Nobody vouched for the users of the gateway for long, and its lease is so old.
fn age_by(world: &World, gateway: &Gateway, vouch: Duration, lease: Duration) {
    let keys = keys_of(world.prefix(), &user("ana"));
    let (bucket, _) = keys.user.split_once(":user:").expect("a user's key");
    let ago = |age: Duration| (gateway.store().now_ms() - age.as_millis() as u64).to_string();
    let redis = shared_server(Kind::Redis);
    redis.cli(&["HSET", &format!("{bucket}:gateways"), gateway.store().gateway(), &ago(vouch)]);
    let leases = format!("{}:leases", world.prefix());
    redis.cli(&["HSET", &leases, gateway.store().gateway(), &ago(lease)]);
}

#[tokio::test]
async fn who_is_on_a_gateway_with_a_good_lease_is_not_lost_though_nobody_could_vouch() {
    let config = Config { grace: Duration::from_millis(1), ..slow() };
    let world = World::new(Kind::Redis, config);
    let living = world.gateway("living").await;
    living.join("ana", "ios").await;
    age_by(&world, &living, Duration::from_mins(5), Duration::ZERO);
    delete_key(&world);
    // It came when all was over, and knows of no trouble.
    let fresh = world.gateway("fresh").await;
    let ana = fresh.look("ana").await;
    assert!(ana.shown().is_online(), "{ana:?}");
    living.join("ana", "ios").await;
    assert_eq!(fresh.look("ana").await.held, None);
}

#[tokio::test]
async fn a_gateway_that_comes_after_a_death_hears_of_it() {
    let world = World::new(Kind::Redis, slow());
    let dead = world.gateway("dead").await;
    age_by(&world, &dead, Duration::from_mins(1), Duration::from_secs(20));
    let fresh = world.gateway("fresh").await;
    let lapsed = renew(&fresh).await.lapsed;
    assert_eq!(lapsed.iter().map(|lapse| lapse.gateway.as_str()).collect::<Vec<_>>(), ["dead"]);
    assert_eq!(renew(&fresh).await.lapsed, [], "and is told once");
}

/// A stopped Redis, of which one gateway tells the other that came too late to notice.
#[tokio::test]
async fn a_newcomer_forgives_what_happened_before_it_came() {
    let config = Config { grace: Duration::from_millis(1), ..slow() };
    let server = RedisServer::start();
    let world = World::on(&server, config);
    let living = world.gateway("living").await;
    living.join("ana", "ios").await;
    server.pause();
    for _ in 0..2 {
        living.store().renew().await.expect_err("nobody answers");
    }
    server.resume();
    eventually("it is there again", PATIENCE, async || living.store().renew().await.ok()).await;
    let fresh = world.gateway("fresh").await;
    renew(&fresh).await;
    // What expired meanwhile, with a gateway that is dead by now.
    let keys = keys_of(world.prefix(), &user("ana"));
    server.cli(&["HDEL", &keys.user.replace(":user:ana", ":gateways"), "living"]);
    server.cli(&["DEL", &keys.user]);
    let ana = fresh.look("ana").await;
    assert!(ana.shown().is_online(), "{ana:?}");
}

/// In a store that was just born all have just come, and each of them shows that it is there.
#[tokio::test]
async fn a_gateway_that_was_stopped_just_after_the_birth_of_a_store_is_not_taken_for_its_absence() {
    let world = World::new(Kind::Redis, slow());
    let stopped = world.gateway("stopped").await;
    renew(&stopped).await;
    let other = world.gateway("other").await;
    let since_ms = other.store().now_ms();
    eventually("longer than any gap that is none", PATIENCE, async || {
        renew(&other).await;
        (other.store().now_ms() > since_ms + 1_600).then_some(())
    })
    .await;
    renew(&stopped).await;
    let leases = format!("{}:leases", world.prefix());
    assert_eq!(shared_server(Kind::Redis).cli(&["HGET", &leases, "@away"]).trim(), "");
}

#[tokio::test]
async fn a_gateway_that_finds_all_others_late_waits_whether_they_live() {
    let config = Config { grace: Duration::from_millis(1), ..slow() };
    let world = World::new(Kind::Redis, config);
    let late = world.gateway("late").await;
    late.join("ana", "ios").await;
    age_by(&world, &late, Duration::from_mins(5), Duration::from_mins(5));
    delete_key(&world);
    let fresh = world.gateway("fresh").await;
    let ana = fresh.look("ana").await;
    assert!(ana.shown().is_online(), "{ana:?}");
    let gone = |standing: &Standing| !standing.shown().is_online();
    fresh.look_until("nobody came", "ana", gone).await;
}

fn delete_key(world: &World) {
    shared_server(Kind::Redis).cli(&["DEL", &keys_of(world.prefix(), &user("ana")).user]);
}

/// A call that waited in a stopped Redis may vouch for somebody who has left since.
#[tokio::test]
async fn the_part_of_a_dead_gateway_does_not_live_on_in_a_key_that_another_keeps_alive() {
    let world = World::new(Kind::Redis, slow());
    let (dead, other) = (world.gateway("dead").await, world.gateway("other").await);
    dead.join("ana", "ios").await;
    age_by(&world, &dead, Duration::from_mins(5), Duration::from_mins(5));
    renew(&other).await;
    assert!(other.refresh(&["ana"]).await.is_empty(), "the key is there");
    let ana = other.look("ana").await;
    assert!(!ana.view.is_online(), "{ana:?}");
}

#[tokio::test]
async fn the_part_of_a_dead_gateway_does_not_live_on_by_a_place_that_another_keeps() {
    let world = World::new(Kind::Redis, slow());
    let (dead, drained) = (world.gateway("dead").await, world.gateway("drained").await);
    dead.join("ana", "ios").await;
    drained.join("ana", "ios").await;
    drained.leave("ana", Cause::Drained).await;
    age_by(&world, &dead, Duration::from_mins(5), Duration::from_mins(5));
    renew(&drained).await;
    let ana = drained.look("ana").await;
    assert!(!ana.view.is_online() && ana.shown().is_online(), "held for the place: {ana:?}");
}

#[tokio::test]
async fn a_place_that_was_kept_for_longer_than_a_gateway_lived_is_no_life_of_the_user() {
    let world = World::new(Kind::Redis, slow());
    let (dead, closing) = (world.gateway("dead").await, world.gateway("closing").await);
    dead.join("ana", "ios").await;
    closing.join("ana", "ios").await;
    closing.leave("ana", Cause::Closed).await;
    let since = world.config.ttl + Duration::from_secs(30);
    age_by(&world, &dead, since, since);
    let server = shared_server(Kind::Redis);
    let now_secs: u64 = server.cli(&["TIME"]).lines().next().unwrap().parse().unwrap();
    let place = format!("left {}", 1_000 * now_secs - 1);
    server.cli(&["HSET", &keys_of(world.prefix(), &user("ana")).user, "closing", &place]);
    let other = world.gateway("other").await;
    renew(&other).await;
    let ana = other.look("ana").await;
    let remaining = ana.held.as_ref().map(|held| held.remaining);
    assert!(remaining.is_some_and(|left| left < Duration::from_secs(35)), "{ana:?}");
}

#[tokio::test]
async fn the_place_that_a_drained_gateway_kept_is_given_up_after_the_ttl() {
    let world = World::new(Kind::Redis, quick());
    let (drained, other) = (world.gateway("drained").await, world.gateway("other").await);
    drained.join("ana", "ios").await;
    other.join("ana", "web").await;
    drained.leave("ana", Cause::Drained).await;
    drained.store().release().await.expect("the lease is given up");
    other.leave("ana", Cause::Closed).await;
    let left = Instant::now();
    eventually("ana is gone", PATIENCE, async || {
        renew(&other).await;
        let shown = other.shown("ana").await;
        Some(()).filter(|()| !shown.is_online())
    })
    .await;
    let bound = world.config.ttl + world.config.grace + Duration::from_secs(1);
    assert!(left.elapsed() < bound, "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_gateway_that_gives_its_lease_up_is_not_found_dead() {
    let world = World::new(Kind::Redis, quick());
    let (living, leaving) = (world.gateway("living").await, world.gateway("leaving").await);
    leaving.store().release().await.expect("the lease is given up");
    let dying = world.gateway("dying").await;
    renew(&dying).await;
    assert_eq!(lapse_heard_by(&living).await.gateway, "dying", "and nobody before");
}

#[tokio::test]
async fn a_store_that_lost_the_lease_has_lost_everything() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let gateway = world.gateway("g").await;
    assert!(!renew(&gateway).await.lost, "the first time there is none");
    assert!(!renew(&gateway).await.lost);
    server.cli(&["FLUSHALL"]);
    assert!(renew(&gateway).await.lost);
    assert!(!renew(&gateway).await.lost);
}

#[tokio::test]
async fn gateways_that_have_not_found_out_that_all_was_lost_are_missing_until_they_do() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let (here, away) = (world.gateway("here").await, world.gateway("away").await);
    assert!(renew(&here).await.missing.is_empty());
    server.cli(&["FLUSHALL"]);
    let missing = renew(&here).await.missing;
    let until = missing.get("away").expect("it is missing");
    let left = until.duration_since(tokio::time::Instant::now());
    let promised = world.config.ttl + world.config.grace;
    assert!(left < promised && left + Duration::from_secs(5) > promised, "{left:?}");
    renew(&away).await;
    let missing = renew(&here).await.missing;
    let left = missing.get("away").map(|until| until.duration_since(tokio::time::Instant::now()));
    assert!(left < Some(Duration::from_secs(2)), "it needs a moment to tell: {left:?}");
}

#[tokio::test]
async fn a_user_without_trace_is_newer_after_the_store_lost_everything() {
    let server = RedisServer::start();
    let world = World::on(&server, slow());
    let gateway = world.gateway("g").await;
    gateway.join("ana", "ios").await;
    let seen = gateway.look("ana").await.view;
    server.cli(&["FLUSHALL"]);
    renew(&gateway).await;
    let lost = gateway.look("ana").await.view;
    assert!(lost.is_no_trace() && lost.version > seen.version, "{lost:?} after {seen:?}");
}

/// Her key is lost while she is on two gateways, of which one is dead already.
#[tokio::test]
async fn a_loss_waits_for_a_gateway_no_longer_than_that_may_live() {
    let config = Config { ttl: Duration::from_secs(6), grace: Duration::from_secs(1), ..slow() };
    let world = World::new(Kind::Redis, config);
    let (living, dying) = (world.gateway("living").await, world.gateway("dying").await);
    dying.join("ana", "ios").await;
    let joined = Instant::now();
    let (ttl, grace) = (world.config.ttl, world.config.grace);
    eventually("half a TTL has passed", PATIENCE, async || {
        renew(&living).await;
        (joined.elapsed() > ttl / 2).then_some(())
    })
    .await;
    living.join("ana", "ios").await;
    let key = keys_of(world.prefix(), &user("ana")).user;
    assert_eq!(shared_server(Kind::Redis).cli(&["DEL", &key]), "1");
    let held = living.look("ana").await.held.expect("both may have her still");
    assert!(held.remaining > ttl, "{held:?}");
    living.leave("ana", Cause::Bye).await;
    let held = living.look("ana").await.held;
    let left = (ttl + grace).saturating_sub(joined.elapsed());
    let remaining = held.map_or(Duration::ZERO, |held| held.remaining);
    assert!(remaining < left + Duration::from_millis(500), "{remaining:?} of {left:?}");
}
