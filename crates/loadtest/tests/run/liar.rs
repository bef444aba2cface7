//! Gateways that lie: one shows everybody online, and later somebody offline who is not; one tells who
//! comes, and nobody who leaves.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use presence_protocol::{
    Availability, ClientMessage, Format, GatewayMessage, SessionId, UserId, UserState, Welcome,
    decode_client, encode_gateway,
};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, accept_hdr};

/// Each connection hears the truth for so many Pings.
const HONEST_PINGS: u32 = 4;

/// How often it is looked at who came.
const LOOK: Duration = Duration::from_millis(10);

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

fn answer(socket: &mut WebSocket<TcpStream>, message: ClientMessage, watched: &mut Vec<UserId>) {
    let answer = match message {
        ClientMessage::Hello(hello) => GatewayMessage::Welcome(Welcome {
            user: hello.user.expect("a name"),
            session: SessionId::new("liar".to_owned()),
            heartbeat_ms: 1_000,
            ttl_ms: 3_000,
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
