//! Asks the app's backend who may watch whom, where the policy is `callback`.
//!
//! Answers are kept for a while. What is not known is gathered into few calls, as reads of the store are: an idle gateway
//! asks at once, a busy one gathers the next batch while others are in flight. A connection's task never waits for it: see
//! `Session::request_decided`.

mod cache;
mod call;
mod caller;
mod metrics;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use presence::Presence;
use presence_protocol::UserId;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use crate::outbound::Outbound;
use crate::settings::{Callback, Settings, WatchPolicy, WhenDown};
use cache::Cache;
use call::Call;
use caller::{CALLS_MAX, Caller, PAIRS_MAX};
use metrics::{ConsentMetrics, Source};
pub(crate) use verdict::{Verdict, Verdicts};

/// A question is given up after so many times the time for one call: it may have to wait for others.
const PATIENCE: u32 = 2;

/// Who may watch whom, by the word of the app's backend. Dropping it ends its tasks.
pub(crate) struct Consent {
    cache: Arc<Cache>,
    /// Bounded by the room.
    questions: mpsc::UnboundedSender<Question>,
    room: Room,
    /// Whether the last call was answered.
    is_up: Arc<AtomicBool>,
    patience: Duration,
    down: WhenDown,
    metrics: ConsentMetrics,
    _tasks: JoinSet<()>,
}

/// Whether one user may watch each of these.
struct Question {
    user: UserId,
    users: Vec<UserId>,
    answer: oneshot::Sender<Option<Vec<Verdict>>>,
    _place: OwnedSemaphorePermit,
}

/// Room for the pairs that wait for an answer, from when they are asked until they are answered or given up: as many as
/// are kept when answered, and those of the calls under way in any case.
struct Room {
    pairs_max: usize,
    left: Arc<Semaphore>,
}

/// The app's backend does not answer.
#[derive(Debug)]
pub(crate) struct Undecided;

impl Consent {
    /// Starts its tasks; none where the policy asks nobody.
    pub(crate) fn from_settings(
        settings: &Settings,
        presence: &Presence,
        registry: &mut Registry,
    ) -> Result<Option<Self>> {
        let WatchPolicy::Callback(callback) = &settings.watch_policy else { return Ok(None) };
        let outbound = Outbound::new(settings.outbound_ca_file.as_deref())
            .context("cannot call watch_callback_url")?;
        let metrics = ConsentMetrics::register(registry);
        Ok(Some(Self::start(callback, outbound, presence.refreshed(), metrics)))
    }

    /// `refreshed` tells of users about whom what was answered counts no more.
    fn start(
        settings: &Callback,
        outbound: Outbound,
        refreshed: broadcast::Receiver<UserId>,
        metrics: ConsentMetrics,
    ) -> Self {
        let cache = Arc::new(Cache::new(settings.cache_len, settings.ttl));
        let (questions, asked) = mpsc::unbounded_channel();
        let call = Call::new(settings, outbound);
        let is_up = Arc::new(AtomicBool::new(true));
        let caller = Caller::new(cache.clone(), metrics.clone(), is_up.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(caller::run(call, asked, caller));
        tasks.spawn(forget_refreshed(cache.clone(), refreshed));
        Self {
            cache,
            questions,
            room: Room::new(settings.cache_len),
            is_up,
            patience: settings.timeout * PATIENCE,
            down: settings.down,
            metrics,
            _tasks: tasks,
        }
    }

    /// Whether a user may watch each of these, if all of that is known.
    pub(crate) fn known(&self, user: &UserId, users: &[UserId]) -> Option<Vec<Verdict>> {
        let known = users.iter().map(|other| self.cache.get(user, other));
        let known: Option<Vec<Verdict>> = known.collect();
        if known.is_some() {
            self.metrics.count(Source::Cache, users.len());
        }
        known
    }

    /// Whether a user may watch each of these. Comes back within twice the time for a call.
    pub(crate) async fn ask(
        &self,
        user: &UserId,
        users: Vec<UserId>,
    ) -> Result<Vec<Verdict>, Undecided> {
        if let Some(known) = self.known(user, &users) {
            return Ok(known);
        }
        let len = users.len();
        let answer = self.answered(user.clone(), users).await;
        let by = answer.as_ref().map_or_else(|unknown| *unknown, |_| Source::Backend);
        self.metrics.count(by, len);
        answer.or_else(|_| {
            debug!(users = len, by = by.as_str(), "whom a user may watch is not known");
            // That too many ask is something that clients can bring about: it must not open doors.
            let is_down = !self.is_up.load(Relaxed);
            let all = || vec![Verdict::Allowed; len];
            (is_down && self.down == WhenDown::Allow).then(all).ok_or(Undecided)
        })
    }

    /// What was answered about this user counts no more.
    pub(crate) fn forget(&self, user: &UserId) {
        self.cache.forget(user);
    }

    /// Brings the gauges up to date, before they are read.
    pub(crate) fn measure(&self) {
        self.metrics.cached.set(self.cache.len() as i64);
        self.metrics.waiting.set(self.room.taken() as i64);
    }

    /// What the backend answers, or why nothing is known.
    async fn answered(&self, user: UserId, users: Vec<UserId>) -> Result<Vec<Verdict>, Source> {
        let place = self.room.take(users.len()).ok_or(Source::Unasked)?;
        let (answer, answered) = oneshot::channel();
        let question = Question { user, users, answer, _place: place };
        self.questions.send(question).map_err(|_| Source::Nobody)?;
        let answer = timeout(self.patience, answered).await;
        answer.ok().and_then(Result::ok).flatten().ok_or(Source::Nobody)
    }
}

impl Room {
    fn new(kept_max: usize) -> Self {
        let pairs_max = kept_max.max(CALLS_MAX * PAIRS_MAX);
        Self { pairs_max, left: Arc::new(Semaphore::new(pairs_max)) }
    }

    /// A place for so many pairs, unless there is room for fewer.
    fn take(&self, pairs: usize) -> Option<OwnedSemaphorePermit> {
        self.left.clone().try_acquire_many_owned(u32::try_from(pairs).ok()?).ok()
    }

    fn taken(&self) -> usize {
        self.pairs_max - self.left.available_permits()
    }
}

async fn forget_refreshed(cache: Arc<Cache>, mut refreshed: broadcast::Receiver<UserId>) {
    loop {
        match refreshed.recv().await {
            Ok(user) => cache.forget(&user),
            Err(broadcast::error::RecvError::Lagged(_)) => cache.forget_all(),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}
