//! A session while it lives: one task that reads, heartbeats and obeys.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use presence_protocol::{ClientMessage, Format, GatewayMessage, Status, StatusText};
use rustix::net::{Shutdown, shutdown};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::dial::{Socket, frame, read};
use crate::failure::{Failure, refusal};
use crate::verify::client::{Order, cut};
use crate::verify::record::{Ending, Moment, SetStatus, Span, Us, us};
use crate::verify::world::{Record, World, user_id, user_of};

/// How long a client that said `bye` waits for the close.
const BYE_LIMIT: Duration = Duration::from_secs(2);

/// A gap between signs of life that is within this of the TTL may have ended the session.
const GAP_MARGIN: Us = 250_000;

/// Heartbeats come after this share of the interval, so that none is ever late.
const BEAT_SHARE: f64 = 0.8;

/// A session while it lives.
pub(super) struct Life {
    pub(super) world: Arc<World>,
    pub(super) record: Arc<Record>,
    pub(super) socket: Socket,
    pub(super) ordered: mpsc::UnboundedReceiver<Order>,
}

/// Why a session is over.
enum Over {
    /// By its own client.
    Here(Moment, Ending),
    There(Failure),
    /// The check is over: nothing is written down.
    Forgotten,
}

impl Life {
    pub(super) async fn live(mut self) {
        let over = self.until_over().await;
        let read_until = self.world.now();
        let (end, deaf) = match over {
            Over::Here(at, ending) => ((at, ending), at.after),
            Over::There(failure) => {
                let after = self.record.facts.lock().beat.after;
                ((Moment { after, by: read_until }, cut(&failure)), read_until)
            }
            Over::Forgotten => return,
        };
        self.record.told.lock().deaf = Some(deaf);
        self.record.facts.lock().end = Some(end);
        self.world.living.fetch_sub(1, Ordering::Relaxed);
        match end.1 {
            // The socket stays open for as long as somebody could give orders.
            Ending::Frozen => while self.ordered.recv().await.is_some() {},
            Ending::Bye => {
                let closed = async { while let Some(Ok(_)) = self.socket.next().await {} };
                let _ = timeout(BYE_LIMIT, closed).await;
            }
            _ => {}
        }
    }

    async fn until_over(&mut self) -> Over {
        let interval = self.world.heartbeat.mul_f64(BEAT_SHARE);
        let mut next_beat = Instant::now() + interval.mul_f64(fastrand::f64());
        let mut deaf_until: Option<Instant> = None;
        loop {
            let reads = deaf_until.is_none();
            tokio::select! {
                biased;
                order = self.ordered.recv() => match order {
                    None => return Over::Forgotten,
                    Some(Order::Stall(lasts)) => {
                        let start = self.world.now();
                        let stall = Span { start, end: start + us(lasts) };
                        self.record.told.lock().stalls.push(stall);
                        deaf_until = Some(Instant::now() + lasts);
                    }
                    Some(order) => if let Err(over) = self.obey(order).await {
                        return over;
                    },
                },
                () = sleep_until(deaf_until.unwrap_or(next_beat)), if !reads => deaf_until = None,
                () = sleep_until(next_beat), if reads => {
                    if let Err(failure) = self.beat().await {
                        return Over::There(failure);
                    }
                    next_beat = Instant::now() + interval;
                }
                frame = self.socket.next(), if reads => {
                    let heard = match frame {
                        Some(Ok(frame)) => self.hear(frame),
                        Some(Err(error)) => Err(error.into()),
                        None => Err(Failure::Ended),
                    };
                    if let Err(failure) = heard {
                        return Over::There(failure);
                    }
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), Over> {
        let after = self.world.now();
        match order {
            Order::Freeze => return Err(Over::Here(self.now_since(after), Ending::Frozen)),
            Order::Drop => {
                // Dropped in place, so that the moment is known to be before what follows.
                self.shut();
                return Err(Over::Here(self.now_since(after), Ending::Closed));
            }
            Order::Bye => {
                self.send(&ClientMessage::Bye).await?;
                return Err(Over::Here(self.now_since(after), Ending::Bye));
            }
            Order::Status(show, text) => {
                let status = StatusText::new(&text).expect("it is short");
                self.send(&ClientMessage::Status(Status { show, text: Some(status) })).await?;
                let set = self.now_since(after);
                self.record.facts.lock().status = Some(SetStatus { set, show, text });
            }
            Order::Watch(users) => {
                self.record.told.lock().watch(after, &users);
                let users = users.into_iter().map(user_id).collect();
                self.send(&ClientMessage::Watch { users, id: None, grant: None }).await?;
            }
            Order::Unwatch(users) => {
                self.record.told.lock().unwatch(after, &users);
                let users = users.into_iter().map(user_id).collect();
                self.send(&ClientMessage::Unwatch { users }).await?;
            }
            Order::Stall(_) => unreachable!("a stall is seen to by the loop"),
        }
        self.note_beat(after);
        Ok(())
    }

    fn shut(&mut self) {
        let _ = shutdown(self.socket.get_ref(), Shutdown::Both);
    }

    async fn send(&mut self, message: &ClientMessage) -> Result<(), Over> {
        let sent = self.socket.send(frame(Format::MsgPack, message)).await;
        sent.map_err(|error| Over::There(error.into()))
    }

    async fn beat(&mut self) -> Result<(), Failure> {
        let after = self.world.now();
        self.socket.send(Message::Ping(Bytes::new())).await?;
        self.note_beat(after);
        Ok(())
    }

    fn note_beat(&self, after: Us) {
        let gap_min = self.world.rules.ttl - GAP_MARGIN;
        self.record.facts.lock().beat(self.now_since(after), gap_min);
    }

    fn now_since(&self, after: Us) -> Moment {
        Moment { after, by: self.world.now() }
    }

    fn hear(&self, frame: Message) -> Result<(), Failure> {
        let now = self.world.now();
        if let Message::Ping(_) = frame {
            // Its Pong goes out with the next write or read: later than anything sent so far.
            let mut facts = self.record.facts.lock();
            facts.beat.by = now;
        }
        match read(Format::MsgPack, frame)? {
            Some(GatewayMessage::Snapshot { users, .. } | GatewayMessage::Presence { users }) => {
                self.world.states.add(users.len() as u64);
                let mut told = self.record.told.lock();
                for state in users {
                    if let Some(user) = user_of(&state.user) {
                        told.hear(now, user, state);
                    }
                }
            }
            Some(GatewayMessage::Error(error)) => {
                self.world.refusals.add(refusal(error.code.as_str()));
            }
            _ => {}
        }
        Ok(())
    }
}
