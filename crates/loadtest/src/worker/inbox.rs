//! What is received: read into one buffer for all connections, taken apart, and counted.

use std::io::{ErrorKind, Read};
use std::mem;
use std::time::Duration;

use presence_protocol::{
    Availability, ErrorCode, ErrorMessage, GatewayMessage, RequestId, UserState, decode_gateway,
};

use crate::failure::{Failure, refusal};
use crate::ledger::Truth;
use crate::measures::{Count, Timing, micros};
use crate::worker::connection::Stage;
use crate::worker::frames::{self, Incoming, Kind, MESSAGE_LEN_MAX};
use crate::worker::judge::{Verdict, is_offline_untold};
use crate::worker::opening::{ASK_AGAIN_US, Upgrade};
use crate::worker::reactor::{Later, Worker};
use crate::worker::views::Change;

impl Worker {
    /// Reads all that is there, but not always the end of the stream behind it, for which it may take
    /// another call. What comes is taken to have come `now_us`.
    pub(super) fn read(&mut self, index: u32, now_us: u64) {
        let mut inbox = mem::take(&mut self.inbox);
        let read = self.read_into(&mut inbox, index, now_us);
        self.inbox = inbox;
        if let Err(failure) = read {
            self.lose(index, &failure);
        }
    }

    fn read_into(&mut self, inbox: &mut Vec<u8>, index: u32, now_us: u64) -> Result<(), Failure> {
        loop {
            let connection = &mut self.connections[index as usize];
            let mut filled = 0;
            if let Some(partial) = &mut connection.partial {
                filled = partial.incoming.len();
                if filled >= inbox.len() {
                    inbox.resize((2 * filled).min(2 * MESSAGE_LEN_MAX), 0);
                }
                inbox[..filled].copy_from_slice(&partial.incoming);
                partial.incoming.clear();
            }
            let Some(socket) = &mut connection.socket else { return Ok(()) };
            let (room, is_encrypted) = (inbox.len() - filled, socket.is_encrypted());
            let more = match socket.read(&mut inbox[filled..]) {
                Ok(0) => return Err(Failure::Ended),
                Ok(more) => more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            filled += more;
            // What is encrypted is read piece by piece, and what is done with one takes its time.
            let now_us = if is_encrypted { self.clock.now_us() } else { now_us };
            self.measures.add(Count::BytesIn, more as u64);
            let taken = self.take_in(index, &inbox[..filled], now_us)?;
            self.keep(index, &inbox[taken..filled]);
            // Nothing more was there: when something comes, it is told. What is encrypted comes record by record.
            if more == 0 || more < room && !is_encrypted {
                return Ok(());
            }
        }
    }

    fn keep(&mut self, index: u32, rest: &[u8]) {
        let connection = self.connection(index);
        if connection.socket.is_some() && !rest.is_empty() {
            let partial = connection.partial.get_or_insert_default();
            partial.incoming.extend_from_slice(rest);
        } else {
            connection.tidy();
        }
    }

    /// Takes in all that is whole, and tells how much it was.
    fn take_in(&mut self, index: u32, bytes: &[u8], now_us: u64) -> Result<usize, Failure> {
        let mut taken = 0;
        if self.connection(index).stage == Stage::Upgrading {
            match self.check_upgrade(bytes)? {
                Upgrade::Partial => return Ok(0),
                Upgrade::Done { len } => taken = len,
            }
            self.greet(index)?;
        }
        while let Some(frame) = frames::next(&bytes[taken..])? {
            taken += frame.len;
            self.take_in_frame(index, &frame, now_us)?;
        }
        Ok(taken)
    }

    fn take_in_frame(
        &mut self,
        index: u32,
        frame: &Incoming<'_>,
        now_us: u64,
    ) -> Result<(), Failure> {
        match frame.kind {
            Kind::Close => Err(Failure::Closed(frames::close_code(frame.payload))),
            Kind::Pong => {
                self.take_in_pong(index, frame.payload, now_us);
                Ok(())
            }
            // It is no sign of life of one who is frozen.
            Kind::Ping if self.connection(index).stage == Stage::Frozen => Ok(()),
            Kind::Ping => {
                self.count(Count::PongsSent);
                self.send(index, Kind::Pong, frame.payload)
            }
            Kind::Text | Kind::Binary => {
                let message = decode_gateway(self.world.format, frame.payload);
                let message = message.map_err(|error| Failure::Garbage(error.message))?;
                self.take_in_message(index, message, now_us)
            }
        }
    }

    fn take_in_pong(&mut self, index: u32, payload: &[u8], now_us: u64) {
        let Ok(due_us) = payload.try_into().map(u64::from_be_bytes) else { return };
        self.connection(index).ponged();
        self.count(Count::Pongs);
        self.measures.time(Timing::Ping, now_us.saturating_sub(due_us));
    }

    fn take_in_message(
        &mut self,
        index: u32,
        message: GatewayMessage,
        now_us: u64,
    ) -> Result<(), Failure> {
        let is_late = self.connection(index).stage == Stage::Frozen;
        match message {
            GatewayMessage::Welcome(welcome) => return self.on_welcome(index, &welcome),
            GatewayMessage::Snapshot { id, users } => {
                if let Some(RequestId::Number(sent_us)) = id
                    && !is_late
                {
                    self.measures.time(Timing::Snapshot, now_us.saturating_sub(sent_us));
                    let wanted_us = self.connection(index).wanted_us;
                    self.measures.time(Timing::ContactsShown, now_us.saturating_sub(wanted_us));
                }
                self.measures.add(Count::SnapshotStates, users.len() as u64);
                for state in &users {
                    self.take_in_snapshot(index, state);
                }
            }
            GatewayMessage::Presence { users } => {
                for state in &users {
                    if is_late {
                        self.see(index, state);
                    } else {
                        self.take_in_push(index, state, now_us);
                    }
                }
            }
            GatewayMessage::Error(error) => self.take_in_refusal(index, &error, now_us),
            GatewayMessage::Draining { reconnect_after_ms } => {
                if self.world.scenario.reconnect.is_some() {
                    let after_us = micros(Duration::from_millis(reconnect_after_ms));
                    self.do_later(now_us + after_us, index, Later::Move);
                    self.connection(index).is_sent_away = true;
                }
            }
            GatewayMessage::Degraded { .. } => {}
        }
        Ok(())
    }

    /// Only a `watch` has an id; and who may be watched no longer is told without one.
    fn take_in_refusal(&mut self, index: u32, error: &ErrorMessage, now_us: u64) {
        self.measures.error(refusal(error.code.as_str()));
        let is_of_watch = error.id.is_some() || error.code == ErrorCode::NotAllowed;
        match error.code {
            // It is kept: the states follow by themselves.
            ErrorCode::StoreUnavailable => {}
            ErrorCode::Undecided if is_of_watch => {
                self.connection(index).is_refused = true;
                self.count(Count::MessagesRefused);
                self.do_later(now_us + ASK_AGAIN_US, index, Later::Watch);
            }
            _ if is_of_watch => {
                let connection = self.connection(index);
                if !mem::replace(&mut connection.is_refused, true) {
                    self.count(Count::WatchesRefused);
                }
            }
            _ => self.count(Count::MessagesRefused),
        }
    }

    /// A snapshot tells what was so at some time after it was asked for.
    fn take_in_snapshot(&mut self, index: u32, state: &UserState) {
        let Some((user, _)) = self.see(index, state) else { return };
        if state.state == Availability::Offline {
            let asked_us = self.connection(index).listens_us;
            let truth = self.truth_of(user);
            if truth.is_online()
                && self.rules.judge_offline(truth, asked_us, asked_us) == Verdict::FalseOffline
            {
                self.count(Count::FalseOffline);
            }
        }
    }

    fn take_in_push(&mut self, index: u32, state: &UserState, now_us: u64) {
        self.count(match state.state {
            Availability::Online => Count::PushedOnline,
            Availability::Offline => Count::PushedOffline,
        });
        match self.see(index, state) {
            Some((user, Change::CameOnline)) => {
                let (Truth::Joining { since, .. } | Truth::Online { since, .. }) =
                    self.truth_of(user)
                else {
                    return;
                };
                self.measures.time(Timing::OnlinePush, now_us.saturating_sub(since));
            }
            Some((user, Change::WentOffline)) => self.judge_offline(user, now_us),
            Some((user, Change::CameBack)) => {
                let listens_us = self.connection(index).listens_us;
                let truth = self.truth_of(user);
                if is_offline_untold(truth, listens_us, now_us) {
                    self.count(Count::OfflineUntold);
                    self.count(Count::LostChanges);
                }
            }
            Some((_, Change::Dropped)) | None => self.count(Count::Backward),
            Some((_, Change::None)) => {}
        }
    }

    fn judge_offline(&mut self, user: u32, now_us: u64) {
        let truth = self.truth_of(user);
        match self.rules.judge_offline(truth, self.turns.heard_us(), now_us) {
            Verdict::Late(timing, late_us) => {
                self.measures.time(timing, late_us);
                if timing == Timing::OfflineSilent {
                    self.count(Count::SilentTold);
                }
            }
            Verdict::Early => self.count(Count::EarlyOffline),
            Verdict::FalseOffline => self.count(Count::FalseOffline),
            Verdict::FlapShown => self.count(Count::FlapsShown),
            Verdict::Unjudged => {}
        }
    }

    /// Takes a state into the view of a connection; none for somebody else's user.
    fn see(&mut self, index: u32, state: &UserState) -> Option<(u32, Change)> {
        let user = self.world.user_named(state.user.as_str())?;
        let is_online = state.state == Availability::Online;
        let since_ms = state.since.unwrap_or_default();
        let views = &mut self.connection(index).views;
        Some((user, views.take(user, state.version, is_online, since_ms)))
    }
}
