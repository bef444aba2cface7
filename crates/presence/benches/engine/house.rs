//! An engine in a runtime of one thread, so that what is measured is one core's work.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use presence::store::embedded::EmbeddedHub;
use presence::{Config, Joining, Metrics, Presence, Request, Session, Veils, Work};
use presence_protocol::{Format, UserId};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

/// How often the engine's tasks may run between two looks at its counters, which cost more than a turn.
const TURNS_PER_LOOK: usize = 64;

/// One gateway's presence, and what runs it.
pub(crate) struct House {
    engine: Presence,
    registry: Registry,
    pub(crate) runtime: Runtime,
}

impl House {
    pub(crate) fn new(config: &Config) -> Self {
        Self::in_runtime(config, &mut Builder::new_current_thread())
    }

    /// Its time stands still unless it is advanced.
    pub(crate) fn paused(config: &Config) -> Self {
        Self::in_runtime(config, Builder::new_current_thread().start_paused(true))
    }

    fn in_runtime(config: &Config, builder: &mut Builder) -> Self {
        let runtime = builder.enable_all().build().expect("a runtime");
        let entered = runtime.enter();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let opened = EmbeddedHub::new(config.clone()).open("g");
        let engine = Presence::start(config.clone(), opened, metrics);
        drop(entered);
        Self { engine, registry, runtime }
    }

    /// A session that has yet to be welcomed.
    pub(crate) fn begin(&self, user: UserId) -> Session {
        let format = Format::MsgPack;
        let joining = Joining { user, device: None, status: None, format, address: None };
        self.engine.join(joining).expect("each user comes once")
    }

    /// A session that is in.
    pub(crate) fn join(&self, user: UserId) -> Session {
        let session = self.begin(user);
        let _welcome = self.runtime.block_on(next_frame(&session));
        session
    }

    /// Has a session watch these users, and waits until they are known here.
    pub(crate) fn watch(&self, session: &Session, users: Vec<UserId>) {
        self.runtime.block_on(async {
            session.request(Request::Watch { users, veils: Veils::new(), id: None });
            next_frame(session).await;
        });
    }

    /// Lets the engine's tasks run until one of its counters has got so far.
    pub(crate) async fn run_until(&self, counter: &str, value_min: u64) {
        while self.counter(counter) < value_min {
            for _ in 0..TURNS_PER_LOOK {
                yield_now().await;
            }
        }
    }

    /// The sum of a counter over its labels.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes any text");
        let values = text.lines().filter_map(|line| {
            let (what, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            (what.is_empty() || what.starts_with('{')).then(|| value.parse::<u64>().ok())?
        });
        values.sum()
    }
}

pub(crate) fn user(number: usize) -> UserId {
    UserId::new(&format!("user-{number:07}")).expect("a user id")
}

/// The next frame for a session's client.
pub(crate) async fn next_frame(session: &Session) -> Bytes {
    loop {
        if let Work::Frame(frame) = poll_fn(|cx| session.poll_work(cx)).await {
            return frame;
        }
    }
}

/// The frame that a session has for its client already.
pub(crate) fn ready_frame(session: &Session) -> Bytes {
    let mut cx = Context::from_waker(Waker::noop());
    match session.poll_work(&mut cx) {
        Poll::Ready(Work::Frame(frame)) => frame,
        other => panic!("no frame: {other:?}"),
    }
}
