//! One connection: its start, and then a small task that heartbeats and counts what it hears.
//!
//! Nothing is kept here that can travel: a Ping carries its own time, and a `watch` has the time it
//! was sent as its id.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use presence_protocol::{Availability, ClientMessage, GatewayMessage, RequestId, UserState};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::dial::{Failure, Socket, close_label, frame, read, refusal, sign_in};
use crate::run::{NOT_SIGNED_IN, Run};
use crate::views::{Change, Views};

/// What a connection can be woken by.
enum Turn {
    Beat { due_us: u64 },
    Frame(Option<Result<Message, WsError>>),
}

/// Connects the n-th user, and leaves the socket to a task of its own.
pub(crate) async fn start(run: Arc<Run>, index: u32) {
    let began = Instant::now();
    let limit = run.plan.connect_timeout;
    let signed_in = timeout(limit, sign_in(&run, index)).await.unwrap_or(Err(Failure::TimedOut));
    match signed_in {
        Ok(socket) => {
            run.tally.connect.record(began.elapsed());
            run.tally.connected.add(1);
            tokio::spawn(hold(run, index, socket));
        }
        Err(failure) => {
            run.tally.failed.add(1);
            count(&run, &failure);
        }
    }
}

async fn hold(run: Arc<Run>, index: u32, socket: Socket) {
    let views = Views::new(run.plan.schedule.watched_by(index));
    let mut connection = Connection { run, index, socket, views };
    let failure = connection.live().await;
    let Connection { run, views, .. } = connection;
    run.hello_sent_us[index as usize].store(NOT_SIGNED_IN, Ordering::Relaxed);
    run.tally.seen_online.sub(u64::from(views.online()));
    run.tally.dropped.add(1);
    count(&run, &failure);
}

fn count(run: &Run, failure: &Failure) {
    if let Failure::Closed(code) = failure {
        run.tally.closes.add(close_label(*code));
    }
    run.tally.errors.add(failure.to_string());
}

struct Connection {
    run: Arc<Run>,
    index: u32,
    socket: Socket,
    views: Views,
}

impl Connection {
    async fn live(&mut self) -> Failure {
        self.run.beats.begin(self.index);
        if let Err(failure) = self.watch().await {
            return failure;
        }
        loop {
            let done = match self.next_turn().await {
                Turn::Beat { due_us } => self.ping(due_us).await,
                Turn::Frame(Some(Ok(frame))) => self.take_in(frame),
                Turn::Frame(Some(Err(error))) => Err(error.into()),
                Turn::Frame(None) => Err(Failure::Ended),
            };
            if let Err(failure) = done {
                return failure;
            }
        }
    }

    async fn next_turn(&mut self) -> Turn {
        let Self { run, index, socket, .. } = self;
        poll_fn(|cx| match run.beats.poll_due(*index, cx) {
            Poll::Ready(due_us) => Poll::Ready(Turn::Beat { due_us }),
            Poll::Pending => socket.poll_next_unpin(cx).map(Turn::Frame),
        })
        .await
    }

    async fn watch(&mut self) -> Result<(), Failure> {
        if self.views.users().is_empty() {
            return Ok(());
        }
        let users = self.views.users().iter().map(|index| self.run.plan.user(*index)).collect();
        let id = Some(RequestId::Number(self.run.now_us()));
        let watch = frame(self.run.plan.format, &ClientMessage::Watch { users, id });
        Ok(self.socket.send(watch).await?)
    }

    async fn ping(&mut self, due_us: u64) -> Result<(), Failure> {
        let now_us = self.run.now_us();
        self.run.tally.lateness.record_us(now_us.saturating_sub(due_us));
        self.run.tally.pings.add(1);
        let time = Bytes::copy_from_slice(&now_us.to_be_bytes());
        Ok(self.socket.send(Message::Ping(time)).await?)
    }

    fn take_in(&mut self, frame: Message) -> Result<(), Failure> {
        if let Message::Pong(time) = &frame {
            self.take_in_pong(time);
        }
        let run = self.run.clone();
        match read(run.plan.format, frame)? {
            Some(GatewayMessage::Snapshot { id, users }) => {
                if let Some(RequestId::Number(sent_us)) = id {
                    run.tally.snapshot.record_us(run.now_us().saturating_sub(sent_us));
                }
                run.tally.snapshot_states.add(users.len() as u64);
                for state in &users {
                    self.see(state);
                }
            }
            Some(GatewayMessage::Presence { users }) => {
                for state in &users {
                    self.take_in_push(state);
                }
            }
            Some(GatewayMessage::Error(error)) => {
                run.tally.errors.add(refusal(error.code.as_str()));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_in_pong(&self, time: &[u8]) {
        let Ok(sent_us) = time.try_into().map(u64::from_be_bytes) else { return };
        self.run.tally.pongs.add(1);
        self.run.tally.ping.record_us(self.run.now_us().saturating_sub(sent_us));
    }

    fn take_in_push(&mut self, state: &UserState) {
        let tally = &self.run.tally;
        match state.state {
            Availability::Online => tally.pushed_online.add(1),
            Availability::Offline => tally.pushed_offline.add(1),
        }
        let sent_us = self.hello_sent_us(state);
        match (self.see(state), sent_us) {
            (Change::CameOnline, Some(sent_us)) => {
                self.run.tally.push.record_us(self.run.now_us().saturating_sub(sent_us));
            }
            // Each of these was signed in all the time since, and nobody may show it offline.
            (Change::WentOffline, Some(_)) => self.run.tally.flickers.add(1),
            (Change::Dropped, _) => self.run.tally.pushed_not_newer.add(1),
            _ => {}
        }
    }

    /// When the user signed in, if it did so in this process and still is.
    fn hello_sent_us(&self, state: &UserState) -> Option<u64> {
        let index = self.run.plan.index_of(&state.user)?;
        let sent_us = self.run.hello_sent_us.get(index as usize)?.load(Ordering::Relaxed);
        (sent_us != NOT_SIGNED_IN).then_some(sent_us)
    }

    /// Takes a state into the view, and counts those seen online.
    fn see(&mut self, state: &UserState) -> Change {
        let Some(user) = self.run.plan.index_of(&state.user) else { return Change::Dropped };
        let is_online = state.state == Availability::Online;
        let change = self.views.take(user, state.version, is_online);
        match change {
            Change::CameOnline => self.run.tally.seen_online.add(1),
            Change::WentOffline => self.run.tally.seen_online.sub(1),
            Change::None | Change::Dropped => {}
        }
        change
    }
}
