//! One connection, from the `welcome` to its end. It says what is wanted and takes in what is said.

use std::time::Duration;

use presence_protocol::{ClientMessage, GatewayMessage, Welcome};
use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::asks::{Asks, Query, Verdict};
use crate::event::{DisconnectReason, Event};
use crate::options::Heartbeat;
use crate::pulse::{Beat, Pulse};
use crate::shared::{Leaving, Shared};
use crate::socket::{Incoming, Socket};

/// A connection that is signed in.
pub(crate) struct Online<'a> {
    shared: &'a Shared,
    asks: &'a mut Asks,
    queries: &'a mut mpsc::Receiver<Query>,
    socket: Socket,
    pulse: Pulse,
    began: Instant,
    move_at: Option<Instant>,
}

/// How a connection ended.
pub(crate) struct Ended {
    pub(crate) why: Why,
    /// When the gateway said to come back, if it did.
    pub(crate) return_at: Option<Instant>,
    /// Whether it lasted long enough to count as a good one.
    pub(crate) was_good: bool,
}

pub(crate) enum Why {
    Lost(DisconnectReason),
    SignedOut,
    Abandoned,
}

/// What the connection's loop can be woken by.
enum Turn {
    Wanted,
    Asked(Query),
    Heard(Result<Incoming, DisconnectReason>),
    TimePassed,
}

impl From<DisconnectReason> for Why {
    fn from(reason: DisconnectReason) -> Self {
        Self::Lost(reason)
    }
}

impl<'a> Online<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        asks: &'a mut Asks,
        queries: &'a mut mpsc::Receiver<Query>,
        socket: Socket,
        welcome: &Welcome,
        heartbeat: Heartbeat,
    ) -> Self {
        let began = Instant::now();
        let pulse = Pulse::new(welcome, heartbeat, began, fastrand::Rng::new());
        Self { shared, asks, queries, socket, pulse, began, move_at: None }
    }

    /// Serves the connection until it ends.
    pub(crate) async fn run(mut self) -> Ended {
        let why = loop {
            if let Err(why) = self.turn().await {
                break why;
            }
        };
        self.shared.with_view(|view| self.asks.disconnected(view));
        Ended { why, return_at: self.move_at, was_good: self.pulse.was_good(self.began) }
    }

    async fn turn(&mut self) -> Result<(), Why> {
        self.say_what_is_wanted().await?;
        match self.next_turn().await {
            Turn::Wanted => self.obey().await,
            Turn::Asked(query) => {
                self.asks.query(query);
                Ok(())
            }
            Turn::Heard(incoming) => {
                self.pulse.heard(Instant::now());
                self.take_in(incoming?);
                // A gateway that never pauses must not keep us from our own heartbeats.
                if Instant::now() >= self.deadline() { self.keep_time().await } else { Ok(()) }
            }
            Turn::TimePassed => self.keep_time().await,
        }
    }

    async fn next_turn(&mut self) -> Turn {
        let deadline = self.deadline();
        select! {
            biased;
            // What the application wants may end the connection, so nothing may hold it up.
            () = self.shared.woken() => Turn::Wanted,
            // Before the clock: whoever was held up must not take a heard gateway for a dead one.
            incoming = self.socket.receive() => Turn::Heard(incoming),
            () = sleep_until(deadline) => Turn::TimePassed,
            // Last, as it only adds work; when too much waits the callers wait.
            Some(query) = self.queries.recv(), if self.asks.has_room_for_a_query() => {
                Turn::Asked(query)
            }
        }
    }

    fn deadline(&self) -> Instant {
        let others = [self.asks.deadline(), self.move_at].into_iter().flatten();
        others.fold(self.pulse.deadline(), Instant::min)
    }

    /// Sends all that may be sent now, with one flush.
    async fn say_what_is_wanted(&mut self) -> Result<(), DisconnectReason> {
        let now = Instant::now();
        let status = self.shared.take_unsent_status().map(ClientMessage::Status);
        let mut messages: Vec<ClientMessage> = status.into_iter().collect();
        self.shared.with_view(|view| {
            messages.extend(std::iter::from_fn(|| self.asks.next(view, now)));
        });
        if messages.is_empty() { Ok(()) } else { self.socket.send(&messages).await }
    }

    async fn obey(&mut self) -> Result<(), Why> {
        match self.shared.leaving() {
            None => Ok(()),
            Some(Leaving::Abandoned) => Err(Why::Abandoned),
            Some(Leaving::SigningOut) => {
                self.socket.sign_out().await;
                Err(Why::SignedOut)
            }
        }
    }

    fn take_in(&mut self, incoming: Incoming) {
        let Incoming::Message(message) = incoming else { return };
        match message {
            GatewayMessage::Snapshot { id, users } => {
                self.asks.answered(id.as_ref(), &users);
                self.shared.apply(users);
            }
            GatewayMessage::Presence { users } => self.shared.apply(users),
            GatewayMessage::Degraded { since } => self.shared.degraded(since),
            GatewayMessage::Draining { reconnect_after_ms } => self.drain(reconnect_after_ms),
            GatewayMessage::Error(error) => match self.asks.refused(&error, Instant::now()) {
                Verdict::Tell => self.shared.tell(&Event::Refused(error)),
                Verdict::SendAgain => self.shared.send_status_again(),
                Verdict::Handled => {}
            },
            // The answer to a renewed `hello`, which this client never sends.
            GatewayMessage::Welcome(_) => {}
        }
    }

    fn drain(&mut self, reconnect_after_ms: u64) {
        let reconnect_in = Duration::from_millis(reconnect_after_ms);
        self.move_at = Some(Instant::now() + reconnect_in);
        self.shared.tell(&Event::Draining { reconnect_in });
    }

    async fn keep_time(&mut self) -> Result<(), Why> {
        let now = Instant::now();
        if self.move_at.is_some_and(|move_at| now >= move_at) {
            return Err(DisconnectReason::Draining.into());
        }
        self.shared.with_view(|view| self.asks.expire(view, now));
        match self.pulse.beat(now) {
            Beat::Rest => Ok(()),
            Beat::Ping => Ok(self.socket.ping().await?),
            Beat::Dead => Err(DisconnectReason::Silent.into()),
        }
    }
}
