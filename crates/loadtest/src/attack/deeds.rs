//! What one hostile peer does with one socket, until the gateway has had enough of it.

use std::iter::repeat;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use presence_protocol::{ClientMessage, Show, Status, StatusText, UserId};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::args::{Kind, peaceful};
use super::hostile::Attacker;
use super::{FORMAT, next};
use crate::dial::{Socket, connect, frame, upgrade};
use crate::failure::Failure;
use crate::worker::frames;

/// The beginning of a request that never ends.
const REQUEST: &[u8] = b"GET /ws HTTP/1.1\r\nHost: gateway\r\nX-Slow: ";

/// A socket that takes nothing for so long is given up.
const SEND_MAX: Duration = Duration::from_secs(5);

/// So few bytes does the deaf reader's system take for it.
const DEAF_BYTES: usize = 4096;

/// Before the end the deaf reader reads after all, to see how it was told off.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// So often does a popular user change.
const POPULAR_PAUSE: Duration = Duration::from_millis(200);

/// How many users a message of a storm of watches names.
const STORM_USERS: u32 = 100;

/// How much of what the gateway says at last is looked at.
const REST_LEN: u64 = 64 << 10;

impl Attacker {
    /// One socket, until the gateway ends it, which is told as a failure, or until it is left.
    pub(super) async fn live(&self, number: u32) -> Result<(), Failure> {
        match self.kind {
            Kind::SlowUpgrades => self.drip().await,
            Kind::SilentSockets => self.say_nothing(number).await,
            Kind::ConnectsAndDrops => self.drop_at_once(number).await,
            Kind::DeafReader if number == 0 => self.listen_to_nothing().await,
            Kind::DeafReader => self.change(&name("churn", number)).await,
            Kind::Pings => {
                self.flood(number, |_| Message::Ping(Bytes::from_static(b"flood"))).await
            }
            Kind::TinyFrames => self.flood(number, |_| Message::Binary(Bytes::new())).await,
            Kind::Fragments => self.flood(number, fragment).await,
            Kind::WatchStorms => self.flood(number, watch_or_not).await,
            Kind::ManySessions => self.stay("many").await,
            Kind::PopularUser if number == 0 => self.be_popular().await,
            Kind::PopularUser => self.admire(number).await,
        }
    }

    async fn drip(&self) -> Result<(), Failure> {
        let mut stream = connect(self.gateway.route()).await?;
        let (mut reader, mut writer) = stream.split();
        let mut end = pin!(end_of(&mut reader));
        for byte in REQUEST.iter().chain(repeat(&b'x')) {
            tokio::select! {
                biased;
                failure = &mut end => return Err(failure),
                () = self.turn() => writer.write_all(&[*byte]).await?,
            }
        }
        Ok(())
    }

    /// Of three, one asks for nothing, one says no hello, and one falls silent.
    async fn say_nothing(&self, number: u32) -> Result<(), Failure> {
        let mut stream = match number % 3 {
            0 => connect(self.gateway.route()).await?,
            1 => upgrade(self.gateway.route()).await?.into_inner(),
            _ => self.join(&name("silent", number)).await?.into_inner(),
        };
        Err(end_of(&mut stream).await)
    }

    async fn drop_at_once(&self, number: u32) -> Result<(), Failure> {
        match number % 3 {
            0 => drop(connect(self.gateway.route()).await?),
            1 => connect(self.gateway.route()).await?.write_all(REQUEST).await?,
            _ => drop(self.join(&name("drop", number)).await?),
        }
        Ok(())
    }

    async fn listen_to_nothing(&self) -> Result<(), Failure> {
        let mut socket = self.join("deaf").await?;
        SockRef::from(socket.get_ref()).set_recv_buffer_size(DEAF_BYTES)?;
        let users = (1..self.peers).map(|number| user(&name("churn", number))).collect();
        let watch = ClientMessage::Watch { users, id: None, grant: None };
        socket.send(frame(FORMAT, &watch)).await?;
        let left = self.end.saturating_duration_since(Instant::now());
        sleep(left.saturating_sub(LAST_LOOK)).await;
        Err(until_closed(&mut socket).await)
    }

