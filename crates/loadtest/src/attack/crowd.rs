//! The crowd that behaves: each member gives signs of life, watches others, and changes its status when it is its turn. A
//! status says when it was set, so that whoever is told of it knows how late that is.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use fastrand::Rng;
use futures::SinkExt;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use presence_protocol::{
    Availability, ClientMessage, GatewayMessage, Show, Status, StatusText, UserState,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use super::args::{AttackArgs, peaceful};
use super::{FORMAT, Gateway, next};
use crate::dial::{Socket, frame};
use crate::failure::{Failure, refusal};
use crate::measures::micros;
use crate::report::written::counted;

const HEARTBEAT: Duration = Duration::from_secs(10);

/// What a status begins with; then comes when it was set, in µs since the crowd gathered.
const SET_AT: &str = "set at ";

pub(super) struct Crowd {
    shared: Arc<Shared>,
    changes_per_second: f64,
    random: Rng,
    _members: JoinSet<()>,
}

struct Shared {
    gathered: Instant,
    members: Vec<Member>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Member {
    /// It is to change its status.
    turn: Notify,
    /// When it last did; 0 for never.
    changed_us: AtomicU64,
    /// The latest change that it was told of each user whom it watches. None when its connection is gone.
    view: Mutex<Option<BTreeMap<u32, u64>>>,
}

/// What the crowd has seen since it was asked last.
#[derive(Debug)]
pub(super) struct Seen {
    /// How late pushes came, in µs.
    pub(super) pushes: Histogram<u64>,
    /// How late turns to change a status came, in µs: this process's own part in that.
    pub(super) turns: Histogram<u64>,
    pub(super) errors: BTreeMap<String, u64>,
}

impl Default for Seen {
    fn default() -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self { pushes: histogram(), turns: histogram(), errors: BTreeMap::new() }
    }
}

impl Crowd {
    pub(super) async fn gather(gateway: &Gateway, args: &AttackArgs) -> Result<Self> {
        let count = args.connections;
        ensure!(
            args.watch < count,
            "--watch {}: each of --connections {count} has {} to watch",
            args.watch,
            counted(u64::from(count) - 1, "other")
        );
        let shared = Arc::new(Shared {
            gathered: Instant::now(),
            members: (0..count).map(|_| Member::default()).collect(),
            seen: Mutex::default(),
        });
        let mut random = Rng::with_seed(1);
        let mut members = JoinSet::new();
        for number in 0..count {
            let mut socket = gateway.join(peaceful(number)).await?;
            let others = (0..count).filter(|other| *other != number);
            let watched = random.choose_multiple(others, args.watch as usize);
            let users = watched.iter().map(|other| peaceful(*other)).collect();
            let watch = ClientMessage::Watch { users, id: None, grant: None };
            socket.send(frame(FORMAT, &watch)).await.map_err(Failure::from)?;
            let view = watched.into_iter().map(|other| (other, 0)).collect();
            *shared.members[number as usize].view.lock() = Some(view);
            let first_beat = HEARTBEAT.mul_f64(random.f64());
            members.spawn(live(shared.clone(), number, socket, first_beat));
        }
        let changes_per_second = args.changes.per_second();
        Ok(Self { shared, changes_per_second, random, _members: members })
    }

    /// One member after the other changes its status, for so long.
    pub(super) async fn change_for(&mut self, time: Duration) {
        let mut due = Instant::now();
        let end = due + time;
        while due < end {
            sleep_until(due).await;
            record(&mut self.shared.seen.lock().turns, due.elapsed());
            let members = &self.shared.members;
            members[self.random.usize(..members.len())].turn.notify_one();
            due += Duration::from_secs_f64(1.0 / self.changes_per_second);
        }
    }

    /// What was seen since this was asked last.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut *self.shared.seen.lock())
    }

    /// When all is quiet, each member must have been told of the latest change of everybody whom it watches.
    pub(super) fn compare_views(&self) {
        for member in &self.shared.members {
            for (other, told_us) in member.view.lock().iter().flatten() {
                if self.shared.members[*other as usize].changed_us.load(Relaxed) != *told_us {
                    self.shared.note("a view that is not the truth".to_owned());
                }
            }
        }
    }
}

async fn live(shared: Arc<Shared>, number: u32, mut socket: Socket, first_beat: Duration) {
    let Err(failure) = shared.serve(number, &mut socket, first_beat).await;
    *shared.members[number as usize].view.lock() = None;
    shared.note(failure.to_string());
}

impl Shared {
    async fn serve(
        &self,
        number: u32,
        socket: &mut Socket,
        first_beat: Duration,
    ) -> Result<Infallible, Failure> {
        let member = &self.members[number as usize];
        let mut beat = interval_at(Instant::now() + first_beat, HEARTBEAT);
        loop {
            tokio::select! {
                message = next(socket) => message?.into_iter().for_each(|it| self.hear(member, it)),
                () = member.turn.notified() => self.change(member, socket).await?,
                _ = beat.tick() => socket.send(Message::Ping(Bytes::new())).await?,
            }
        }
    }

    async fn change(&self, member: &Member, socket: &mut Socket) -> Result<(), Failure> {
        let now_us = micros(self.gathered.elapsed());
        member.changed_us.store(now_us, Relaxed);
        let text = StatusText::new(&format!("{SET_AT}{now_us}")).expect("it is short");
        let status = Status { show: Show::Online, text: Some(text) };
        Ok(socket.send(frame(FORMAT, &ClientMessage::Status(status))).await?)
    }

    fn hear(&self, member: &Member, message: GatewayMessage) {
        match message {
            GatewayMessage::Presence { users } => {
                for state in users {
                    if state.state == Availability::Offline {
                        self.note("somebody was shown offline".to_owned());
                    }
                    self.take_in(member, &state);
                }
            }
            // Of a time before anything changed.
            GatewayMessage::Snapshot { .. } => {}
            GatewayMessage::Error(error) => self.note(refusal(error.code.as_str())),
            other => self.note(format!("not expected: {other:?}")),
        }
    }

    fn take_in(&self, member: &Member, state: &UserState) {
        let number = |text: &str, start| text.strip_prefix(start)?.parse::<u64>().ok();
        let text = state.text.as_ref().map(StatusText::as_str);
        let Some(set_us) = text.and_then(|text| number(text, SET_AT)) else { return };
        let late_us = micros(self.gathered.elapsed()).saturating_sub(set_us);
        record(&mut self.seen.lock().pushes, Duration::from_micros(late_us));
        let user = number(state.user.as_str(), "peace-").unwrap_or_default() as u32;
        if let Some(told_us) = member.view.lock().as_mut().and_then(|view| view.get_mut(&user)) {
            *told_us = set_us;
        }
    }

    fn note(&self, error: String) {
        *self.seen.lock().errors.entry(error).or_default() += 1;
    }
}

fn record(histogram: &mut Histogram<u64>, late: Duration) {
    histogram.record(micros(late)).expect("a histogram made without bounds grows");
}
