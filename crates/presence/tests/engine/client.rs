//! A client without a socket: reads what its session is told to do, and keeps the states that it is sent.

use std::collections::HashMap;
use std::future::poll_fn;
use std::time::Duration;

use presence::store::embedded::EmbeddedHub;
use presence::{Config, Joining, Metrics, Presence, Request, Session, Veils, Work};
use presence_protocol::{
    CloseReason, Device, ErrorCode, Format, GatewayMessage, Status, UserId, UserState,
    decode_gateway,
};
use tokio::time::{Instant, timeout_at};

pub(crate) fn user(name: &str) -> UserId {
    UserId::new(name).expect("a user id")
}

/// A gateway's presence on a store of its own.
pub(crate) fn presence(config: &Config) -> Presence {
    let opened = EmbeddedHub::new(config.clone()).open("g");
    Presence::start(config.clone(), opened, Metrics::default())
}

pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) view: HashMap<UserId, UserState>,
    /// How many states were pushed, snapshots not counted.
    pub(crate) pushed: usize,
    /// When it was told that it is in.
    pub(crate) welcomed: Option<Instant>,
}

/// What a session's task was told to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Message,
    Ping,
    Recheck,
    Close(CloseReason),
}

impl Client {
    pub(crate) fn join(
        presence: &Presence,
        name: &str,
        device: Option<&str>,
        status: Option<Status>,
    ) -> Self {
        let device = device.map(|label| Device::new(label).expect("a device label"));
        let joining =
            Joining { user: user(name), device, status, format: Format::Json, address: None };
        let session = presence.join(joining).expect("not too many");
        Self { session, view: HashMap::new(), pushed: 0, welcomed: None }
    }

    pub(crate) fn watch(&self, names: &[&str]) {
        let users = names.iter().map(|name| user(name)).collect();
        self.session.request(Request::Watch { users, veils: Veils::new(), id: None });
    }

    /// The next thing to do within this time, after the welcome.
    pub(crate) async fn told_within(&mut self, time: Duration) -> Option<Told> {
        let end = Instant::now() + time;
        loop {
            let work = poll_fn(|cx| self.session.poll_work(cx));
            let frame = match timeout_at(end, work).await.ok()? {
                Work::Ping => return Some(Told::Ping),
                Work::Recheck => return Some(Told::Recheck),
                Work::Close(reason) => return Some(Told::Close(reason)),
                Work::Frame(frame) => decode_gateway(Format::Json, &frame).expect("a frame"),
            };
            if let GatewayMessage::Welcome(_) = frame {
                self.welcomed = Some(Instant::now());
                continue;
            }
            self.read(frame);
            return Some(Told::Message);
        }
    }

    /// Answers Pings and reads messages for so long.
    pub(crate) async fn live_for(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while let Some(told) = self.told_within(end - tokio::time::Instant::now()).await {
            assert!(!matches!(told, Told::Close(_)), "{told:?}");
            self.session.heard();
        }
    }

    fn read(&mut self, message: GatewayMessage) {
        let states = match message {
            GatewayMessage::Presence { users } => {
                self.pushed += users.len();
                users
            }
            GatewayMessage::Snapshot { users, .. } => users,
            GatewayMessage::Degraded { .. } => return,
            GatewayMessage::Error(error) if error.code == ErrorCode::StoreUnavailable => return,
            other => panic!("{other:?}"),
        };
        for state in states {
            let known = self.view.get(&state.user).map_or(0, |known| known.version);
            assert!(state.version >= known, "{state:?} after version {known}");
            self.view.insert(state.user.clone(), state);
        }
    }
}
