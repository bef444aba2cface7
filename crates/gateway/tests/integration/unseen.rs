//! All who cannot be seen, side by side: who signed out, who is invisible, and who is veiled from the one who asks; who was
//! never there, and who was there only invisible. Whatever is told of them is compared byte for byte, and so is the silence.

use std::net::SocketAddr;

use presence_protocol::{
    ClientMessage, Format, GatewayMessage, Hello, Show, UserState, decode_gateway,
};
use presence_testkit::{RedisServer, eventually};
use tokio_tungstenite::tungstenite::Bytes;

use crate::app::App;
use crate::client::{Client, PATIENCE, user, users};
use crate::house::{House, Kind, OPEN, SLOW, on_both_stores};
use crate::http::{self, Answer, Http};
use crate::veiled::{QUIET, house, now_us, refresh};

on_both_stores!(who_cannot_be_seen_looks_alike_to_the_byte);

/// Each was there before, and went in its own way. All names have one length.
const SIGNED_OUT: &str = "u-out";
const INVISIBLE: &str = "u-inv";
const VEILED: &str = "u-vld";
const GONE: [&str; 3] = [SIGNED_OUT, INVISIBLE, VEILED];

/// And nobody has ever seen these.
const NEVER_THERE: &str = "u-nvr";
const ALWAYS_INVISIBLE: &str = "u-hid";
const NEVER_SEEN: [&str; 2] = [NEVER_THERE, ALWAYS_INVISIBLE];

const FORMATS: [Format; 2] = [Format::Json, Format::MsgPack];

/// Bytes with the name, the version and the last seen of a state as zeros: what is left, and how much, must be the same.
fn blank(format: Format, bytes: &[u8], state: &UserState) -> String {
    let number = |number: u64| match format {
        Format::Json => number.to_string().into_bytes(),
        Format::MsgPack => number.to_be_bytes().to_vec(),
    };
    let mut bytes = bytes.to_vec();
    // The version before the last seen: as text, it may begin with that.
    let name = state.user.as_str().as_bytes().to_vec();
    for own in [Some(name), Some(number(state.version)), state.since.map(number)].iter().flatten() {
        for at in 0..=bytes.len().saturating_sub(own.len()) {
            if bytes[at..].starts_with(own) {
                bytes[at..at + own.len()].fill(b'0');
            }
        }
    }
    bytes.escape_ascii().to_string()
}

/// The same of a frame that tells of this user, and may tell of others.
fn blank_frame(format: Format, frame: &[u8], name: &str) -> String {
    let (GatewayMessage::Snapshot { users: states, .. }
    | GatewayMessage::Presence { users: states }) =
        decode_gateway(format, frame).expect("a message")
    else {
        panic!("no states: {}", frame.escape_ascii())
    };
    let state = states.iter().find(|state| state.user.as_str() == name).expect("the user's state");
    assert_eq!(state.state.as_str(), "offline", "{state:?}");
    blank(format, frame, state)
}

/// All that is told of a user to whoever asks now, but for what is not for the one who asks.
#[derive(Debug, PartialEq)]
struct Told {
    name: &'static str,
    sockets: Vec<(Format, Bytes)>,
    /// Heads and bodies; of who is veiled from somebody, the backend is told the truth.
    backend: Vec<String>,
}

impl Told {
    async fn of(house: &House, name: &'static str) -> Self {
        let (mut sockets, mut backend) = (Vec::new(), Vec::new());
        for addr in house.addrs() {
            for format in FORMATS {
                let frames = answers(addr, format, name).await;
                sockets.extend(frames.into_iter().map(|frame| (format, frame)));
            }
            if name != VEILED {
                backend.extend(answers_to_the_backend(addr, name).await);
            }
        }
        Self { name, sockets, backend }
    }

    async fn of_all(house: &House) -> Vec<Self> {
        let mut told = Vec::new();
        for name in GONE.into_iter().chain(NEVER_SEEN) {
            told.push(Self::of(house, name).await);
        }
        told
    }

