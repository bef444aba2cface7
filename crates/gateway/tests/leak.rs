//! That coming and going leaves nothing behind, in a gateway as it is deployed, its allocator included: after thousands
//! of connects and disconnects as much is resident as after the first of them.
//!
//! `LEAK_CONNECTS` says how many there are; `make leak` has 200,000. What lives is counted to the byte in budget.rs, for
//! one round; this test finds what is lost only now and then, and what is given back but never used again.

#[path = "budget/child.rs"]
mod child;
#[path = "budget/client.rs"]
mod client;

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use presence_protocol::{ClientMessage, UserId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use child::Gateway;
use client::Client;

/// How many are connected at a time. The same users come again and again, since what is kept of a user who left is no leak.
const CROWD: usize = 500;

/// Whom each watches: those who came after.
const WATCHED: usize = 20;

const CONNECTS: usize = 6_000;

/// The connects after which what is resident is taken for what is needed, as one part of so many.
const WARM_UP_PART: usize = 4;

/// How much more may be resident in the end, in percent.
const GROWTH_MAX: u64 = 10;

/// The allocator gives memory back late.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(200);

#[test]
fn as_much_is_resident_after_thousands_of_connects_as_after_the_first() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("as it may");
    let connects = env::var("LEAK_CONNECTS").ok();
    let connects = connects.map_or(CONNECTS, |count| count.parse().expect("a whole number"));
    let rounds = (connects / CROWD).max(WARM_UP_PART);
    // Nothing lapses meanwhile, and nothing is held back.
    let flags = ["--message-rate=10000", "--heartbeat=5m", "--ttl=10m", "--grace=0s"];
    let gateway = Gateway::start(&flags);

    let (warm_up, rest) = (rounds / WARM_UP_PART, rounds - rounds / WARM_UP_PART);
    (0..warm_up).for_each(|_| all_come_and_go(&gateway));
    let before = resident_kib(&gateway);
    (0..rest).for_each(|_| all_come_and_go(&gateway));

    let limit = before + before * GROWTH_MAX / 100;
    let (began, mut after) = (Instant::now(), resident_kib(&gateway));
    while after > limit && began.elapsed() < PATIENCE {
        thread::sleep(POLL);
        // The allocator gives nothing back while nothing happens.
        client::get(gateway.addr, "/healthz");
        after = resident_kib(&gateway);
    }
    let connects = rounds * CROWD;
    println!("{before} KiB after {} connects, {after} KiB after {connects}", warm_up * CROWD);
    assert!(after <= limit, "{after} KiB are resident, {before} KiB were at first");
}

fn user(number: usize) -> UserId {
    UserId::new(&format!("user-{:03}", number % CROWD)).expect("a user id")
}

/// A third says `bye`, a third gives up its watches first, and a third is just gone.
fn all_come_and_go(gateway: &Gateway) {
    let join = |number| Client::join(gateway.addr, user(number));
    let clients: Vec<Client> = (0..CROWD).map(join).collect();
    let watched_by = |number: usize| (1..=WATCHED).map(move |next| user(number + next)).collect();
    for (number, client) in clients.iter().enumerate() {
        let states =
            client.ask(|id| ClientMessage::Watch { users: watched_by(number), id, grant: None });
        assert_eq!(states.len(), WATCHED);
    }
    for (number, client) in clients.iter().enumerate() {
        match number % 3 {
            0 => {
                client.send(&ClientMessage::Bye);
                client.expect_end();
            }
            1 => {
                client.send(&ClientMessage::Unwatch { users: watched_by(number) });
                client.fence();
            }
            _ => {}
        }
    }
    drop(clients);
    let began = Instant::now();
    while !client::get(gateway.addr, "/metrics").contains("\npresence_connections 0\n") {
        assert!(began.elapsed() < PATIENCE, "sockets stay that nobody holds");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What the gateway has resident.
fn resident_kib(gateway: &Gateway) -> u64 {
    let status =
        fs::read_to_string(format!("/proc/{}/status", gateway.child.id())).expect("it runs");
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has some");
    value.trim().trim_end_matches(" kB").parse().expect("a number")
}
