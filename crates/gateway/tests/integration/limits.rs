//! Each limit on sockets and sessions, hit on purpose: the answer, the count, and those who came before see nothing of it.

use std::time::Duration;

use futures::future::join_all;
use presence_protocol::{ClientMessage, Device, ErrorCode, Format, GatewayMessage};
use presence_testkit::eventually;
use tokio::time::{Instant, timeout};

use crate::app::{App, Mood};
use crate::client::{Client, PATIENCE, names, users};
use crate::dial::Dial;
use crate::house::{House, Kind, OPEN, SLOW};
use crate::http::{get, metric, refused_upgrade, until_online};
use crate::peace::Peace;
use crate::process::Process;
use crate::raw::Raw;

/// A gateway with the embedded store, on which nothing lapses.
async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, &[&[OPEN], flags].concat()).await
}

async fn refused(gateway: &House, why: &str) -> Option<u64> {
    metric(gateway.here(), &format!("presence_refused_connections_total{{why=\"{why}\"}}")).await
}

async fn closed(gateway: &House, reason: &str) -> Option<u64> {
    metric(gateway.here(), &format!("presence_closes_total{{reason=\"{reason}\"}}")).await
}

async fn refused_messages(gateway: &House, code: &str) -> Option<u64> {
    metric(gateway.here(), &format!("presence_refused_messages_total{{code=\"{code}\"}}")).await
}

#[tokio::test]
async fn a_socket_too_many_is_refused_with_a_time_to_come_back_and_one_that_leaves_makes_room() {
    let gateway = gateway(&["--max-connections=2"]).await;
    let mut first = Client::join(gateway.here(), Format::Json, "a").await;
    first.watch(["b"]).await;
    let second = Client::join(gateway.here(), Format::Json, "b").await;
    first.expect_online("b").await;

    let answer = refused_upgrade(gateway.here(), &[]).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("as many connections as it may have"), "{answer:?}");
    assert!(answer.head.contains("connection: close"), "{answer:?}");
    let retry_after = answer.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
    let retry_after: u32 = retry_after.and_then(|seconds| seconds.parse().ok()).expect("seconds");
    assert!((1..=10).contains(&retry_after), "{answer:?}");
    assert_eq!(refused(&gateway, "connections").await, Some(1));
    // Probes and metrics are answered all the same: a full gateway is not to be restarted.
    assert_eq!(get(gateway.here(), "/healthz").await.status, 200);
    let ready = get(gateway.here(), "/readyz").await;
    assert_eq!(ready.status, 503, "{ready:?}");

    second.bye().await;
    first.expect_offline("b").await;
    let has_room = async || (get(gateway.here(), "/readyz").await.status == 200).then_some(());
    eventually("there is room", PATIENCE, has_room).await;
    let _third = Client::join(gateway.here(), Format::Json, "b").await;
    first.expect_online("b").await;
}

/// Each socket is a file: whoever comes when there are no more would be left without an answer.
#[tokio::test]
async fn a_gateway_takes_no_more_connections_than_it_may_have_open_files() {
    let gateway =
        Process::launch_with_open_files(164, [SLOW.flags(), vec![OPEN.to_owned()]].concat()).await;
    let is_told = gateway.said.iter().any(|line| line.contains("at most 97 connections"));
    assert!(is_told, "{:?}", gateway.said);
    let join = async |number| Client::join(gateway.addr, Format::Json, &format!("u{number}")).await;
    // Besides 64 files for other things, and one in 32 for those who are refused.
    let _clients = join_all((0..97).map(join)).await;
    let answer = refused_upgrade(gateway.addr, &[]).await;
    assert_eq!(answer.status, 503, "{answer:?}");
}

