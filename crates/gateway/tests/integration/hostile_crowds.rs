//! Hostile crowds, and single peers that cost as much: whoever was there before sees every push in time and no error, and
//! the gateway's memory stays within a bound.

use std::collections::VecDeque;
use std::time::Duration;

use futures::future::join_all;
use presence_protocol::{ClientMessage, Format, Show, Status};

use crate::client::{Client, PATIENCE, names, users};
use crate::dial::Dial;
use crate::http::metric;
use crate::peace::Peace;
use crate::raw::Raw;

/// Far less than any of these would take if it were kept.
const GROWN_MAX: u64 = 96 << 20;

#[tokio::test]
async fn requests_that_come_byte_by_byte_end_and_others_come_in_beside_them() {
    let mut peace = Peace::new(&["--max-handshakes=128", "--http-timeout=2s"]).await;
    let addr = peace.gateway.addr;
    let drip = move |number: usize| async move {
        let mut raw = Raw::connect(addr).await;
        for byte in b"GET /ws HTTP/1.1\r\nhost: x\r\nx-slow: xxxxxxxxxxxxxxxxxxxxxxx" {
            raw.write(&[*byte]).await;
            tokio::time::sleep(Duration::from_millis(100 + number as u64 % 7)).await;
        }
    };
    let attack = tokio::spawn(async move { join_all((0..500).map(drip)).await });
    for number in 0..10 {
        peace.push().await;
        let mut newcomer = Client::join(addr, Format::Json, &format!("n{number}")).await;
        newcomer.fence().await;
        newcomer.bye().await;
    }
    attack.abort();
    peace.assert_grown_at_most(GROWN_MAX).await;
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn a_thousand_sockets_that_say_nothing_are_all_let_go() {
    let mut peace = Peace::new(&["--http-timeout=2s", "--hello-timeout=2s"]).await;
    let addr = peace.gateway.addr;
    let idle = join_all((0..1_000).map(|_| Raw::connect(addr))).await;
    let silent = join_all((0..500).map(|_| Raw::upgraded(addr))).await;
    peace.push().await;
    // The two, and nobody else. The request for this is a handshake itself.
    peace.until("presence_connections", 2).await;
    peace.until("presence_handshakes", 1).await;
    drop((idle, silent));
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn thousands_who_connect_and_drop_leave_nothing() {
    let mut peace = Peace::new(&[]).await;
    let addr = peace.gateway.addr;
    for round in 0..20 {
        let knock = |number: usize| async move {
            let mut raw = Raw::connect(addr).await;
            match number % 3 {
                0 => {}
                1 => raw.write(b"GET /ws HT").await,
                _ => drop(Raw::joined(addr, &format!("k{number}")).await),
            }
        };
        join_all((0..150).map(knock)).await;
        if round % 5 == 0 {
            peace.push().await;
        }
    }
    peace.until("presence_connections", 2).await;
    peace.until("presence_handshakes", 1).await;
    peace.assert_grown_at_most(GROWN_MAX).await;
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn one_user_with_ten_thousand_sessions_has_a_hundred() {
    let mut peace = Peace::new(&[]).await;
    let addr = peace.gateway.addr;
    let mut watcher = Client::join(addr, Format::Json, "another watcher").await;
    watcher.watch(["many"]).await;
    let mut kept = VecDeque::new();
    for round in 0..100 {
        kept.extend(join_all((0..100).map(|_| Raw::joined(addr, "many"))).await);
        // Those that the gateway has closed.
        kept.drain(..kept.len().saturating_sub(200));
        if round % 10 == 0 {
            peace.push().await;
        }
    }
    watcher.expect_online("many").await;
    watcher.expect_nothing_for(Duration::from_millis(50)).await;
    let replaced = "presence_closes_total{reason=\"replaced\"}";
    peace.until("presence_sessions", 103).await;
    assert!(peace.count(replaced).await > 9_000, "{}", peace.count(replaced).await);
    peace.assert_grown_at_most(GROWN_MAX).await;
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn one_user_whom_all_watch_and_none_of_them_reads() {
    let mut peace = Peace::new(&[]).await;
    let addr = peace.gateway.addr;
    let watch = ClientMessage::Watch { users: users(["friend"]), id: None, grant: None };
    let names = names(1_000);
    let mut crowd = Vec::new();
    for part in names.chunks(100) {
        let join = part.iter().map(async |name| {
            let mut raw = Raw::joined(addr, name).await;
            raw.say(&watch).await;
            raw
        });
        crowd.extend(join_all(join).await);
    }
    peace.until("presence_watches", 1_001).await;
    for _ in 0..25 {
        peace.push().await;
    }
    peace.assert_grown_at_most(GROWN_MAX).await;
    drop(crowd);
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn a_reader_that_never_reads_is_owed_no_more_while_a_thousand_users_churn() {
    let mut peace = Peace::new(&["--write-timeout=3s"]).await;
    let addr = peace.gateway.addr;
    let names = names(1_000);
    let mut slow = Dial::new(addr).receive_buffer(4096).open().await;
    slow.hello("slow").await;
    slow.watch(&names).await;
    slow.freeze().await;
    let mut churning = Vec::new();
    for part in names.chunks(100) {
        churning.extend(join_all(part.iter().map(|name| Raw::joined(addr, name))).await);
    }
    let text = "x".repeat(200);
    for round in 0..40 {
        let look = if round % 2 == 0 { Show::Away } else { Show::Busy };
        let text = presence_protocol::StatusText::new(&text).expect("a text");
        let status = ClientMessage::Status(Status { show: look, text: Some(text) });
        join_all(churning.iter_mut().map(|raw| raw.say(&status))).await;
        peace.push().await;
    }
    // 40,000 changes of some 300 bytes each would be 12 MB and more.
    peace.assert_grown_at_most(GROWN_MAX).await;
    peace.until("presence_closes_total{reason=\"too_slow\"}", 1).await;
    drop(churning);
    peace.assert_undisturbed().await;
}

#[tokio::test]
async fn who_waits_its_turn_in_a_reconnect_storm_was_never_away() {
    let peace = Peace::new(&["--handshake-rate=300"]).await;
    let addr = peace.gateway.addr;
    let names = names(500);
    let come = || join_all(names.iter().map(|name| Raw::joined(addr, name)));
    let before = come().await;
    let mut watcher = Client::join(addr, Format::Json, "another watcher").await;
    let states = watcher.watch(&names).await;
    assert!(states.iter().all(|state| state.state.as_str() == "online"));
    // All are gone at once, and come back at once.
    drop(before);
    let _after = tokio::time::timeout(PATIENCE, come()).await.expect("all are back");
    watcher.expect_nothing_for(Duration::from_secs(6)).await;
    let pauses = metric(addr, "presence_accept_pauses_total{why=\"rate\"}").await;
    assert!(pauses > Some(0), "{pauses:?}");
    peace.assert_undisturbed().await;
}
