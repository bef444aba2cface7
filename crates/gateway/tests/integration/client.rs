//! A small client of the gateway. A task of its own reads the socket, so that Pings are answered and arrivals are timed
//! while a test does something else. What must not happen panics with a sentence.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use presence_protocol::{
    ClientMessage, Device, ErrorCode, ErrorMessage, Format, GatewayMessage, Hello, RequestId, Show,
    Status, StatusText, UserId, UserState, Welcome, decode_gateway, encode_client,
};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::dial::Dial;

/// How long anything that must come may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    format: Format,
    orders: mpsc::UnboundedSender<Order>,
    heard: mpsc::UnboundedReceiver<(Instant, Heard)>,
    /// What came while an answer was awaited.
    early: VecDeque<Arrival>,
    last_id: u64,
}

/// A message, and when it was read.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) message: GatewayMessage,
}

/// A state that was pushed, and when it was read.
#[derive(Debug)]
pub(crate) struct Push {
    pub(crate) at: Instant,
    pub(crate) state: UserState,
}

#[derive(Debug)]
pub(crate) enum Heard {
    Frame(Bytes),
    Pong,
    /// With a code and a sentence, or without.
    Close(Option<(u16, String)>),
    Lost,
}

enum Order {
    Send(Message),
    Freeze,
    Wake,
    Reset,
    Done(oneshot::Sender<()>),
}

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user id")
}

pub(crate) fn users<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Vec<UserId> {
    names.into_iter().map(|name| user(name.as_ref())).collect()
}

/// The name of one of many users.
pub(crate) fn name(number: usize) -> String {
    format!("u{number}")
}

/// The names of so many users.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(name).collect()
}

impl Client {
    /// Opens a socket, and says nothing yet.
    pub(crate) async fn dial(addr: SocketAddr, format: Format) -> Self {
        Dial::new(addr).format(format).open().await
    }

    /// Opens a socket and signs in.
    pub(crate) async fn join(addr: SocketAddr, format: Format, name: &str) -> Self {
        let mut client = Self::dial(addr, format).await;
        client.hello(name).await;
        client
    }

    pub(crate) fn on(socket: WebSocketStream<TcpStream>, format: Format) -> Self {
        let (orders, to_do) = mpsc::unbounded_channel();
        let (tell, heard) = mpsc::unbounded_channel();
        tokio::spawn(live(socket, to_do, tell));
        Self { format, orders, heard, early: VecDeque::new(), last_id: 0 }
    }

    // What it says.

    pub(crate) fn send(&self, message: &ClientMessage) {
        let frame = encode_client(self.format, message);
        self.send_raw(match self.format {
            Format::MsgPack => Message::Binary(frame),
            Format::Json => Message::Text(frame.try_into().expect("JSON is UTF-8")),
        });
    }

    /// A text frame, written by hand.
    pub(crate) fn send_text(&self, text: &str) {
        self.send_raw(Message::text(text));
    }

    pub(crate) fn send_raw(&self, message: Message) {
        // Where the socket is gone, reading tells.
        let _ = self.orders.send(Order::Send(message));
    }

    /// A frame that breaks a rule.
    pub(crate) fn send_frame(&self, frame: Frame) {
        self.send_raw(Message::Frame(frame));
    }

    pub(crate) fn heartbeat(&self) {
        self.send(&ClientMessage::Heartbeat);
    }

    pub(crate) fn ping(&self) {
        self.send_raw(Message::Ping(Bytes::from_static(b"still here")));
    }

    pub(crate) fn set_status(&self, show: Show, text: Option<&str>) {
        let text = text.map(|text| StatusText::new(text).expect("a status text"));
        self.send(&ClientMessage::Status(Status { show, text }));
    }

    pub(crate) async fn hello(&mut self, name: &str) -> Welcome {
        self.hello_with(Hello { user: Some(user(name)), ..Hello::default() }).await
    }

    pub(crate) async fn hello_from(&mut self, name: &str, device: &str) -> Welcome {
        let device = Some(Device::new(device).expect("a device label"));
        self.hello_with(Hello { user: Some(user(name)), device, ..Hello::default() }).await
    }

    pub(crate) async fn hello_with(&mut self, hello: Hello) -> Welcome {
        self.send(&ClientMessage::Hello(hello));
        match self.next().await.message {
            GatewayMessage::Welcome(welcome) => welcome,
            other => panic!("a welcome was due, not {other:?}"),
        }
    }

