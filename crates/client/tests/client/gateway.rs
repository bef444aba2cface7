//! A gateway that does what a test tells it, one socket at a time.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{FutureExt, SinkExt, StreamExt};
use http::HeaderValue;
use presence_client::{Client, Credential, Event, Events, Options, Transport};
use presence_protocol::{
    Availability, ClientMessage, CloseReason, Format, GatewayMessage, Hello, SessionId, UserId,
    UserState, Welcome, decode_client, encode_gateway,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) const HEARTBEAT: Duration = Duration::from_secs(10);
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Longer than any wait of the client: what has not happened by then never will.
const NEVER: Duration = Duration::from_mins(10);

pub(crate) struct Gateway {
    dialed: mpsc::UnboundedReceiver<DuplexStream>,
    refusals: Arc<AtomicU32>,
}

pub(crate) struct Socket {
    stream: WebSocketStream<DuplexStream>,
}

/// What a client sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Sent {
    Message(ClientMessage),
    Ping,
    Closed,
}

/// A gateway, and options that lead to it.
pub(crate) fn gateway() -> (Gateway, Options) {
    let (dial, dialed) = mpsc::unbounded_channel();
    let refusals = Arc::new(AtomicU32::new(0));
    let gateway = Gateway { dialed, refusals: refusals.clone() };
    let url = "ws://gateway.test/ws".parse().unwrap();
    let mut options = Options::new(url, Credential::User(user("ana")));
    options.dial = Arc::new(move || {
        let dial = dial.clone();
        let is_refused = refusals
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
            .is_ok();
        async move {
            if is_refused {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            let (ours, theirs) = tokio::io::duplex(256 * 1024);
            dial.send(theirs).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(ours) as Box<dyn Transport>)
        }
        .boxed()
    });
    (gateway, options)
}

/// A client that is signed in, its socket at the gateway, and its events after `Connected`.
pub(crate) async fn connected() -> (Gateway, Socket, Client, Events) {
    let (mut gateway, options) = gateway();
    let client = Client::connect(options);
    let mut events = client.events();
    let socket = gateway.welcome().await;
    assert!(matches!(events.next().await, Some(Event::Connected(_))));
    (gateway, socket, client, events)
}

impl Gateway {
    /// The next `dials` of the client fail.
    pub(crate) fn refuse(&self, dials: u32) {
        self.refusals.store(dials, Ordering::SeqCst);
    }

    /// How many of the dials that were to fail are still to come.
    pub(crate) fn refusals_left(&self) -> u32 {
        self.refusals.load(Ordering::SeqCst)
    }

    /// The next socket, upgraded, before its `hello`.
    pub(crate) async fn accept(&mut self) -> Socket {
        let dialed = timeout(NEVER, self.dialed.recv()).await.expect("the client never dialed");
        #[expect(clippy::result_large_err, reason = "tungstenite's own signature")]
        let echo = |request: &Request, mut response: Response| {
            let offered: HeaderValue = request.headers()["Sec-WebSocket-Protocol"].clone();
            response.headers_mut().insert("Sec-WebSocket-Protocol", offered);
            Ok(response)
        };
        Socket { stream: accept_hdr_async(dialed.unwrap(), echo).await.unwrap() }
    }

    /// The next socket is answered with this instead of an upgrade.
    pub(crate) async fn answer(&mut self, head: &str) {
        let dialed = timeout(NEVER, self.dialed.recv()).await.expect("the client never dialed");
        let mut stream = dialed.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(head.as_bytes()).await.unwrap();
    }

    /// The next socket, signed in.
    pub(crate) async fn welcome(&mut self) -> Socket {
        self.welcome_hello().await.0
    }

    /// The next socket, signed in, and what it said for that.
    pub(crate) async fn welcome_hello(&mut self) -> (Socket, Hello) {
        let mut socket = self.accept().await;
        let hello = socket.hello().await;
        socket.say(welcome()).await;
        (socket, hello)
    }

    pub(crate) async fn is_never_dialed_again(&mut self) -> bool {
        !matches!(timeout(NEVER, self.dialed.recv()).await, Ok(Some(_)))
    }
}

impl Socket {
    pub(crate) async fn sent(&mut self) -> Sent {
        match self.stream.next().await {
            Some(Ok(Message::Binary(frame))) => {
                assert!(frame.len() <= 32 * 1024, "a frame of {} bytes", frame.len());
                Sent::Message(decode_client(Format::MsgPack, &frame).unwrap())
            }
            Some(Ok(Message::Ping(_))) => Sent::Ping,
            Some(Ok(Message::Close(_)) | Err(_)) | None => Sent::Closed,
            Some(Ok(other)) => panic!("not what a client sends: {other:?}"),
        }
    }

    /// The next message, whatever Pings come before it.
    pub(crate) async fn message(&mut self) -> ClientMessage {
        let next = async {
            loop {
                match self.sent().await {
                    Sent::Message(message) => return message,
                    Sent::Ping => {}
                    Sent::Closed => panic!("the client closed"),
                }
            }
        };
        timeout(NEVER, next).await.expect("the client says nothing")
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.message().await {
            ClientMessage::Hello(hello) => hello,
            other => panic!("the first message must be hello: {other:?}"),
        }
    }

    /// The next message must be a `watch`; answers nothing.
    pub(crate) async fn watch(&mut self) -> (Vec<UserId>, Option<presence_protocol::RequestId>) {
        match self.message().await {
            ClientMessage::Watch { users, id, .. } => (users, id),
            other => panic!("expected watch: {other:?}"),
        }
    }

    /// The next message must be a `watch`, which is answered with these states.
    pub(crate) async fn answer_watch(&mut self, users: Vec<UserState>) -> Vec<UserId> {
        let (asked, id) = self.watch().await;
        self.say(GatewayMessage::Snapshot { id, users }).await;
        asked
    }

    pub(crate) async fn say(&mut self, message: GatewayMessage) {
        let frame = encode_gateway(Format::MsgPack, &message);
        self.stream.send(Message::Binary(frame)).await.unwrap();
    }

    pub(crate) async fn presence(&mut self, users: Vec<UserState>) {
        self.say(GatewayMessage::Presence { users }).await;
    }

    pub(crate) async fn close(mut self, reason: CloseReason) {
        let frame = CloseFrame { code: reason.code().into(), reason: reason.text().into() };
        let _ = self.stream.close(Some(frame)).await;
    }
}

pub(crate) fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub(crate) fn users(range: std::ops::Range<u32>) -> Vec<UserId> {
    range.map(|n| user(&format!("user-{n:05}"))).collect()
}

pub(crate) fn state(id: &str, state: Availability, version: u64) -> UserState {
    UserState { state, version, ..UserState::never_seen(user(id)) }
}

fn welcome() -> GatewayMessage {
    GatewayMessage::Welcome(Welcome {
        user: user("ana"),
        session: SessionId::new("s-1".to_owned()),
        heartbeat_ms: HEARTBEAT.as_millis() as u64,
        ttl_ms: TTL.as_millis() as u64,
        grace_ms: 3_000,
        max_watch: 1_000,
    })
}

/// The next event that is no change of states.
pub(crate) async fn next_but_changes(events: &mut Events) -> Option<Event> {
    loop {
        match timeout(NEVER, events.next()).await.expect("no event") {
            Some(Event::Changed(_)) => {}
            other => return other,
        }
    }
}

/// The next event must be `Changed`.
pub(crate) async fn changed(events: &mut Events) -> Vec<UserState> {
    match timeout(NEVER, events.next()).await.expect("no event") {
        Some(Event::Changed(states)) => states,
        other => panic!("expected Changed: {other:?}"),
    }
}
