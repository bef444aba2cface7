//! Gateways that lie: one shows everybody online, and later somebody offline who is not; one tells who
//! comes, and nobody who leaves. And some that refuse, that do not listen, or that end connections.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use presence_protocol::{
    Availability, ClientMessage, CloseReason, ErrorCode, ErrorMessage, Format, GatewayMessage,
    SessionId, UserId, UserState, Welcome, decode_client, encode_gateway,
};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, accept_hdr};

/// Each connection hears the truth for so many Pings.
const HONEST_PINGS: u32 = 4;

/// How often it is looked at who came.
const LOOK: Duration = Duration::from_millis(10);

/// What `welcome` says.
const TTL: Duration = Duration::from_secs(3);

/// When each user came last, in µs.
type Arrivals = Arc<Mutex<BTreeMap<UserId, u64>>>;

/// Serves until the test ends, and tells where.
pub(crate) fn start() -> SocketAddr {
    listen(serve)
}

/// The same, of one whose users never go offline.
pub(crate) fn start_without_offline() -> SocketAddr {
    let arrivals = Arrivals::default();
    listen(move |stream| serve_arrivals(stream, &arrivals))
}

/// The same, of one that refuses the first watch of each connection.
pub(crate) fn start_refusing(code: ErrorCode) -> SocketAddr {
    listen(move |stream| serve_refusing(stream, code))
}

/// The same, of one that reads a hello and a watch, and nothing more.
pub(crate) fn start_deaf() -> SocketAddr {
    listen(serve_deaf)
}

/// The same, of one that takes a connection for dead after half its TTL.
pub(crate) fn start_impatient() -> SocketAddr {
    listen(|stream| serve_closing(stream, |silent, _| silent > TTL / 2))
}

/// The same, of one that finds out only when it hears of one whose TTL is over.
pub(crate) fn start_slow_to_close() -> SocketAddr {
    listen(|stream| serve_closing(stream, |silent, is_heard| is_heard && silent > TTL))
}