#[tokio::test]
async fn of_a_users_sessions_the_oldest_gives_way_to_one_too_many() {
    let gateway = gateway(&["--max-sessions-per-user=2"]).await;
    let mut watcher = Client::join(gateway.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut sessions = Vec::new();
    for device in ["one", "two"] {
        let mut session = Client::dial(gateway.here(), Format::MsgPack).await;
        session.hello_from("b", device).await;
        sessions.push(session);
        watcher.expect_online("b").await;
    }
    let mut third = Client::dial(gateway.here(), Format::MsgPack).await;
    third.hello_from("b", "three").await;
    let sentence = sessions[0].expect_close(4008).await;
    assert!(sentence.contains("oldest"), "{sentence}");
    assert_eq!(closed(&gateway, "replaced").await, Some(1));
    // It is one change, in which the user was never away.
    let push = watcher.expect_online("b").await;
    let devices: Vec<_> = push.state.devices.iter().map(Device::as_str).collect();
    assert_eq!(devices, ["three", "two"]);
    sessions[1].fence().await;
    third.fence().await;
    assert_eq!(metric(gateway.here(), "presence_sessions").await, Some(3));
}

#[tokio::test]
async fn or_the_newest_of_a_users_sessions_is_refused() {
    let gateway = gateway(&["--max-sessions-per-user=2", "--sessions-over=newest"]).await;
    let mut first = Client::join(gateway.here(), Format::Json, "b").await;
    let second = Client::join(gateway.here(), Format::Json, "b").await;
    let mut third = Client::dial(gateway.here(), Format::Json).await;
    third.send_text(r#"{"type":"hello","user":"b"}"#);
    let sentence = third.expect_close(4009).await;
    assert!(sentence.contains("too many sessions"), "{sentence}");
    assert_eq!(closed(&gateway, "too_many_sessions").await, Some(1));
    first.fence().await;
    second.bye().await;
    Client::join(gateway.here(), Format::Json, "b").await.fence().await;
    until_online(gateway.here(), "b").await;
}

#[tokio::test]
async fn who_makes_no_progress_in_a_handshake_keeps_others_out_for_a_moment_only() {
    let mut peace = Peace::new(&["--max-handshakes=4", "--http-timeout=20s"]).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(Raw::connect(peace.gateway.addr).await);
    }
    // Whoever is in already notices nothing. Whoever comes now waits for a place, though not for 20 s: the later two had a
    // fifth of their time.
    peace.push().await;
    let late = Client::join(peace.gateway.addr, Format::Json, "late");
    let late = timeout(PATIENCE, late).await;
    late.expect("a place is free long before that").fence().await;
    let late = "presence_refused_connections_total{why=\"late\"}";
    assert!(peace.count(late).await >= 1, "somebody had to go");
    assert!(peace.count("presence_accept_pauses_total{why=\"handshakes\"}").await > 0);
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn connections_that_come_too_fast_wait_their_turn_and_all_come_in() {
    let gateway = gateway(&["--handshake-rate=50"]).await;
    let before = Instant::now();
    let names = names(100);
    let join = |name| Client::join(gateway.here(), Format::Json, name);
    let clients = join_all(names.iter().map(|name| join(name))).await;
    // Some may come at once, and the rest at the rate.
    assert!(before.elapsed() > Duration::from_millis(1_500), "{:?}", before.elapsed());
    for mut client in clients {
        client.fence().await;
    }
    let pauses = metric(gateway.here(), "presence_accept_pauses_total{why=\"rate\"}").await;
    assert!(pauses.is_some_and(|pauses| pauses > 0), "{pauses:?}");
}

#[tokio::test]
async fn pages_of_another_host_may_not_connect_unless_they_are_listed() {
    let foreign = "origin: https://elsewhere.test".to_owned();
    let here = gateway(&[]).await;
    let answer = refused_upgrade(here.here(), &[foreign]).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.body.contains("allowed_origins"), "{answer:?}");
    assert_eq!(refused(&here, "origin").await, Some(1));
    let ask = |addr, origin| async move { Raw::ask(addr, b"", &[origin]).await.0 };
    assert_eq!(ask(here.here(), "origin: https://gateway.test").await, 101);
    assert_eq!(ask(here.here(), "x-no-origin: at all").await, 101);

    let listed = gateway(&["--allowed-origins=https://elsewhere.test"]).await;
    assert_eq!(ask(listed.here(), "origin: https://elsewhere.test").await, 101);
    assert_eq!(ask(listed.here(), "origin: https://gateway.test").await, 403);
    let any = gateway(&["--allowed-origins=*"]).await;
    assert_eq!(ask(any.here(), "origin: null").await, 101);
}

#[tokio::test]
async fn answers_for_who_does_not_read_are_dropped_beyond_their_bytes_and_counted() {
    let flags = ["--max-unsent-bytes=16KiB", "--max-frame-bytes=1MiB", "--write-timeout=1m"];
    let gateway = gateway(&flags).await;
    let mut slow = Dial::new(gateway.here()).receive_buffer(4096).open().await;
    slow.hello("slow").await;
    // Whom it watches it is answered of at once, by about 170 KB each time.
    let names: Vec<String> = (0..1000).map(|number| format!("{number:0>128}")).collect();
    slow.watch(&names).await;
    slow.freeze().await;
    for _ in 0..20 {
        slow.send(&ClientMessage::Query { users: users(&names), id: None, grant: None });
    }
    let dropped = async || {
        let dropped = metric(gateway.here(), "presence_answers_dropped_total").await;
        dropped.filter(|dropped| *dropped > 0)
    };
    eventually("answers are dropped", PATIENCE, dropped).await;
    // States are not: they are owed until it reads.
    let _changed = Client::join(gateway.here(), Format::Json, &names[7]).await;
    slow.wake().await;
    loop {
        if let GatewayMessage::Presence { users } = slow.next().await.message {
            let changed = users.iter().find(|state| state.user.as_str() == names[7]);
            if changed.is_some_and(|state| state.state.as_str() == "online") {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_request_names_no_more_users_than_a_watch_list_holds() {
    let gateway = gateway(&["--max-watch=10"]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    let names = users(names(11));
    for request in [
        ClientMessage::Watch { users: names.clone(), id: None, grant: None },
        ClientMessage::Query { users: names.clone(), id: None, grant: None },
        ClientMessage::Unwatch { users: names.clone() },
    ] {
        client.send(&request);
        let error = client.expect_error(ErrorCode::TooManyWatches).await;
        assert!(error.message.contains("at most 10 users at a time, 11"), "{}", error.message);
    }
    assert_eq!(refused_messages(&gateway, "too_many_watches").await, Some(3));
    client.watch(["u1"]).await;
}

#[tokio::test]
async fn what_waits_for_the_apps_backend_names_no_more_users_than_what_waits_for_the_store() {
    let app = App::start().await;
    let flags = app.flags();
    let more = ["--max-watch=10", "--watch-callback-timeout=10s"];
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more).collect();
    let gateway = gateway(&flags).await;
    let mut client = Client::join(gateway.here(), Format::Json, "a").await;
    let query = |first: u32, len: u32| {
        let users = users((first..first + len).map(|number| format!("u{number}")));
        ClientMessage::Query { users, id: None, grant: None }
    };
    client.send(&query(0, 11));
    client.expect_error(ErrorCode::TooManyWatches).await;
    assert_eq!(app.calls().len(), 0);
    app.be(Mood::Holds);
    // One is asked about, and four are all that may wait.
    for number in 0..6 {
        client.send(&query(number * 10, 10));
    }
    client.expect_error(ErrorCode::RateLimited).await;
    assert_eq!(refused_messages(&gateway, "rate_limited").await, Some(1));
    app.be(Mood::Answers);
    client.fence().await;
    let asked: usize = app
        .calls()
        .iter()
        .map(|call| call["requests"][0]["watch"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(asked, 50);
}
