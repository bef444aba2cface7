//! Gateways fail: killed, stopped, restarted, and found dead by others who cannot all see it at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use presence_protocol::{ClientMessage, ErrorCode, Format, GatewayMessage};
use presence_testkit::{FaultyLink, RedisServer};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE, users};
use crate::crowd::{Crowd, TIMES};
use crate::house::{LATE_MAX, Times};
use crate::observer::Observer;
use crate::process::{Process, keys_of};

/// Renewals of the lease are so far apart, and the death of a gateway is known to within that.
const EARLY_MAX: Duration = Duration::from_millis(250);

async fn start(redis: &RedisServer, flags: &[&str]) -> Process {
    Process::start(redis, "p", TIMES, flags).await
}

#[tokio::test]
async fn the_users_of_two_gateways_killed_at_once_are_offline_on_time_and_nobody_else() {
    let redis = RedisServer::start();
    let gateways = [start(&redis, &[]).await, start(&redis, &[]).await, start(&redis, &[]).await];
    let mut crowd = Crowd::gather(gateways.iter().map(|gateway| gateway.addr)).await;
    let gone = [crowd.only_on(0), crowd.only_on(1)].concat();
    gateways[0].signal("KILL").await;
    gateways[1].signal("KILL").await;
    let dead = Instant::now();
    crowd.lose(0);
    crowd.lose(1);
    crowd.expect_truth().await;
    let lost = &crowd.observers[0].lost;
    for name in &gone {
        let after = lost[name] - dead;
        assert!(after + EARLY_MAX > TIMES.ttl + TIMES.grace, "{name} was offline after {after:?}");
    }
    assert_eq!(lost.len(), gone.len(), "{lost:?}");
}

