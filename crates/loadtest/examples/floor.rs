//! The least that a heartbeat can cost: one thread that answers Pings, and knows nothing else. It welcomes whoever
//! says anything, which is enough for `presence-loadtest run --watch 0`, and is here to be compared with the gateway.

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use anyhow::{Context, Result};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use presence_protocol::{Format, GatewayMessage, SessionId, UserId, Welcome, encode_gateway};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

const LISTENER: Token = Token(usize::MAX);
const BINARY: u8 = 0x82;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

struct Connection {
    stream: TcpStream,
    is_upgraded: bool,
}

fn main() -> Result<()> {
    let listen = env::args().nth(1).context("say where to listen, such as 127.0.0.1:8080")?;
    let mut listener = TcpListener::bind(listen.parse::<SocketAddr>()?)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    // By token.
    let mut connections = Vec::new();
    let welcome = welcome()?;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
                continue;
            }
            let place: &mut Option<Connection> = &mut connections[event.token().0];
            if let Some(connection) = place
                && !serve(connection, &welcome)
            {
                *place = None;
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    connections: &mut Vec<Option<Connection>>,
) -> Result<()> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let token = Token(connections.len());
                stream.set_nodelay(true)?;
                poll.registry().register(&mut stream, token, Interest::READABLE)?;
                connections.push(Some(Connection { stream, is_upgraded: false }));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers what has come, as one message. False when the connection is over.
fn serve(Connection { stream, is_upgraded }: &mut Connection, welcome: &[u8]) -> bool {
    let mut space = [0; 4096];
    let Ok(len @ 1..) = stream.read(&mut space) else { return false };
    let answer = if *is_upgraded {
        answer(&mut space[..len], welcome)
    } else {
        *is_upgraded = true;
        upgrade(&space[..len])
    };
    stream.write_all(&answer).is_ok()
}

fn answer(frame: &mut [u8], welcome: &[u8]) -> Vec<u8> {
    if frame[0] != PING {
        return welcome.to_vec();
    }
    let (head, payload) = frame.split_at_mut(6);
    let mask: [u8; 4] = head[2..].try_into().expect("it has four bytes");
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    [&[PONG, payload.len() as u8], &*payload].concat()
}

fn upgrade(request: &[u8]) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let value = |name: &str| {
        let header = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        request.lines().find_map(header).unwrap_or_default()
    };
    let accept = derive_accept_key(value("sec-websocket-key").as_bytes());
    let protocol = value("sec-websocket-protocol");
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    answer.into_bytes()
}

fn welcome() -> Result<Vec<u8>> {
    let welcome = Welcome {
        user: UserId::new("anybody")?,
        session: SessionId::new("floor".to_owned()),
        heartbeat_ms: 10_000,
        ttl_ms: 30_000,
        grace_ms: 3_000,
        max_watch: 0,
    };
    let payload = encode_gateway(Format::MsgPack, &GatewayMessage::Welcome(welcome));
    let mut frame = vec![BINARY, 126];
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend(payload);
    Ok(frame)
}