    /// Nothing in the bytes tells these users apart.
    async fn assert_alike(house: &House, all: &[Self]) {
        let (mut sockets, mut backend) = (Vec::new(), Vec::new());
        for Self { name, sockets: frames, backend: answers } in all {
            let frames = frames.iter().map(|(format, frame)| blank_frame(*format, frame, name));
            sockets.push((*name, frames.collect::<Vec<_>>()));
            if *name != VEILED {
                let state = http::query(house.here(), &[name]).await.remove(0);
                let answers =
                    answers.iter().map(|told| blank(Format::Json, told.as_bytes(), &state));
                backend.push((*name, answers.collect::<Vec<_>>()));
            }
        }
        for told in [sockets, backend] {
            for (name, found) in &told {
                assert_eq!(*found, told[0].1, "{name}, and {}", told[0].0);
            }
        }
    }
}

/// What a socket of `a` is answered of a user: alone, and between others, who are told as ever.
async fn answers(addr: SocketAddr, format: Format, name: &str) -> Vec<Bytes> {
    let mut a = Client::join(addr, format, "a").await;
    let mut frames = Vec::new();
    for names in [&[name][..], &["bo", name, "cy"]] {
        let users = users(names);
        for request in [
            ClientMessage::Query { users: users.clone(), id: None, grant: None },
            ClientMessage::Watch { users: users.clone(), id: None, grant: None },
            ClientMessage::Query { users, id: None, grant: None },
        ] {
            a.send(&request);
            frames.push(a.next_frame().await);
        }
    }
    a.bye().await;
    frames
}

