//! The way to Redis fails: connections are reset, swallow everything, or are slow; for both gateways, or for one.

use std::time::Duration;

use presence_protocol::{Format, GatewayMessage};
use presence_testkit::{FaultyLink, RedisServer};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::crowd::{Crowd, TIMES};
use crate::house::{House, LATE_MAX, OPEN};
use crate::http;
use crate::outages::{expect_degraded, watched};

/// Longer than TTL and grace.
const LONG: Duration = Duration::from_millis(4500);

/// How much later changes come after a break, with some for a busy machine.
const BLIP_MAX: Duration = Duration::from_millis(1800);

/// So soon clients know that nothing is heard, with some for a busy machine.
const DEAF_MAX: Duration = Duration::from_secs(6);

/// Two gateways, each with a link of its own to one Redis.
async fn linked(redis: &RedisServer) -> (House, [FaultyLink; 2], Crowd) {
    let links = [FaultyLink::to(redis.port()), FaultyLink::to(redis.port())];
    let urls = [links[0].redis_url(), links[1].redis_url()];
    let house = House::on_urls(urls, TIMES, &[OPEN]).await;
    let crowd = Crowd::gather(house.addrs()).await;
    (house, links, crowd)
}

async fn metric_of_both(house: &House, name: &str) -> u64 {
    let mut sum = 0;
    for addr in house.addrs() {
        sum += http::metric(addr, name).await.expect("it is told");
    }
    sum
}

#[tokio::test]
async fn connections_that_are_reset_again_and_again_are_weathered() {
    let redis = RedisServer::start();
    let (house, links, mut crowd) = linked(&redis).await;
    for round in 0..12 {
        links[round % 2].reset();
        if round % 3 == 0 {
            redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        }
        if round == 7 {
            crowd.shuffle().await;
        }
        crowd.observe_for(Duration::from_millis(200)).await;
    }
    crowd.expect_healed(Instant::now()).await;
    assert!(metric_of_both(&house, "presence_reconnects_total").await > 0);
}

#[tokio::test]
async fn links_that_swallow_everything_are_weathered() {
    let redis = RedisServer::start();
    let (_house, links, mut crowd) = linked(&redis).await;
    links.iter().for_each(FaultyLink::deafen);
    crowd.expect_degraded(true).await;
    crowd.shuffle().await;
    crowd.observe_for(LONG).await;
    crowd.expect_bounded().await;
    links.iter().for_each(FaultyLink::hear);
    crowd.expect_healed(Instant::now()).await;
}

/// Each time what could not be told meanwhile is waited for, and never longer than that.
#[tokio::test]
async fn changes_come_in_time_though_connections_break_every_few_seconds() {
    let redis = RedisServer::start();
    let (house, links, _crowd) = linked(&redis).await;
    let (mut watcher, b, c) = watched(&house).await;
    let breaks = async {
        let mut times = tokio::time::interval(Duration::from_millis(2500));
        loop {
            times.tick().await;
            links.iter().for_each(FaultyLink::reset);
        }
    };
    let changes = async {
        // In the middle between two breaks, and right before one.
        sleep(Duration::from_secs(6)).await;
        let said = Instant::now();
        b.bye().await;
        let told = watcher.expect_offline("b").await.at;
        assert!(told - said < BLIP_MAX, "a sign-out: {:?}", told - said);
        sleep(Duration::from_millis(1250)).await;
        let closed = Instant::now();
        drop(c);
        let told = watcher.expect_offline("c").await.at;
        assert!(told - closed < TIMES.grace + BLIP_MAX, "a loss: {:?}", told - closed);
        watcher.fence().await;
    };
    tokio::select! {
        () = breaks => {}
        () = changes => {}
    }
}

#[tokio::test]
async fn connections_that_never_last_for_a_second_are_told_of() {
    let redis = RedisServer::start();
    let (house, links, mut crowd) = linked(&redis).await;
    let mut told = Client::join(house.here(), Format::Json, "told").await;
    let breaks = async {
        loop {
            links.iter().for_each(FaultyLink::reset);
            sleep(Duration::from_millis(400)).await;
        }
    };
    tokio::select! {
        () = breaks => {}
        is_degraded = expect_degraded(&mut told) => assert!(is_degraded),
    }
    crowd.expect_healed(Instant::now()).await;
    assert!(!expect_degraded(&mut told).await);
}

