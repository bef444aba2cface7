//! Who may watch whom by the word of the app's backend, which is asked, forgets, changes its mind, and fails.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, Format, RequestId, UserId};
use presence_testkit::eventually;

use crate::app::{App, Mood};
use crate::client::{Client, PATIENCE, users};
use crate::house::{House, Kind, OPEN, SLOW, on_both_stores};
use crate::http::{self, Http};

on_both_stores!(
    whom_the_backend_allows_is_watched_and_the_others_are_named_in_an_error,
    who_is_refused_looks_the_same_online_or_never_seen,
    a_refresh_takes_off_every_watch_list_whom_the_backend_allows_no_more,
    a_refresh_forgets_what_was_answered_for_a_user_who_is_not_here,
);

async fn house(kind: Kind, app: &App, more: &[&str]) -> House {
    let flags = app.flags();
    let mut all = vec![OPEN];
    all.extend(flags.iter().map(String::as_str));
    all.extend(more);
    House::with(kind, SLOW, &all).await
}

fn names(users: &[UserId]) -> Vec<&str> {
    users.iter().map(UserId::as_str).collect()
}

async fn refresh(house: &House, name: &str) {
    let path = format!("/v1/users/{name}/refresh");
    let answer = Http::connect(house.here()).await.post(&path, "").await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

/// Waits until the backend was asked so often.
async fn until_asked(app: &App, calls: usize) {
    let asked = async || (app.calls().len() >= calls).then_some(());
    eventually(&format!("{calls} calls"), PATIENCE, asked).await;
}

async fn whom_the_backend_allows_is_watched_and_the_others_are_named_in_an_error(kind: Kind) {
    let app = App::start().await;
    app.refuse("a", "c");
    let house = house(kind, &app, &[]).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    for request in ["watch", "query"] {
        watcher.send_text(&format!(
            r#"{{"type":"{request}","users":["d","c","b","d"],"id":"{request}"}}"#
        ));
        let error = watcher.expect_error(ErrorCode::NotAllowed).await;
        assert_eq!(names(&error.users), ["c"]);
        let id = error.id.expect("the id");
        assert_eq!(id.to_string(), request);
        let states = watcher.answer(&id).await.expect("a snapshot");
        let told: Vec<&str> = states.iter().map(|state| state.user.as_str()).collect();
        assert_eq!(told, ["d", "b", "d"]);
    }
    let _refused = Client::join(house.there(), Format::Json, "c").await;
    http::until_online(house.here(), "c").await;
    let _allowed = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    watcher.expect_nothing_for(Duration::from_millis(200)).await;
}

async fn who_is_refused_looks_the_same_online_or_never_seen(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let mut told = Vec::new();
    let _online = Client::join(house.there(), Format::Json, "online").await;
    http::until_online(house.here(), "online").await;
    for name in ["online", "nobody"] {
        app.refuse("a", name);
        let mut watcher = Client::join(house.here(), Format::Json, "a").await;
        let mut frames = Vec::new();
        for request in ["watch", "query"] {
            watcher.send_text(&format!(r#"{{"type":"{request}","users":["{name}"],"id":1}}"#));
            let frame = watcher.next_frame().await;
            frames.push(String::from_utf8(frame.to_vec()).expect("JSON").replace(name, "them"));
        }
        watcher.fence().await;
        watcher.expect_nothing_for(Duration::from_millis(200)).await;
        told.push(frames);
    }
    assert_eq!(told[0], told[1]);
}

async fn a_refresh_takes_off_every_watch_list_whom_the_backend_allows_no_more(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let mut watchers = Vec::new();
    for addr in [house.here(), house.there()] {
        let mut watcher = Client::join(addr, Format::Json, "a").await;
        watcher.watch(["b", "c"]).await;
        watchers.push(watcher);
    }
    app.refuse("a", "b");
    refresh(&house, "a").await;
    for watcher in &mut watchers {
        let error = watcher.expect_error(ErrorCode::NotAllowed).await;
        assert_eq!((names(&error.users), error.id), (vec!["b"], None));
    }
    let _refused = Client::join(house.there(), Format::Json, "b").await;
    http::until_online(house.here(), "b").await;
    let _allowed = Client::join(house.there(), Format::Json, "c").await;
    for watcher in &mut watchers {
        watcher.expect_online("c").await;
        watcher.expect_nothing_for(Duration::from_millis(200)).await;
    }
    // And the other way round.
    app.allow("a", "b");
    refresh(&house, "a").await;
    for watcher in &mut watchers {
        let watched = async || {
            let users = users(["b"]);
            let answer = watcher.ask(|id| ClientMessage::Watch { users, id, grant: None }).await;
            answer.ok()
        };
        let states = eventually("b may be watched again", PATIENCE, watched).await;
        assert_eq!(states[0].state.as_str(), "online");
    }
}

async fn a_refresh_forgets_what_was_answered_for_a_user_who_is_not_here(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &["--watch-callback-ttl=1h"]).await;
    for addr in [house.here(), house.there()] {
        let mut watcher = Client::join(addr, Format::Json, "a").await;
        watcher.watch(["b"]).await;
        watcher.bye().await;
    }
    app.refuse("a", "b");
    refresh(&house, "a").await;
    for addr in [house.here(), house.there()] {
        let refused = async || {
            let mut watcher = Client::join(addr, Format::Json, "a").await;
            let users = users(["b"]);
            let answer = watcher.ask(|id| ClientMessage::Query { users, id, grant: None }).await;
            answer.err()
        };
        let error = eventually("b is refused", PATIENCE, refused).await;
        assert_eq!(error.code, ErrorCode::NotAllowed);
    }
}

#[tokio::test]
async fn an_answer_from_before_a_refresh_is_asked_for_again() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--watch-callback-timeout=10s"]).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    app.be(Mood::Holds);
    watcher.send_text(r#"{"type":"watch","users":["b"],"id":1}"#);
    until_asked(&app, 1).await;
    // The backend has said yes, and the answer is on its way.
    app.refuse("a", "b");
    refresh(&house, "a").await;
    let heard = async || {
        let heard = http::metric(house.here(), r#"presence_notices_total{kind="refresh"}"#).await;
        (heard == Some(1)).then_some(())
    };
    eventually("the refresh is heard", PATIENCE, heard).await;
    watcher.ping();
    watcher.expect_pong().await;
    app.be(Mood::Answers);
    let error = watcher.expect_error(ErrorCode::NotAllowed).await;
    assert_eq!(names(&error.users), ["b"]);
    assert_eq!(http::metric(house.here(), "presence_watches").await, Some(0));
}

#[tokio::test]
async fn questions_are_gathered_while_calls_are_under_way_and_answers_are_kept() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--watch-callback-timeout=10s"]).await;
    let mut clients = Vec::new();
    for number in 0..40 {
        clients.push(Client::join(house.here(), Format::MsgPack, &format!("user{number}")).await);
    }
    app.be(Mood::Holds);
    for (number, client) in clients.iter().enumerate() {
        let users = users([format!("one{number}"), "all".to_owned()]);
        client.send(&ClientMessage::Watch { users, id: None, grant: None });
        if number < 4 {
            until_asked(&app, number + 1).await;
        }
    }
    // All the others are read before an answer lets the next call go.
    for client in &mut clients {
        client.ping();
        client.expect_pong().await;
    }
    app.be(Mood::Answers);
    for client in &mut clients {
        client.next().await;
    }
    let calls = app.calls();
    let asked: Vec<usize> =
        calls.iter().map(|call| call["requests"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(asked.iter().sum::<usize>(), 40, "{asked:?}");
    assert!(asked.len() <= 8, "{asked:?}");
    for (number, client) in clients.iter_mut().enumerate() {
        client.query([format!("one{number}"), "all".to_owned()]).await;
    }
    assert_eq!(app.calls().len(), calls.len(), "what was answered is known");
}

#[tokio::test]
async fn an_unwatch_does_not_overtake_the_watch_before_it() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--watch-callback-timeout=10s"]).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    app.be(Mood::Holds);
    watcher.send_text(r#"{"type":"watch","users":["b","c"],"id":"w"}"#);
    watcher.unwatch(["b"]);
    // It goes on hearing its client meanwhile.
    watcher.ping();
    watcher.expect_pong().await;
    until_asked(&app, 1).await;
    app.be(Mood::Answers);
    let id = RequestId::text("w").expect("an id");
    assert_eq!(watcher.answer(&id).await.expect("a snapshot").len(), 2);
    watcher.fence().await;
    assert_eq!(http::metric(house.here(), "presence_watches").await, Some(1));
    let _b = Client::join(house.here(), Format::Json, "b").await;
    http::until_online(house.here(), "b").await;
    let _c = Client::join(house.here(), Format::Json, "c").await;
    watcher.expect_online("c").await;
}

#[tokio::test]
async fn while_the_backend_does_not_answer_nobody_new_is_watched_and_clients_may_ask_again() {
    let app = App::start().await;
    let flags = ["--watch-callback-timeout=300ms", "--watch-callback-ttl=1h"];
    let house = house(Kind::OneEmbedded, &app, &flags).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    for mood in [Mood::Fails, Mood::Babbles, Mood::Holds] {
        app.be(mood);
        for names in [["c", "b"], ["b", "c"]] {
            let users = users(names);
            let answer = watcher.ask(|id| ClientMessage::Watch { users, id, grant: None }).await;
            assert_eq!(answer.expect_err("it is down").code, ErrorCode::Undecided, "{mood:?}");
        }
        // What is known is known.
        assert_eq!(watcher.watch(["b"]).await.len(), 1);
        assert_eq!(http::metric(house.here(), "presence_watches").await, Some(1), "{mood:?}");
    }
    let calls =
        |result: &str| format!(r#"presence_watch_callback_calls_total{{result="{result}"}}"#);
    for result in ["refused", "nonsense", "too_slow"] {
        let counted = http::metric(house.here(), &calls(result)).await;
        assert!(counted.is_some_and(|counted| counted > 0), "{result}: {counted:?}");
    }
    app.be(Mood::Answers);
    watcher.watch(["c", "b"]).await;
    let _b = Client::join(house.here(), Format::Json, "b").await;
    watcher.expect_online("b").await;
}

#[tokio::test]
async fn who_is_to_be_reviewed_while_the_backend_is_down_has_to_come_again() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--watch-callback-timeout=100ms"]).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    app.be(Mood::Fails);
    refresh(&house, "a").await;
    watcher.expect_close(1013).await;
}

#[tokio::test]
async fn an_operator_may_let_everyone_be_watched_while_the_backend_is_down() {
    let app = App::start().await;
    let house = house(Kind::OneEmbedded, &app, &["--watch-callback-down=allow"]).await;
    app.be(Mood::Fails);
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    assert_eq!(watcher.watch(["b"]).await.len(), 1);
}

/// A gateway that keeps next to no answers lets the pairs of four full calls wait.
#[tokio::test]
async fn beyond_its_room_nothing_waits_for_the_backend_and_no_door_is_opened() {
    const SESSIONS: u64 = 20;
    const PAIRS_EACH: u64 = 1_000;
    let app = App::start().await;
    let flags = [
        "--watch-callback-timeout=30s",
        "--watch-callback-cache=1",
        // Which is not what counts here, since the backend is there.
        "--watch-callback-down=allow",
    ];
    let house = house(Kind::OneEmbedded, &app, &flags).await;
    let query = |id| {
        let users = users((0..PAIRS_EACH).map(|number| format!("u{number}")));
        ClientMessage::Query { users, id, grant: None }
    };
    let waiting = async |wanted| {
        let name = "presence_watch_callback_waiting";
        let is_so = async || (http::metric(house.here(), name).await == Some(wanted)).then_some(());
        eventually(&format!("{wanted} pairs wait"), PATIENCE, is_so).await;
    };
    app.be(Mood::Holds);
    let mut patient = Vec::new();
    for number in 0..SESSIONS {
        let client = Client::join(house.here(), Format::MsgPack, &format!("p{number}")).await;
        client.send(&query(None));
        patient.push(client);
    }
    waiting(SESSIONS * PAIRS_EACH).await;

    let mut last = Client::join(house.here(), Format::Json, "a").await;
    let refused = last.ask(query).await;
    assert_eq!(refused.expect_err("there is no room").code, ErrorCode::Undecided);
    let unasked = r#"presence_watch_callback_pairs_total{by="unasked"}"#;
    assert_eq!(http::metric(house.here(), unasked).await, Some(PAIRS_EACH));
    waiting(SESSIONS * PAIRS_EACH).await;

    app.be(Mood::Answers);
    for client in &mut patient {
        client.next().await;
    }
    waiting(0).await;
    assert_eq!(last.ask(query).await.map(|states| states.len() as u64), Ok(PAIRS_EACH));
}
