//! Stopping: a gateway that drains sends its clients elsewhere without a flicker, ends in time, and one that is killed
//! leaves no ghosts.

use std::time::Duration;

use presence_protocol::{ClientMessage, Format, GatewayMessage, Hello};
use presence_testkit::{RedisServer, eventually};
use tokio::time::Instant;

use crate::client::{Client, PATIENCE, user};
use crate::house::{House, Kind, LATE_MAX, OPEN, QUICK, SLOW, Times, prefix, shared_redis};
use crate::http::{get, metric, refused_upgrade};
use crate::process::Process;

/// How soon a process has exited that has nothing to wait for.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long before its death a gateway may have shown its last sign of life.
const EARLY_MAX: Duration = Duration::from_millis(250);

/// Two processes on the shared Redis, and the prefix of their keys.
async fn two_processes(times: Times, drain: &str) -> (Process, Process, String) {
    let prefix = prefix();
    let drain = format!("--drain={drain}");
    let one = Process::start(shared_redis(), &prefix, times, &[&drain]).await;
    let other = Process::start(shared_redis(), &prefix, times, &[&drain]).await;
    (one, other, prefix)
}

async fn expect_draining(client: &mut Client) -> Duration {
    match client.next().await.message {
        GatewayMessage::Draining { reconnect_after_ms } => {
            Duration::from_millis(reconnect_after_ms)
        }
        other => panic!("draining was due, not {other:?}"),
    }
}

#[tokio::test]
async fn sigterm_sends_clients_elsewhere_and_nobody_who_comes_back_within_ttl_flickers() {
    let times = QUICK.ttl(Duration::from_secs(2));
    let (mut leaving, staying, _) = two_processes(times, "1s").await;
    let mut watcher = Client::join(staying.addr, Format::Json, "a").await;
    watcher.watch(["comes-back", "stays-away"]).await;
    let mut comes_back = Client::join(leaving.addr, Format::Json, "comes-back").await;
    watcher.expect_online("comes-back").await;
    let mut stays_away = Client::join(leaving.addr, Format::MsgPack, "stays-away").await;
    watcher.expect_online("stays-away").await;

    let before = Instant::now();
    leaving.signal("TERM").await;
    for client in [&mut comes_back, &mut stays_away] {
        let after = expect_draining(client).await;
        assert!(after <= Duration::from_secs(1), "{after:?} is beyond the drain time");
        client.expect_close(1012).await;
    }
    let closed = Instant::now();
    assert_eq!(leaving.exit_within(Duration::from_secs(2)).await.code(), Some(0));
    // Later than the grace, sooner than the TTL.
    tokio::time::sleep_until(closed + times.grace * 2).await;
    let _back = Client::join(staying.addr, Format::Json, "comes-back").await;

    let push = watcher.expect_offline("stays-away").await;
    assert!(push.at - before >= times.ttl, "{:?}: before TTL", push.at - before);
    let latest = times.ttl + times.grace + LATE_MAX;
    assert!(push.at - closed < latest, "{:?}: late", push.at - closed);
    watcher.expect_nothing_for(times.grace * 2).await;
}

#[tokio::test]
async fn a_second_sigterm_stops_at_once() {
    let (mut leaving, _staying, _) = two_processes(SLOW, "2m").await;
    let mut client = Client::join(leaving.addr, Format::Json, "b").await;
    leaving.signal("TERM").await;
    expect_draining(&mut client).await;
    client.expect_nothing_for(Duration::from_millis(100)).await;
    leaving.signal("TERM").await;
    assert_eq!(leaving.exit_within(AT_ONCE).await.code(), Some(0));
    client.end().await;
}

#[tokio::test]
async fn sigint_drains_as_sigterm_does() {
    let (mut leaving, _staying, _) = two_processes(SLOW, "200ms").await;
    let mut client = Client::join(leaving.addr, Format::Json, "b").await;
    leaving.signal("INT").await;
    expect_draining(&mut client).await;
    client.expect_close(1012).await;
    assert_eq!(leaving.exit_within(AT_ONCE).await.code(), Some(0));
}

#[tokio::test]
async fn the_end_of_the_drain_time_ends_the_process_whatever_waits() {
    let redis = RedisServer::start();
    let drain = "--drain=1s";
    let mut leaving = Process::start(&redis, "p", SLOW, &[drain]).await;
    let _client = Client::join(leaving.addr, Format::Json, "b").await;
    // Users who leave cannot be told of.
    redis.pause();
    let before = Instant::now();
    leaving.signal("TERM").await;
    assert_eq!(leaving.exit_within(Duration::from_secs(1) + AT_ONCE).await.code(), Some(0));
    assert!(before.elapsed() >= Duration::from_millis(500), "{:?}", before.elapsed());
    let over = async || leaving.log().into_iter().find(|line| line.contains("drain time is over"));
    let told = eventually("its last line", PATIENCE, over).await;
    assert!(told.contains("nobody is left"), "the only client is gone: {told}");
}

#[tokio::test]
async fn a_gateway_with_nobody_on_it_exits_at_once() {
    let (mut leaving, _staying, _) = two_processes(SLOW, "1s").await;
    leaving.signal("TERM").await;
    assert_eq!(leaving.exit_within(AT_ONCE).await.code(), Some(0));
}