/// As when no more connections are let in, or when what subscribes is not let through.
#[tokio::test]
async fn a_subscription_that_cannot_be_made_again_is_told_of_until_it_can() {
    let redis = RedisServer::start();
    let link = FaultyLink::to(redis.port());
    let house = House::on_urls([link.redis_url(), redis.url()], TIMES, &[OPEN]).await;
    let (mut watcher, b, _c) = watched(&house).await;
    link.hang_up_on(Some("SUBSCRIBE"));
    redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let broken = Instant::now();
    assert!(expect_degraded(&mut watcher).await);
    assert!(broken.elapsed() < DEAF_MAX, "{:?}", broken.elapsed());
    let ready = http::get(house.here(), "/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("is not heard"), "{}", ready.body);
    assert_eq!(http::get(house.there(), "/readyz").await.status, 200);
    assert!(http::metric(house.here(), "presence_gaps_total").await.expect("it is told") > 0);
    let tried = link.hung_up();
    watcher.expect_nothing_for(Duration::from_secs(4)).await;
    let tried = link.hung_up() - tried;
    assert!((1..=5).contains(&tried), "{tried} attempts in 4 s");
    b.bye().await;
    link.hang_up_on(None);
    let (mut over, mut told) = (false, false);
    while !(over && told) {
        match watcher.next().await.message {
            GatewayMessage::Degraded { since } => over = since.is_none(),
            GatewayMessage::Presence { users } => told = users[0].user.as_str() == "b",
            other => panic!("not expected: {other:?}"),
        }
    }
    assert_eq!(http::get(house.here(), "/readyz").await.status, 200);
}

/// 300 ms a call on average, and half of that for every event.
#[tokio::test]
async fn a_slow_redis_is_no_outage() {
    let redis = RedisServer::start();
    let (_house, links, mut crowd) = linked(&redis).await;
    for link in &links {
        link.delay(Duration::from_millis(100), Duration::from_millis(100));
    }
    crowd.observe_for(TIMES.ttl).await;
    crowd.shuffle().await;
    crowd.observe_for(TIMES.ttl + TIMES.grace).await;
    // Joins, moves and losses are told meanwhile.
    crowd.expect_truth().await;
    assert!(crowd.observers.iter().all(|observer| observer.degraded_told == 0));
    for link in &links {
        link.delay(Duration::ZERO, Duration::ZERO);
    }
    crowd.expect_healed(Instant::now()).await;
}

/// A gateway that is cut off alone cannot be told from a dead one: its users may be shown offline after TTL and grace,
/// until it is back.
#[tokio::test]
async fn a_gateway_that_is_cut_off_alone_is_taken_for_dead_and_comes_back() {
    let redis = RedisServer::start();
    let (_house, links, mut crowd) = linked(&redis).await;
    crowd.expect_nobody_of(0);
    links[0].deafen();
    let cut = Instant::now();
    crowd.observers[0].observe_until_degraded(true).await;
    crowd.shuffle().await;
    crowd.expect_nobody_of(0);
    crowd.observe_for((TIMES.ttl + TIMES.grace + LATE_MAX).saturating_sub(cut.elapsed())).await;
    let [cut_off, other] = &crowd.observers[..] else { panic!("there are two") };
    assert!(!other.sees_online("stays0"), "nobody vouched for it");
    assert!(other.sees_online("stays1") && other.sees_online("everywhere"));
    assert_eq!(other.degraded_told, 0);
    assert!(cut_off.sees_online("stays1"), "the last known state");
    links[0].hear();
    crowd.expect_healed(Instant::now()).await;
}

#[tokio::test]
async fn no_change_is_lost_by_a_subscriber_that_is_killed_again_and_again() {
    let redis = RedisServer::start();
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    let end = Instant::now() + Duration::from_secs(3);
    let kills = async {
        while Instant::now() < end {
            redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            sleep(Duration::from_millis(200)).await;
        }
    };
    let churn = async {
        while Instant::now() < end {
            crowd.churn().await;
        }
    };
    tokio::join!(kills, churn);
    crowd.expect_healed(Instant::now()).await;
    assert!(metric_of_both(&house, "presence_gaps_total").await > 5);
}

#[tokio::test]
async fn no_change_is_lost_when_redis_drops_a_subscriber_that_is_slow() {
    let redis = RedisServer::start();
    redis.cli(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 32kb 16kb 1"]);
    let house = House::on(&redis, TIMES, &[OPEN]).await;
    let mut crowd = Crowd::gather(house.addrs()).await;
    let end = Instant::now() + Duration::from_secs(3);
    // So much at once of what all listen to, and pass over, that it does not fit.
    let flood = "for i = 1, 20 do redis.call('PUBLISH', KEYS[1], string.rep('x', 5000)) end";
    let floods = async {
        while Instant::now() < end {
            redis.cli(&["EVAL", flood, "1", "__keyevent@0__:expired"]);
            sleep(Duration::from_millis(300)).await;
        }
    };
    let churn = async {
        while Instant::now() < end {
            crowd.churn().await;
        }
    };
    tokio::join!(floods, churn);
    crowd.expect_healed(Instant::now()).await;
    // Where calls had to wait as well, a reconnect includes the gap.
    let gaps = metric_of_both(&house, "presence_gaps_total").await;
    assert!(gaps + metric_of_both(&house, "presence_reconnects_total").await > 0);
}

/// As when a firewall forgets it: it stays open, nothing comes through it any more, and calls work all the time.
#[tokio::test]
async fn a_subscription_that_died_without_a_word_is_replaced() {
    let redis = RedisServer::start();
    let (_house, links, mut crowd) = linked(&redis).await;
    // A gateway opens the connection that hears after the one for calls.
    for link in &links {
        link.forget(1);
    }
    let died = Instant::now();
    crowd.shuffle().await;
    // It is asked for a sign of life every five seconds, and has two for that.
    crowd.expect_healed(died + Duration::from_secs(7)).await;
    assert!(crowd.observers.iter().all(|observer| observer.degraded_told == 0));
}