/// Both calls, without the date.
async fn answers_to_the_backend(addr: SocketAddr, name: &str) -> Vec<String> {
    let mut http = Http::connect(addr).await;
    let by_list = http.query(&format!(r#"{{"users":["{name}"]}}"#)).await;
    let by_name = http.get_with_key(&format!("/v1/presence/{name}")).await;
    let answers = [by_list, by_name].map(|Answer { status, head, body }| {
        assert_eq!(status, 200, "{body}");
        let head = head.lines().filter(|line| !line.starts_with("date:"));
        head.chain([body.as_str()]).collect::<Vec<_>>().join("\n")
    });
    answers.into()
}

async fn come(house: &House, name: &str) -> Client {
    let mut client = Client::dial(house.there(), Format::Json).await;
    client.hello_from(name, "ios").await;
    client.set_status(Show::Busy, Some("in a meeting"));
    let is_busy = async || {
        (http::query(house.here(), &[name]).await[0].show == Some(Show::Busy)).then_some(())
    };
    eventually(&format!("{name} is busy"), PATIENCE, is_busy).await;
    client
}

async fn come_invisible(house: &House, name: &str) -> Client {
    let mut client = Client::dial(house.there(), Format::Json).await;
    let hello = Hello { user: Some(user(name)), show: Some(Show::Invisible), ..Hello::default() };
    client.hello_with(hello).await;
    client
}

async fn who_cannot_be_seen_looks_alike_to_the_byte(kind: Kind) {
    let app = App::start().await;
    let house = house(kind, &app, &[]).await;
    let _bo = come(&house, "bo").await;
    let signed_out = come(&house, SIGNED_OUT).await;
    let invisible = come(&house, INVISIBLE).await;
    let veiled = come(&house, VEILED).await;
    let mut watchers = Vec::new();
    for (addr, format) in house.addrs().into_iter().zip(FORMATS) {
        let mut watcher = Client::join(addr, format, "a").await;
        let states = watcher.watch(GONE.into_iter().chain(NEVER_SEEN)).await;
        assert!(states[..3].iter().all(|state| state.show == Some(Show::Busy)), "{states:?}");
        watchers.push((format, watcher));
    }
    let mut other = Client::join(house.here(), Format::Json, "z").await;
    other.watch([VEILED]).await;

    // Each goes, and every watcher is told in the same bytes.
    let mut pushed = Vec::new();
    for name in GONE {
        match name {
            SIGNED_OUT => signed_out.send(&ClientMessage::Bye),
            INVISIBLE => invisible.set_status(Show::Invisible, Some("nobody must read this")),
            _ => {
                app.veil("a", VEILED, now_us());
                refresh(&house, "a").await;
            }
        }
        let mut frames = Vec::new();
        for (format, watcher) in &mut watchers {
            frames.push(blank_frame(*format, &watcher.next_frame().await, name));
        }
        pushed.push(frames);
    }
    assert_eq!(pushed[0], pushed[1], "signed out, and invisible");
    assert_eq!(pushed[0], pushed[2], "signed out, and veiled");
    http::until_told(house.there()).await;
    let told = Told::of_all(&house).await;
    Told::assert_alike(&house, &told[..GONE.len()]).await;
    Told::assert_alike(&house, &told[GONE.len()..]).await;

    // Life goes on where it cannot be seen. Nothing that is told of anybody changes by it, not even its own times.
    let hidden = come_invisible(&house, ALWAYS_INVISIBLE).await;
    for unseen in [&invisible, &hidden] {
        unseen.heartbeat();
        unseen.set_status(Show::Invisible, Some("still here"));
    }
    let another = Client::join(house.there(), Format::MsgPack, INVISIBLE).await;
    veiled.set_status(Show::Away, Some("at lunch"));
    other.expect_online(VEILED).await;
    http::until_told(house.there()).await;
    assert_eq!(Told::of_all(&house).await, told, "while they live");

    // Nor by their end.
    for session in [another, invisible, hidden, veiled] {
        session.bye().await;
    }
    other.expect_offline(VEILED).await;
    http::until_told(house.there()).await;
    assert_eq!(Told::of_all(&house).await, told, "when they are gone");
    for (_, watcher) in &mut watchers {
        watcher.expect_nothing_for(QUIET).await;
    }
}

/// A veil must not answer where others have to wait for the store.
#[tokio::test]
async fn while_the_store_is_away_who_cannot_be_seen_is_answered_alike() {
    let (app, redis) = (App::start().await, RedisServer::start());
    let flags = app.flags();
    let flags: Vec<&str> = [OPEN].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let house = House::on(&redis, SLOW, &flags).await;
    come(&house, SIGNED_OUT).await.bye().await;
    let invisible = come(&house, INVISIBLE).await;
    invisible.set_status(Show::Invisible, None);
    let _veiled = come(&house, VEILED).await;
    let _hidden = come_invisible(&house, ALWAYS_INVISIBLE).await;
    app.veil("a", VEILED, now_us());
    http::until_told(house.there()).await;
    let mut sessions = Vec::new();
    for name in GONE.into_iter().chain(NEVER_SEEN) {
        let mut a = Client::join(house.here(), Format::Json, "a").await;
        // What the app's backend says of them is known from now on, and nothing else.
        assert_eq!(a.query([name]).await[0].state.as_str(), "offline");
        sessions.push((name, a));
    }

    redis.pause();
    for (name, a) in &sessions {
        for request in ["query", "watch"] {
            a.send_text(&format!(r#"{{"type":"{request}","users":["{name}"]}}"#));
        }
    }
    for (_, a) in &mut sessions {
        for _ in 0..2 {
            let refused = next_but_health(a).await;
            assert!(
                refused.starts_with(br#"{"type":"error","code":"store_unavailable""#),
                "{refused:?}"
            );
        }
    }
    redis.resume();
    let mut pushed = Vec::new();
    for (name, a) in &mut sessions {
        pushed.push(blank_frame(Format::Json, &next_but_health(a).await, name));
    }
    assert!(pushed[..GONE.len()].iter().all(|push| *push == pushed[0]), "{pushed:#?}");
    assert!(pushed[GONE.len()..].iter().all(|push| *push == pushed[GONE.len()]), "{pushed:#?}");
}

/// The next frame, but for what tells of the store.
async fn next_but_health(client: &mut Client) -> Bytes {
    loop {
        let frame = client.next_frame().await;
        if !frame.starts_with(br#"{"type":"degraded""#) {
            return frame;
        }
    }
}