    /// Signs out, and is let go.
    pub(crate) async fn bye(mut self) {
        self.send(&ClientMessage::Bye);
        self.expect_close(1000).await;
    }

    // What it asks.

    pub(crate) async fn watch<S: AsRef<str>>(
        &mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Vec<UserState> {
        let users = users(names);
        self.ask(|id| ClientMessage::Watch { users, id, grant: None })
            .await
            .expect("the watch is allowed")
    }

    pub(crate) async fn query<S: AsRef<str>>(
        &mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Vec<UserState> {
        let users = users(names);
        self.ask(|id| ClientMessage::Query { users, id, grant: None })
            .await
            .expect("the query is allowed")
    }

    pub(crate) fn unwatch<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) {
        self.send(&ClientMessage::Unwatch { users: users(names) });
    }

    /// Comes back when all that was asked and said before is handled: requests are answered in order.
    pub(crate) async fn fence(&mut self) {
        self.query::<&str>([]).await;
    }

    /// Asks with an id of its own, and waits for the answer with that id.
    pub(crate) async fn ask(
        &mut self,
        request: impl FnOnce(Option<RequestId>) -> ClientMessage,
    ) -> Result<Vec<UserState>, ErrorMessage> {
        let id = self.fresh_id();
        self.send(&request(Some(id.clone())));
        self.answer(&id).await
    }

    pub(crate) fn fresh_id(&mut self) -> RequestId {
        self.last_id += 1;
        RequestId::Number(self.last_id)
    }

    /// The answer with this id. What comes before it is kept for later, but for states that it covers: a push may
    /// overtake the snapshot.
    pub(crate) async fn answer(&mut self, id: &RequestId) -> Result<Vec<UserState>, ErrorMessage> {
        let mut early = std::mem::take(&mut self.early);
        loop {
            let arrival = self.next().await;
            match arrival.message {
                GatewayMessage::Snapshot { id: Some(answered), users } if answered == *id => {
                    early.retain(|arrival| !is_covered(&arrival.message, &users));
                    self.early = early;
                    return Ok(users);
                }
                GatewayMessage::Error(error) if error.id.as_ref() == Some(id) => {
                    self.early = early;
                    return Err(error);
                }
                message => early.push_back(Arrival { at: arrival.at, message }),
            }
        }
    }

    // What it hears.

    /// The next message of the gateway. Panics when the socket closes instead.
    pub(crate) async fn next(&mut self) -> Arrival {
        let next = self.next_within(PATIENCE).await;
        next.unwrap_or_else(|| panic!("nothing came within {PATIENCE:?}"))
    }

    pub(crate) async fn next_within(&mut self, limit: Duration) -> Option<Arrival> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let (at, frame) = self.frame_within(limit).await?;
        Some(Arrival { at, message: self.decode(&frame) })
    }

    /// The bytes of the next message.
    pub(crate) async fn next_frame(&mut self) -> Bytes {
        assert!(self.early.is_empty(), "unread: {:?}", self.early);
        let next = self.frame_within(PATIENCE).await;
        next.unwrap_or_else(|| panic!("nothing came within {PATIENCE:?}")).1
    }

    /// The next message must tell of this one user, and of nobody else.
    pub(crate) async fn expect_presence(&mut self, name: &str) -> Push {
        let Arrival { at, message } = self.next().await;
        match message {
            GatewayMessage::Presence { users }
                if users.len() == 1 && users[0].user == user(name) =>
            {
                Push { at, state: users.into_iter().next().expect("there is one") }
            }
            other => panic!("presence of {name} was due, not {other:?}"),
        }
    }

    pub(crate) async fn expect_online(&mut self, name: &str) -> Push {
        let push = self.expect_presence(name).await;
        assert_eq!(push.state.state.as_str(), "online", "{push:?}");
        push
    }

    pub(crate) async fn expect_offline(&mut self, name: &str) -> Push {
        let push = self.expect_presence(name).await;
        assert_eq!(push.state.state.as_str(), "offline", "{push:?}");
        push
    }

    pub(crate) async fn expect_error(&mut self, code: ErrorCode) -> ErrorMessage {
        match self.next().await.message {
            GatewayMessage::Error(error) if error.code == code => error,
            other => panic!("the error {code:?} was due, not {other:?}"),
        }
    }

