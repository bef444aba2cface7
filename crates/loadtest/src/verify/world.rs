//! What everything in a check shares: the clock, the rules, where the gateways are, and all that is
//! written down until a round is judged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Result;
use http::Uri;
use parking_lot::Mutex;
use presence_protocol::{Format, UserId};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::dial::Route;
use crate::limits::Limits;
use crate::sources::{CONNECTIONS_PER_ADDRESS, Sources};
use crate::tally::{Count, Kinds};
use crate::verify::args::VerifyArgs;
use crate::verify::deployment::Deployment;
use crate::verify::history::Watching;
use crate::verify::history::scenarios::History;
use crate::verify::lag::Lag;
use crate::verify::record::{Facts, Fault, Place, Told, Us, User, us};
use crate::verify::starved::Starved;
use crate::verify::truth::Rules;

/// How often this process looks how late it is.
const LAG_TICK: Duration = Duration::from_millis(10);

/// How often it looks how long others had to wait.
const STARVED_TICK: Duration = Duration::from_millis(100);

/// The start of every user's id.
const USER_PREFIX: &str = "user-";

/// Where a gateway listens.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) url: Uri,
    pub(crate) addr: SocketAddr,
}

/// All that is known of one session.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) facts: Mutex<Facts>,
    pub(crate) told: Mutex<Told>,
}

/// Shared by every part of a check.
pub(crate) struct World {
    pub(crate) epoch: Instant,
    pub(crate) rules: Rules,
    pub(crate) heartbeat: Duration,
    pub(crate) watching: Watching,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) sources: Sources,
    /// The sessions of this round, and those that live on from earlier ones.
    pub(crate) records: Mutex<Vec<Arc<Record>>>,
    /// What broke in this round, in the order of its beginning.
    pub(crate) faults: Mutex<Vec<Fault>>,
    pub(crate) lag: Mutex<Lag>,
    /// States told to watchers, for the progress.
    pub(crate) states: Count,
    /// Sessions that live, for the progress.
    pub(crate) living: AtomicU64,
    /// Messages that a gateway refused, and sign-ins that failed.
    pub(crate) refusals: Kinds,
}

impl World {
    pub(crate) async fn new(
        args: &VerifyArgs,
        limits: &Limits,
        history: &History,
        deployment: &Deployment,
        epoch: Instant,
    ) -> Result<Self> {
        let mut endpoints = Vec::new();
        for gateway in deployment.gateways() {
            let addr = gateway.lock().await.addr();
            endpoints.push(Endpoint { url: format!("ws://{addr}/ws").parse()?, addr });
        }
        let addresses = history.users.div_ceil(CONNECTIONS_PER_ADDRESS);
        Ok(Self {
            epoch,
            rules: Rules::of(args),
            heartbeat: args.heartbeat,
            watching: history.watching,
            endpoints,
            sources: Sources::new(addresses, &limits.ports, fastrand::u64(..)),
            records: Mutex::default(),
            faults: Mutex::default(),
            lag: Mutex::default(),
            states: Count::default(),
            living: AtomicU64::new(0),
            refusals: Kinds::default(),
        })
    }

    pub(crate) fn now(&self) -> Us {
        us(self.epoch.elapsed())
    }

    pub(crate) async fn wait_until(&self, at: Us) {
        sleep_until(self.epoch + Duration::from_micros(at)).await;
    }

    pub(crate) fn route(&self, place: Place) -> Route<'_> {
        let Endpoint { url, addr } = &self.endpoints[place];
        Route { url, target: *addr, sources: Some(&self.sources), format: Format::MsgPack }
    }

    /// Takes out the faults of a round that is over.
    pub(crate) fn take_faults(&self) -> Vec<Fault> {
        std::mem::take(&mut self.faults.lock())
    }

    /// Forgets the sessions that ended.
    pub(crate) fn forget_ended(&self) {
        self.records.lock().retain(|record| record.facts.lock().is_living());
    }

    /// Notes how long the deployment's processes wait for a CPU, for as long as the check lasts.
    pub(crate) async fn measure_starvation(&self, deployment: &Deployment) {
        let mut starved = Starved::new();
        let mut ticks = interval(STARVED_TICK);
        loop {
            ticks.tick().await;
            let waited = starved.since_last(&deployment.pids());
            self.lag.lock().note_starved(self.now(), waited);
        }
    }

    /// Notes how late this process is, for as long as the check lasts.
    pub(crate) async fn measure_lag(&self) {
        let mut ticks = interval(LAG_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = ticks.tick().await;
            let due = us(due.duration_since(self.epoch));
            self.lag.lock().note(due, self.now());
        }
    }
}

/// The id of the n-th user.
pub(crate) fn user_id(user: User) -> UserId {
    UserId::new(&format!("{USER_PREFIX}{user}")).expect("it is short")
}

/// The inverse of [`user_id`].
pub(crate) fn user_of(id: &UserId) -> Option<User> {
    id.as_str().strip_prefix(USER_PREFIX)?.parse().ok()
}