    async fn change(&self, name: &str) -> Result<(), Failure> {
        let mut socket = self.join(name).await?;
        self.send_turn_by_turn(&mut socket, status).await
    }

    async fn flood(&self, number: u32, message: impl FnMut(u32) -> Message) -> Result<(), Failure> {
        let mut socket = self.join(&name("flood", number)).await?;
        self.send_turn_by_turn(&mut socket, message).await
    }

    async fn send_turn_by_turn(
        &self,
        socket: &mut Socket,
        mut message: impl FnMut(u32) -> Message,
    ) -> Result<(), Failure> {
        let mut count = 0;
        loop {
            let sent = tokio::select! {
                biased;
                message = next(socket) => { message?; continue }
                () = self.turn() => timeout(SEND_MAX, socket.send(message(count))).await,
            };
            if sent.map_err(|_| Failure::TimedOut)?.is_err() {
                return Err(until_closed(socket).await);
            }
            count += 1;
        }
    }

    async fn stay(&self, name: &str) -> Result<(), Failure> {
        Err(until_closed(&mut self.join(name).await?).await)
    }

    async fn be_popular(&self) -> Result<(), Failure> {
        let mut socket = self.join("popular").await?;
        let mut pauses = interval(POPULAR_PAUSE);
        let mut count = 0;
        loop {
            tokio::select! {
                message = next(&mut socket) => drop(message?),
                _ = pauses.tick() => socket.send(status(count)).await?,
            }
            count += 1;
        }
    }

    async fn admire(&self, number: u32) -> Result<(), Failure> {
        let mut socket = self.join(&name("fan", number)).await?;
        let watch = ClientMessage::Watch { users: vec![user("popular")], id: None, grant: None };
        socket.send(frame(FORMAT, &watch)).await?;
        Err(until_closed(&mut socket).await)
    }

    async fn join(&self, name: &str) -> Result<Socket, Failure> {
        self.gateway.join(user(name)).await
    }
}

fn name(what: &str, number: u32) -> String {
    format!("{what}-{number}")
}

fn user(name: &str) -> UserId {
    UserId::new(&format!("attack-{name}")).expect("it is short")
}

/// As long as it may be, and another each time.
fn status(count: u32) -> Message {
    let text = StatusText::new(&format!("{count:0>200}")).expect("it is short enough");
    frame(FORMAT, &ClientMessage::Status(Status { show: Show::Busy, text: Some(text) }))
}

fn fragment(count: u32) -> Message {
    let data = if count == 0 { Data::Binary } else { Data::Continue };
    Message::Frame(Frame::message("x", OpCode::Data(data), false))
}

fn watch_or_not(count: u32) -> Message {
    let users = (0..STORM_USERS).map(peaceful).collect();
    let message = if count.is_multiple_of(2) {
        ClientMessage::Watch { users, id: None, grant: None }
    } else {
        ClientMessage::Unwatch { users }
    };
    frame(FORMAT, &message)
}

/// Reads what comes until the socket is closed, and why it was.
async fn until_closed(socket: &mut Socket) -> Failure {
    loop {
        if let Err(failure) = next(socket).await {
            return failure;
        }
    }
}

/// The same of a socket on which nothing is answered, not even a Ping, or that never was a WebSocket.
async fn end_of(stream: &mut (impl AsyncRead + Unpin)) -> Failure {
    let mut rest = Vec::new();
    if let Err(error) = stream.take(REST_LEN).read_to_end(&mut rest).await {
        return error.into();
    }
    if let Some(status) = rest.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)) {
        return StatusCode::from_bytes(status).map_or(Failure::Ended, Failure::Upgrade);
    }
    let mut rest = &rest[..];
    while let Ok(Some(found)) = frames::next(rest) {
        if found.kind == frames::Kind::Close {
            return Failure::Closed(frames::close_code(found.payload));
        }
        rest = &rest[found.len..];
    }
    Failure::Ended
}