fn listen(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

#[expect(clippy::result_large_err, reason = "tungstenite asks for it")]
fn accept(stream: TcpStream) -> WebSocket<TcpStream> {
    let accept = |_: &Request, mut response: Response| {
        let format = HeaderValue::from_static(Format::MsgPack.subprotocol());
        response.headers_mut().insert("Sec-WebSocket-Protocol", format);
        Ok(response)
    };
    accept_hdr(stream, accept).expect("an upgrade")
}

/// Everybody watched is told online when they come, and nothing else.
fn serve_arrivals(stream: TcpStream, arrivals: &Arrivals) {
    let mut socket = accept(stream);
    socket.get_ref().set_read_timeout(Some(LOOK)).expect("a time");
    let arrived = |user: &UserId| arrivals.lock().expect("no panic").get(user).copied();
    let mut told: BTreeMap<UserId, Option<u64>> = BTreeMap::new();
    loop {
        match socket.read() {
            Ok(Message::Binary(bytes)) => {
                let message = decode_client(Format::MsgPack, &bytes).expect("a message");
                if let ClientMessage::Watch { users, id, .. } = message {
                    told = users.into_iter().map(|user| (user.clone(), arrived(&user))).collect();
                    let users = told.iter().map(|(user, at)| state_since(user, *at)).collect();
                    say(&mut socket, &GatewayMessage::Snapshot { id, users });
                } else {
                    if let ClientMessage::Hello(hello) = &message {
                        let user = hello.user.clone().expect("a name");
                        let now = SystemTime::UNIX_EPOCH.elapsed().expect("it is later");
                        arrivals.lock().expect("no panic").insert(user, now.as_micros() as u64);
                    }
                    answer(&mut socket, message, &mut Vec::new());
                }
            }
            Err(Error::Io(error)) if error.kind() != ErrorKind::WouldBlock => return,
            Ok(_) | Err(Error::Io(_)) => {}
            Err(_) => return,
        }
        for (user, told) in &mut told {
            let at = arrived(user);
            if at > *told {
                *told = at;
                let users = vec![state_since(user, at)];
                say(&mut socket, &GatewayMessage::Presence { users });
            }
        }
    }
}

/// Online since that moment in µs; never seen, when there is none.
fn state_since(user: &UserId, at: Option<u64>) -> UserState {
    let unseen = UserState::never_seen(user.clone());
    let Some(version) = at else { return unseen };
    UserState { state: Availability::Online, version, since: Some(version / 1_000), ..unseen }
}

fn serve(stream: TcpStream) {
    let mut socket = accept(stream);
    let mut watched = Vec::new();
    let mut pings = 0;
    while let Ok(frame) = socket.read() {
        match frame {
            Message::Ping(_) => {
                pings += 1;
                if pings == HONEST_PINGS {
                    tell(&mut socket, &watched, Availability::Offline, 8);
                    tell(&mut socket, &watched, Availability::Online, 7);
                }
            }
            Message::Binary(bytes) => {
                let message = decode_client(Format::MsgPack, &bytes).expect("a message");
                answer(&mut socket, message, &mut watched);
            }
            _ => {}
        }
    }
}

fn serve_refusing(stream: TcpStream, code: ErrorCode) {
    let mut socket = accept(stream);
    let mut watched = Vec::new();
    let mut has_refused = false;
    while let Ok(frame) = socket.read() {
        let Message::Binary(bytes) = frame else { continue };
        match decode_client(Format::MsgPack, &bytes).expect("a message") {
            ClientMessage::Watch { users, id, .. } if !has_refused => {
                has_refused = true;
                let message = "It is refused.".to_owned();
                let error = ErrorMessage { code, message, id, users: Vec::new() };
                say(&mut socket, &GatewayMessage::Error(error));
                if code == ErrorCode::StoreUnavailable {
                    tell(&mut socket, &users, Availability::Online, 7);
                }
            }
            message => answer(&mut socket, message, &mut watched),
        }
    }
}

fn serve_deaf(stream: TcpStream) {
    let mut socket = accept(stream);
    for _ in 0..2 {
        let Ok(Message::Binary(bytes)) = socket.read() else { return };
        let message = decode_client(Format::MsgPack, &bytes).expect("a message");
        answer(&mut socket, message, &mut Vec::new());
    }
    // The socket stays.
    loop {
        thread::park();
    }
}

/// Ends a connection when that is so, by how long it was silent and whether it is heard now.
fn serve_closing(stream: TcpStream, is_over: fn(Duration, bool) -> bool) {
    let mut socket = accept(stream);
    socket.get_ref().set_read_timeout(Some(LOOK)).expect("a time");
    let mut heard = Instant::now();
    loop {
        let is_heard = match socket.read() {
            Ok(Message::Binary(bytes)) => {
                let message = decode_client(Format::MsgPack, &bytes).expect("a message");
                answer(&mut socket, message, &mut Vec::new());
                true
            }
            Ok(_) => true,
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => return,
        };
        if is_over(heard.elapsed(), is_heard) {
            let code = CloseReason::NoHeartbeat.code().into();
            let frame = CloseFrame { code, reason: "no sign of life".into() };
            return socket.close(Some(frame)).expect("the tester is there");
        }
        if is_heard {
            heard = Instant::now();
        }
    }
}

fn answer(socket: &mut WebSocket<TcpStream>, message: ClientMessage, watched: &mut Vec<UserId>) {
    let answer = match message {
        ClientMessage::Hello(hello) => GatewayMessage::Welcome(Welcome {
            user: hello.user.expect("a name"),
            session: SessionId::new("liar".to_owned()),
            heartbeat_ms: 1_000,
            ttl_ms: TTL.as_millis() as u64,
            grace_ms: 500,
            max_watch: 100,
        }),
        ClientMessage::Watch { users, id, .. } => {
            watched.clone_from(&users);
            let states = states(&users, Availability::Online, 7);
            GatewayMessage::Snapshot { id, users: states }
        }
        _ => return,
    };
    say(socket, &answer);
}

fn tell(socket: &mut WebSocket<TcpStream>, users: &[UserId], state: Availability, version: u64) {
    say(socket, &GatewayMessage::Presence { users: states(users, state, version) });
}

fn states(users: &[UserId], state: Availability, version: u64) -> Vec<UserState> {
    let of = |user: &UserId| UserState { state, version, ..UserState::never_seen(user.clone()) };
    users.iter().map(of).collect()
}

fn say(socket: &mut WebSocket<TcpStream>, message: &GatewayMessage) {
    let bytes = encode_gateway(Format::MsgPack, message);
    socket.send(Message::Binary(bytes)).expect("the tester reads");
}