    pub(crate) async fn expect_nothing_for(&mut self, time: Duration) {
        assert!(self.early.is_empty(), "unread: {:?}", self.early);
        if let Some((at, frame)) = self.frame_within(time).await {
            let early = time.saturating_sub(at.elapsed());
            panic!("nothing was due for {early:?} more, but {:?} came", self.decode(&frame));
        }
    }

    pub(crate) async fn expect_pong(&mut self) {
        match timeout(PATIENCE, self.heard.recv()).await {
            Ok(Some((_, Heard::Pong))) => {}
            other => panic!("a Pong was due, not {other:?}"),
        }
    }

    /// Passes over messages until the socket closes, which it must do with this code. Answers the sentence.
    pub(crate) async fn expect_close(&mut self, code: u16) -> String {
        match self.end().await {
            Heard::Close(Some((found, sentence))) if found == code => sentence,
            other => panic!("a close with {code} was due, not {other:?}"),
        }
    }

    /// Passes over messages until the socket closes, in whatever way.
    pub(crate) async fn end(&mut self) -> Heard {
        loop {
            let heard = timeout(PATIENCE, self.heard.recv()).await;
            match heard.unwrap_or_else(|_| panic!("the socket did not close within {PATIENCE:?}")) {
                Some((_, Heard::Frame(_) | Heard::Pong)) => {}
                Some((_, end)) => return end,
                None => return Heard::Lost,
            }
        }
    }

    async fn frame_within(&mut self, limit: Duration) -> Option<(Instant, Bytes)> {
        let deadline = Instant::now() + limit;
        loop {
            match tokio::time::timeout_at(deadline, self.heard.recv()).await {
                Ok(Some((at, Heard::Frame(frame)))) => return Some((at, frame)),
                Ok(Some((_, Heard::Pong))) => {}
                Ok(end) => panic!("the socket closed: {end:?}"),
                Err(_late) => return None,
            }
        }
    }

    fn decode(&self, frame: &[u8]) -> GatewayMessage {
        decode_gateway(self.format, frame)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(frame)))
    }

    // How it fails.

    /// Neither reads nor answers any more; the socket stays open. What is sent on purpose is still sent.
    pub(crate) async fn freeze(&self) {
        self.order(Order::Freeze).await;
    }

    /// Reads again.
    pub(crate) async fn wake(&self) {
        self.order(Order::Wake).await;
    }

    /// Is gone without a word, as when a process is killed over unread bytes (RST).
    pub(crate) async fn reset(self) {
        self.order(Order::Reset).await;
    }

    /// Closes its side of the connection without a close frame (FIN).
    pub(crate) fn hang_up(self) {
        drop(self);
    }

    async fn order(&self, order: Order) {
        let (done, is_done) = oneshot::channel();
        let _ = self.orders.send(order);
        let _ = self.orders.send(Order::Done(done));
        let _ = is_done.await;
    }
}

/// Whether these states say all that the message does, and nothing older.
fn is_covered(message: &GatewayMessage, states: &[UserState]) -> bool {
    let GatewayMessage::Presence { users } = message else { return false };
    users.iter().all(|pushed| {
        states.iter().any(|state| state.user == pushed.user && state.version >= pushed.version)
    })
}

/// Reads and writes for as long as both sides want it.
async fn live(
    mut socket: WebSocketStream<TcpStream>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    tell: mpsc::UnboundedSender<(Instant, Heard)>,
) {
    let mut reads = true;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                // A socket that takes no more has told why, or will when it is read.
                Some(Order::Send(message)) => drop(socket.send(message).await),
                Some(Order::Freeze) => reads = false,
                Some(Order::Wake) => reads = true,
                Some(Order::Reset) => return drop(socket.get_ref().set_zero_linger()),
                Some(Order::Done(done)) => drop(done.send(())),
                None => return,
            },
            message = socket.next(), if reads => {
                let heard = match message {
                    Some(Ok(Message::Text(text))) => Heard::Frame(text.into()),
                    Some(Ok(Message::Binary(bytes))) => Heard::Frame(bytes),
                    Some(Ok(Message::Pong(_))) => Heard::Pong,
                    Some(Ok(Message::Ping(_) | Message::Frame(_))) => continue,
                    Some(Ok(Message::Close(frame))) => Heard::Close(
                        frame.map(|frame| (frame.code.into(), frame.reason.to_string())),
                    ),
                    Some(Err(_)) | None => Heard::Lost,
                };
                let over = matches!(heard, Heard::Lost);
                let _ = tell.send((Instant::now(), heard));
                if over {
                    return;
                }
            }
        }
    }
}
