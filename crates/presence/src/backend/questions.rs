//! Where a user's sessions are: asked of the gateways that hold them, which answer through the store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::UserId;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use crate::engine::Core;
use crate::here::roster::Local;
use crate::store::StoreError;
use crate::store::notice::{Answer, Notice, Question, SessionInfo};

/// How long gateways have to answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The most sessions that are told of, by one gateway and in all.
const SESSIONS_LEN_MAX: usize = 1000;

/// So many answers may wait to be read: more than there are gateways.
const ANSWERS_LEN_MAX: usize = 1024;

/// A user's sessions.
#[derive(Debug, Default, Serialize)]
pub struct SessionList {
    /// The earliest first; at most a thousand.
    pub sessions: Vec<SessionInfo>,
    /// Whether there are more.
    pub truncated: bool,
    /// Gateways that may hold sessions of the user, and did not answer in time.
    pub unanswered: Vec<String>,
}

/// The questions of this gateway that wait for answers.
#[derive(Default)]
pub(crate) struct Questions {
    asked: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Answer>>>,
}

/// A question that is asked; nobody waits for answers any more when it is dropped.
struct Asked<'a> {
    questions: &'a Questions,
    number: u64,
    answers: mpsc::Receiver<Answer>,
}

impl Questions {
    fn begin(&self) -> Asked<'_> {
        let number = self.asked.fetch_add(1, Relaxed);
        let (sender, answers) = mpsc::channel(ANSWERS_LEN_MAX);
        self.waiting.lock().insert(number, sender);
        Asked { questions: self, number, answers }
    }

    /// An answer to a question of this gateway came.
    pub(crate) fn answered(&self, answer: Answer) {
        if let Some(waiting) = self.waiting.lock().get(&answer.question.number) {
            // Too many answers are as good as none: the list says so.
            let _ = waiting.try_send(answer);
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.questions.waiting.lock().remove(&self.number);
    }
}

/// Asks the gateways on which the store knows the user, and whoever else has a session.
pub(crate) async fn ask(core: &Core, user: UserId) -> Result<SessionList, StoreError> {
    let standings = core.reads.ask(vec![user.clone()]).await?;
    let on = standings.into_iter().flat_map(|standing| standing.view.gateways);
    let here = core.roster.has(&user).then(|| core.store.gateway().to_owned());
    let mut open: BTreeSet<String> = on.chain(here).collect();
    let mut list = SessionList::default();
    if open.is_empty() {
        return Ok(list);
    }
    let mut asked = core.questions.begin();
    let question = Question {
        gateway: core.store.gateway().to_owned(),
        number: asked.number,
        user,
        named: open.iter().cloned().collect(),
    };
    core.store.tell(Notice::Question(question)).await?;
    let deadline = Instant::now() + ANSWER_TIME;
    while !open.is_empty()
        && let Ok(Some(answer)) = timeout_at(deadline, asked.answers.recv()).await
    {
        open.remove(&answer.gateway);
        list.truncated |= answer.truncated;
        list.sessions.extend(answer.sessions);
    }
    list.sessions.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    list.truncated |= list.sessions.len() > SESSIONS_LEN_MAX;
    list.sessions.truncate(SESSIONS_LEN_MAX);
    list.unanswered = open.into_iter().collect();
    Ok(list)
}

/// Answers a question, if this gateway is named or has something to say.
pub(crate) fn answer(core: &Arc<Core>, question: Question) {
    let gateway = core.store.gateway();
    let sessions = core.roster.sessions_of(&question.user);
    if sessions.is_empty() && !question.named.iter().any(|named| named == gateway) {
        return;
    }
    let truncated = sessions.len() > SESSIONS_LEN_MAX;
    let told = sessions.iter().take(SESSIONS_LEN_MAX);
    let sessions = told.filter_map(|session| describe(core, session)).collect();
    let answer = Answer { question, gateway: gateway.to_owned(), sessions, truncated };
    let teller = core.clone();
    core.spawn(async move {
        if let Err(error) = teller.store.tell(Notice::Answer(answer)).await {
            debug!(%error, "where a user's sessions are could not be answered");
        }
    });
}

/// A session as the app's backend is told of it; none when it has just ended.
fn describe(core: &Core, session: &Local) -> Option<SessionInfo> {
    let outbox = core.outboxes.get(session.conn)?;
    let ago = |time: Duration| core.store.now_ms().saturating_sub(time.as_millis() as u64);
    Some(SessionInfo {
        id: outbox.session_id(core.store.gateway()),
        gateway: core.store.gateway().to_owned(),
        device: session.device.clone(),
        since: ago(core.clock.real().since(outbox.origin.joined)),
        heard: ago(core.clock.now().since(outbox.heard())),
        address: outbox.origin.address,
        format: outbox.format.as_str().to_owned(),
        show: session.show,
    })
}
