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
use std::time::Duration;

use anyhow::{Context, Result};
use presence::Presence;
use presence_protocol::UserId;
use prometheus_client::registry::Registry;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use crate::outbound::Outbound;
use crate::settings::{Callback, Settings, WatchPolicy, WhenDown};
use cache::Cache;
use call::Call;
use caller::Caller;
use metrics::{ConsentMetrics, Source};
pub(crate) use verdict::{Verdict, Verdicts};

/// So many questions may wait for a call; more are not asked.
const QUEUE_LEN: usize = 10_000;

/// A question is given up after so many times the time for one call: it may have to wait for others.
const PATIENCE: u32 = 2;

/// Who may watch whom, by the word of the app's backend. Dropping it ends its tasks.
pub(crate) struct Consent {
    cache: Arc<Cache>,
    questions: mpsc::Sender<Question>,
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
        let (questions, asked) = mpsc::channel(QUEUE_LEN);
        let call = Call::new(settings, outbound);
        let caller = Caller::new(cache.clone(), metrics.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(caller::run(call, asked, caller));
        tasks.spawn(forget_refreshed(cache.clone(), refreshed));
        let patience = settings.timeout * PATIENCE;
        Self { cache, questions, patience, down: settings.down, metrics, _tasks: tasks }
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
        if let Some(answer) = self.answered(user.clone(), users).await {
            self.metrics.count(Source::Backend, len);
            return Ok(answer);
        }
        debug!(users = len, "whom a user may watch is not known");
        self.metrics.count(Source::Nobody, len);
        match self.down {
            WhenDown::Allow => Ok(vec![Verdict::Allowed; len]),
            WhenDown::Refuse => Err(Undecided),
        }
    }

    /// What was answered about this user counts no more.
    pub(crate) fn forget(&self, user: &UserId) {
        self.cache.forget(user);
    }

    /// Brings the gauge up to date, before it is read.
    pub(crate) fn measure(&self) {
        self.metrics.cached.set(self.cache.len() as i64);
    }

    async fn answered(&self, user: UserId, users: Vec<UserId>) -> Option<Vec<Verdict>> {
        let (answer, answered) = oneshot::channel();
        let question = Question { user, users, answer };
        self.questions.try_send(question).ok()?;
        timeout(self.patience, answered).await.ok()?.ok()?
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