#[tokio::test]
async fn a_gateway_that_was_stopped_for_long_has_its_users_online_again() {
    let redis = RedisServer::start();
    let gateways = [start(&redis, &[]).await, start(&redis, &[]).await];
    let mut crowd = Crowd::gather(gateways.iter().map(|gateway| gateway.addr)).await;
    crowd.expect_nobody_of(0);
    gateways[0].signal("STOP").await;
    // Some of its users give up, and connect to the other one.
    crowd.move_from(0).await;
    // Nobody vouches for the others.
    for name in crowd.only_on(0) {
        crowd.observers[1].observe_until_offline(&name).await;
    }
    gateways[0].signal("CONT").await;
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn who_comes_back_to_a_gateway_that_was_restarted_was_never_away() {
    let redis = RedisServer::start();
    let mut gateways = [start(&redis, &[]).await, start(&redis, &[]).await];
    let mut crowd = Crowd::gather(gateways.iter().map(|gateway| gateway.addr)).await;
    let addr = gateways[0].addr;
    gateways[0].signal("KILL").await;
    let _ = gateways[0].exit_within(PATIENCE).await;
    let dead = Instant::now();
    crowd.lose(0);
    gateways[0] = start(&redis, &[&format!("--listen={addr}")]).await;
    crowd.come_back(0).await;
    crowd.expect_truth().await;
    crowd.observe_for((TIMES.ttl + TIMES.grace + LATE_MAX).saturating_sub(dead.elapsed())).await;
    let lost: Vec<_> = crowd.observers[0].lost.keys().cloned().collect();
    assert_eq!(lost, ["leaves0", "leaves2"], "who did not come back");
    crowd.expect_truth().await;
}

/// One of two survivors loses its way to Redis as the third gateway dies.
#[tokio::test]
async fn survivors_that_cannot_all_see_a_death_end_at_the_truth() {
    let redis = RedisServer::start();
    let link = FaultyLink::to(redis.port());
    let cut = start(&redis, &[&format!("--redis-url={}", link.redis_url())]).await;
    let (healthy, dying) = (start(&redis, &[]).await, start(&redis, &[]).await);
    let mut crowd = Crowd::gather([cut.addr, healthy.addr, dying.addr]).await;
    let gone = crowd.only_on(2);
    // It is taken for dead as well.
    crowd.expect_nobody_of(0);
    link.deafen();
    dying.signal("KILL").await;
    crowd.lose(2);
    for name in &gone {
        crowd.observers[1].observe_until_offline(name).await;
        assert!(crowd.observers[0].sees_online(name), "it cannot know of {name}");
    }
    link.hear();
    crowd.expect_healed(Instant::now()).await;
}

/// Redis and one gateway were restarted at once, and the other gateway has yet to find out.
#[tokio::test]
async fn a_gateway_that_is_new_to_an_empty_redis_waits_for_those_that_live() {
    let mut redis = RedisServer::start();
    let living = start(&redis, &[]).await;
    let _ana = Client::join(living.addr, Format::Json, "ana").await;
    living.signal("STOP").await;
    redis.kill();
    redis.restart();
    let fresh = start(&redis, &[]).await;
    let mut observer = Observer::join(fresh.addr, 0).await;
    let ana = ["ana".to_owned()];
    tokio::join!(observer.watch(&ana), living.signal("CONT"));
    assert!(observer.sees_online("ana"));
}

/// It must not take its own stop for one of Redis, in which nobody could vouch.
#[tokio::test]
async fn a_gateway_that_was_stopped_finds_the_dead_on_time() {
    const STOP: Duration = Duration::from_millis(1700);
    // After Redis was stopped, losses would be held for four seconds.
    const HELD: Duration = Duration::from_secs(4);
    let redis = RedisServer::start();
    // The first of them, since whoever has only just come does not count for Redis being there.
    let _living = start(&redis, &[]).await;
    let (dying, stopped) = (start(&redis, &[]).await, start(&redis, &[]).await);
    let _ana = Client::join(dying.addr, Format::Json, "ana").await;
    let mut observer = Observer::join(stopped.addr, 0).await;
    observer.watch(&["ana".to_owned()]).await;
    dying.signal("KILL").await;
    let dead = Instant::now();
    stopped.signal("STOP").await;
    tokio::time::sleep_until(dead + STOP).await;
    stopped.signal("CONT").await;
    observer.observe_until_offline("ana").await;
    let after = dead.elapsed();
    assert!(after < STOP + HELD, "{after:?} after the death");
}

/// What it had sent may wait in a stopped Redis, and vouch for its part of a user after it was looked for in vain.
#[tokio::test]
async fn what_vouches_for_a_dead_gateway_after_its_lease_is_not_forgotten() {
    let redis = RedisServer::start();
    let dying = start(&redis, &[]).await;
    let id = redis.cli(&["HKEYS", "p:leases"]);
    let id = id.lines().find(|name| !name.starts_with('@')).expect("its lease").to_owned();
    let living = start(&redis, &[]).await;
    let mut phone = Client::dial(dying.addr, Format::Json).await;
    phone.hello_from("ana", "ios").await;
    let mut laptop = Client::dial(living.addr, Format::Json).await;
    laptop.hello_from("ana", "web").await;
    let mut observer = Observer::join(living.addr, 0).await;
    observer.watch(&["ana".to_owned()]).await;
    dying.signal("KILL").await;
    let [key, _] = keys_of("p", "ana").await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let until = now + TIMES.ttl + TIMES.grace + Duration::from_millis(700);
    let vouchers = key.replace("user:ana", "gateways");
    redis.cli(&["HSET", &vouchers, &id, &until.as_millis().to_string()]);
    let dead = Instant::now();
    while observer.devices("ana") != ["web"] {
        assert!(dead.elapsed() < 2 * PATIENCE, "the phone is still shown");
        let step = Duration::from_millis(50);
        tokio::join!(observer.observe_for(step), laptop.next_within(step));
    }
}

/// Redis lost everything while a gateway was stopped, and nobody on the other has seen its users before.
#[tokio::test]
async fn whom_a_gateway_has_yet_to_tell_of_nobody_is_told_is_offline() {
    const TTL: Times = Times { ttl: Duration::from_secs(10), ..TIMES };
    // By then whoever is there has told an empty Redis of its users.
    const STOP: Duration = Duration::from_secs(4);
    let mut redis = RedisServer::start();
    let stopped = Process::start(&redis, "p", TTL, &[]).await;
    let asked = Process::start(&redis, "p", TTL, &[]).await;
    let _ana = Client::join(stopped.addr, Format::Json, "ana").await;
    let _cy = Client::join(asked.addr, Format::Json, "cy").await;
    let mut bo = Client::join(asked.addr, Format::Json, "bo").await;
    stopped.signal("STOP").await;
    redis.kill();
    redis.restart();
    let restarted = Instant::now();
    let goes_on = async {
        tokio::time::sleep_until(restarted + STOP).await;
        stopped.signal("CONT").await;
    };
    let told = async {
        let users = users(["ana", "cy"]);
        let answer = bo.ask(|id| ClientMessage::Watch { users, id, grant: None }).await;
        assert_eq!(answer.unwrap_err().code, ErrorCode::StoreUnavailable);
        let mut told = Vec::new();
        while told.len() < 2 {
            if let GatewayMessage::Presence { users } = bo.next().await.message {
                told.extend(users.iter().map(|s| (s.user.to_string(), s.state.as_str())));
            }
        }
        told
    };
    let (told, ()) = tokio::join!(told, goes_on);
    // Whoever can be told of is not kept waiting.
    assert_eq!(told, [("cy".to_owned(), "online"), ("ana".to_owned(), "online")]);
}