#[tokio::test]
async fn everybody_is_closed_with_1012_however_much_they_talk() {
    let mut house = House::with(Kind::TwoOnRedis, SLOW, &[OPEN]).await;
    let mut clients = Vec::new();
    for number in 0..40 {
        clients.push(Client::join(house.here(), Format::Json, &format!("b{number}")).await);
    }
    let gone = house.drain_here(Duration::from_secs(1));
    for _ in 0..20 {
        clients.iter().for_each(Client::heartbeat);
    }
    for client in &mut clients {
        client.expect_close(1012).await;
    }
    tokio::time::timeout(PATIENCE, gone).await.expect("drained").expect("no panic");
}

#[tokio::test]
async fn while_draining_nobody_is_let_in_and_readiness_fails_but_health_does_not() {
    let mut house = House::with(Kind::OneEmbedded, SLOW, &[OPEN]).await;
    let mut client = Client::join(house.here(), Format::Json, "b").await;
    assert_eq!(get(house.here(), "/readyz").await.status, 200);
    let mut late = Client::dial(house.here(), Format::Json).await;
    let _gone = house.drain_here(Duration::from_mins(1));
    expect_draining(&mut client).await;
    assert_eq!(get(house.here(), "/readyz").await.status, 503);
    assert_eq!(get(house.here(), "/healthz").await.status, 200);
    let answer = refused_upgrade(house.here(), &[]).await;
    assert_eq!((answer.status, answer.body.as_str()), (503, "this gateway is draining\n"));
    // Who was connected, but not signed in, is sent away as well.
    late.send(&ClientMessage::Hello(Hello { user: Some(user("c")), ..Hello::default() }));
    late.expect_close(1012).await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_nobody_online_and_no_key_without_a_ttl() {
    let (killed, staying, prefix) = two_processes(QUICK, "1s").await;
    let redis = shared_redis();
    let mut watcher = Client::join(staying.addr, Format::Json, "a").await;
    let names = ["b0", "b1", "b2"];
    watcher.watch(names).await;
    let mut lost = Vec::new();
    for name in names {
        lost.push(Client::join(killed.addr, Format::Json, name).await);
        watcher.expect_online(name).await;
    }
    // On both, so still online.
    let _both = Client::join(staying.addr, Format::Json, "b0").await;
    killed.signal("KILL").await;
    let dead = Instant::now();
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let arrival = watcher.next().await;
        let GatewayMessage::Presence { users } = arrival.message else {
            panic!("presence was due, not {:?}", arrival.message);
        };
        let late = arrival.at - dead;
        let latest = QUICK.ttl + QUICK.grace + LATE_MAX;
        assert!(late >= QUICK.grace && late < latest, "{late:?} after the death: {users:?}");
        gone.extend(users.into_iter().map(|state| (state.user.to_string(), state.state.as_str())));
    }
    gone.sort();
    assert_eq!(gone, [("b1".to_owned(), "offline"), ("b2".to_owned(), "offline")]);
    watcher.expect_nothing_for(QUICK.grace).await;
    let expired = metric(staying.addr, "presence_expired_events_total").await;
    assert!(expired.is_some_and(|count| count >= 2), "{expired:?}");

    let keys = redis.cli(&["KEYS", &format!("{prefix}:*")]);
    assert!(keys.lines().count() > 3, "{keys}");
    for key in keys.lines() {
        let ttl: i64 = redis.cli(&["PTTL", key]).parse().expect("a number");
        assert!(ttl > 0 || ttl == -2, "{key} has the PTTL {ttl}");
    }
}

/// Redis expires keys late when many living ones have a TTL: with these, by tens of seconds.
const FILL: &str = "for i = 1, 50000 do redis.call('SET', 'other:' .. i, 1, 'PX', 600000) end";

#[tokio::test]
async fn the_users_of_a_killed_gateway_are_offline_on_time_however_many_keys_redis_holds() {
    let redis = RedisServer::start();
    redis.cli(&["EVAL", FILL, "0"]);
    let times = QUICK.ttl(Duration::from_secs(2)).grace(Duration::from_secs(1));
    let killed = Process::start(&redis, "p", times, &[]).await;
    let staying = Process::start(&redis, "p", times, &[]).await;
    let mut watcher = Client::join(staying.addr, Format::Json, "a").await;
    let names: Vec<String> = (0..30).map(|number| format!("b{number}")).collect();
    watcher.watch(names.iter().map(String::as_str)).await;
    let mut lost = Vec::new();
    for name in &names {
        lost.push(Client::join(killed.addr, Format::Json, name).await);
        watcher.expect_online(name).await;
    }
    killed.signal("KILL").await;
    let dead = Instant::now();
    let _back = Client::join(staying.addr, Format::Json, "b0").await;
    let mut gone = std::collections::BTreeSet::new();
    while gone.len() < names.len() - 1 {
        let arrival = watcher.next().await;
        let GatewayMessage::Presence { users } = arrival.message else {
            panic!("presence was due, not {:?}", arrival.message);
        };
        let late = arrival.at - dead;
        let due = times.ttl + times.grace;
        assert!(late + EARLY_MAX > due && late < due + LATE_MAX, "{late:?}");
        gone.extend(users.into_iter().map(|state| state.user.to_string()));
    }
    assert!(!gone.contains("b0"), "who is back elsewhere never went");
}
