//! Snapshots: the answers to `watch` and `query`, and what follows an `unwatch`.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, GatewayMessage, UserState};

use crate::client::{Client, user, users};
use crate::house::{House, Kind, SLOW, on_both_stores};
use crate::http::{self, until_online};

on_both_stores!(
    a_thousand_names_are_answered_by_one_snapshot_in_the_order_asked,
    a_user_named_twice_is_watched_once,
    after_an_unwatch_nothing_more_comes_and_a_new_watch_starts_afresh,
    the_snapshot_and_the_pushes_after_it_leave_no_gap,
);

fn names(states: &[UserState]) -> Vec<&str> {
    states.iter().map(|state| state.user.as_str()).collect()
}

async fn a_thousand_names_are_answered_by_one_snapshot_in_the_order_asked(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut random = fastrand::Rng::with_seed(1);
    let mut asked: Vec<String> = (0..800).map(|number| format!("u{number}")).collect();
    random.shuffle(&mut asked);
    let online: Vec<String> = asked[..5].to_vec();
    let mut sessions = Vec::new();
    for name in &online {
        sessions.push(Client::join(house.there(), Format::Json, name).await);
        until_online(house.here(), name).await;
    }
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    let twice: Vec<String> =
        (0..200).map(|_| random.choice(&asked).cloned().expect("one")).collect();
    let repeated: Vec<String> = asked.iter().chain(&twice).cloned().collect();
    let states = watcher.watch(&repeated).await;
    assert_eq!(names(&states), repeated);

    random.shuffle(&mut asked);
    let mut other = Client::join(house.there(), Format::MsgPack, "a").await;
    let looked_up = [
        watcher.query(&asked).await,
        other.query(&asked).await,
        other.watch(&asked).await,
        http::query(house.here(), &repeated).await,
    ];
    for (states, asked) in looked_up.iter().zip([&asked, &asked, &asked, &repeated]) {
        assert_eq!(names(states), *asked);
        for state in states {
            let expected = online.iter().any(|name| name == state.user.as_str());
            assert_eq!(state.state.as_str() == "online", expected, "{state:?}");
        }
    }
}

/// Else one short message could ask for megabytes.
#[tokio::test]
async fn a_user_is_not_named_more_often_than_a_watch_list_is_long() {
    let house = House::new(Kind::OneEmbedded, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    let users = vec![user("b"); 1001];
    let error = watcher.ask(|id| ClientMessage::Watch { users, id, grant: None }).await;
    let error = error.expect_err("it is refused");
    assert_eq!(error.code, ErrorCode::TooManyWatches);
    assert!(error.message.contains("at most 1000"), "{}", error.message);
}

async fn a_user_named_twice_is_watched_once(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    assert_eq!(names(&watcher.watch(["b", "b", "c", "b"]).await), ["b", "b", "c", "b"]);
    let b = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    watcher.unwatch(["b"]);
    watcher.fence().await;
    b.bye().await;
    let _c = Client::join(house.there(), Format::Json, "c").await;
    watcher.expect_online("c").await;
}

async fn after_an_unwatch_nothing_more_comes_and_a_new_watch_starts_afresh(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watcher = Client::join(house.here(), Format::MsgPack, "a").await;
    watcher.watch(["b", "c"]).await;
    // Unwatching whom nobody watches is no error.
    watcher.unwatch(["b", "d"]);
    watcher.fence().await;
    let b = Client::join(house.there(), Format::Json, "b").await;
    let _c = Client::join(house.there(), Format::Json, "c").await;
    watcher.expect_online("c").await;
    watcher.expect_nothing_for(Duration::from_millis(100)).await;
    let states = watcher.watch(["b"]).await;
    assert_eq!(states[0].state.as_str(), "online");
    b.bye().await;
    let push = watcher.expect_offline("b").await;
    assert!(push.state.version > states[0].version);
}

/// A user comes and goes while others begin to watch: whatever the moment, each ends with the latest state, and no state
/// follows a newer one.
async fn the_snapshot_and_the_pushes_after_it_leave_no_gap(kind: Kind) {
    let house = House::new(kind, SLOW).await;
    let mut watchers = Vec::new();
    for number in 0..10 {
        let format = if number % 2 == 0 { Format::Json } else { Format::MsgPack };
        let addr = if number % 3 == 0 { house.here() } else { house.there() };
        watchers.push(Client::join(addr, format, "a").await);
    }
    let mut last_told = vec![UserState::never_seen(user("nobody")); watchers.len()];
    for round in 0..10 {
        let name = format!("b{round}");
        let b = Client::join(house.here(), Format::Json, &name).await;
        until_online(house.here(), &name).await;
        for watcher in &watchers {
            watcher.send(&ClientMessage::Watch { users: users([&name]), id: None, grant: None });
        }
        b.bye().await;
        for (watcher, last) in watchers.iter_mut().zip(&mut last_told) {
            let (mut answered, mut state) = (false, UserState::never_seen(user(&name)));
            // Offline and never seen is from before the user came.
            while !answered || state.state.as_str() == "online" || state.since.is_none() {
                let states = match watcher.next().await.message {
                    GatewayMessage::Snapshot { users, .. } => {
                        answered = true;
                        users
                    }
                    GatewayMessage::Presence { users } => users,
                    other => panic!("not expected: {other:?}"),
                };
                if names(&states) != [&name] {
                    // What an answer told already may be pushed once more, and moves nothing.
                    assert_eq!(names(&states), [last.user.as_str()], "in round {round}");
                    assert_eq!(states[0].version, last.version);
                    continue;
                }
                assert!(states[0].version >= state.version, "{states:?} follows {state:?}");
                state.clone_from(&states[0]);
            }
            *last = state;
        }
    }
}
