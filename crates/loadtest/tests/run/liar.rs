//! A gateway that lies: it shows everybody online, and later somebody offline who is not.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use presence_protocol::{
    Availability, ClientMessage, Format, GatewayMessage, SessionId, UserId, UserState, Welcome,
    decode_client, encode_gateway,
};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept_hdr};

/// Each connection hears the truth for so many Pings.
const HONEST_PINGS: u32 = 4;

/// Serves until the test ends, and tells where.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

#[expect(clippy::result_large_err, reason = "tungstenite asks for it")]
fn serve(stream: TcpStream) {
    let accept = |_: &Request, mut response: Response| {
        let format = HeaderValue::from_static(Format::MsgPack.subprotocol());
        response.headers_mut().insert("Sec-WebSocket-Protocol", format);
        Ok(response)
    };
    let mut socket = accept_hdr(stream, accept).expect("an upgrade");
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
