//! The task that calls the app's backend: gathers questions into batches, and hands the answers out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::cache::Cache;
use super::call::{Call, CallFailed};
use super::metrics::{ConsentMetrics, Outcome};
use super::{Question, Verdict};

/// So many calls at once keep the backend busy while an answer is on its way; what comes meanwhile goes together.
pub(super) const CALLS_MAX: usize = 4;

/// A call asks about at most so many pairs, or about those of one question.
pub(super) const PAIRS_MAX: usize = 5_000;

/// What waits for a call, and where answers go.
pub(super) struct Caller {
    cache: Arc<Cache>,
    metrics: ConsentMetrics,
    /// Bounded, since each has its place in the room.
    waiting: VecDeque<Question>,
    /// Whether the last call was answered: only a change is worth a line.
    is_up: Arc<AtomicBool>,
}

/// A call that has ended.
struct Called {
    batch: Vec<Question>,
    began: Instant,
    answer: Result<Vec<Vec<Verdict>>, CallFailed>,
}

/// Calls for as long as anybody can ask.
pub(super) async fn run(
    call: Call,
    mut questions: mpsc::UnboundedReceiver<Question>,
    mut caller: Caller,
) {
    let mut calls = FuturesUnordered::new();
    loop {
        while calls.len() < CALLS_MAX
            && let Some(batch) = caller.next_batch()
        {
            calls.push(make(&call, batch));
        }
        tokio::select! {
            Some(over) = calls.next() => caller.hand_out(over),
            asked = questions.recv() => match asked {
                Some(question) => caller.waiting.push_back(question),
                None => return,
            },
        }
        // Whatever is there already goes into the same call.
        while let Ok(question) = questions.try_recv() {
            caller.waiting.push_back(question);
        }
    }
}

async fn make(call: &Call, batch: Vec<Question>) -> Called {
    let began = Instant::now();
    let answer = call.ask(&batch).await;
    Called { batch, began, answer }
}

impl Caller {
    pub(super) fn new(cache: Arc<Cache>, metrics: ConsentMetrics, is_up: Arc<AtomicBool>) -> Self {
        Self { cache, metrics, waiting: VecDeque::new(), is_up }
    }

    /// The next questions that go together. None when there are none.
    fn next_batch(&mut self) -> Option<Vec<Question>> {
        // Whoever was given up needs no answer.
        self.waiting.retain(|question| !question.answer.is_closed());
        let (mut batch, mut pairs) = (Vec::new(), 0);
        while let Some(next) = self.waiting.front() {
            pairs += next.users.len();
            if pairs > PAIRS_MAX && !batch.is_empty() {
                break;
            }
            batch.extend(self.waiting.pop_front());
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn hand_out(&mut self, over: Called) {
        let Called { batch, began, answer } = over;
        let outcome = answer.as_ref().map_or_else(CallFailed::outcome, |_| Outcome::Answered);
        self.metrics.called(outcome, began.elapsed());
        self.note(answer.as_ref().err());
        let Ok(answers) = answer else {
            for question in batch {
                let _ = question.answer.send(None);
            }
            return;
        };
        for (question, verdicts) in batch.into_iter().zip(answers) {
            if self.cache.is_forgotten(&question.user, began) {
                // The backend has changed its mind since, or may have: it is asked again.
                self.waiting.push_back(question);
                continue;
            }
            self.cache.keep(&question.user, &question.users, &verdicts, began);
            let _ = question.answer.send(Some(verdicts));
        }
    }

    fn note(&self, failed: Option<&CallFailed>) {
        let was_up = self.is_up.swap(failed.is_none(), Relaxed);
        match failed {
            Some(error) if was_up => {
                warn!(%error, "the app's backend does not answer who may watch whom");
            }
            Some(error) => debug!(%error, "the app's backend still does not answer"),
            None if !was_up => info!("the app's backend answers again who may watch whom"),
            None => {}
        }
    }
}
