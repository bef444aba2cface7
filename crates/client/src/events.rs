//! The queue between the client's task and one reader of its events.
//!
//! Presence is state, so a slow reader is owed the latest state and no backlog: changes that follow
//! each other are merged by user. When more than [`EVENTS_LEN_MAX`] events wait all the same, all
//! changes are merged into one at the end, and then the oldest of the others are dropped. So memory
//! is bounded by the watch list, the last state of every user always arrives, and so does `Ended`.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Stream;
use parking_lot::Mutex;
use presence_protocol::{UserId, UserState};

use crate::event::Event;

/// Enough for a reader that is busy for a while; an outage makes two events per attempt.
pub(crate) const EVENTS_LEN_MAX: usize = 64;

/// The events of a client, from [`Client::events`](crate::Client::events) on. It is also a
/// [`Stream`]. It ends after [`Event::Ended`], or when every [`Client`](crate::Client) is dropped.
#[derive(Debug)]
pub struct Events {
    queue: Arc<EventQueue>,
}

impl Events {
    pub(crate) fn new(queue: Arc<EventQueue>) -> Self {
        Self { queue }
    }

    /// The next event; none when there will be no more. Loses nothing when it is cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.queue.poll_pop(cx)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.queue.poll_pop(cx)
    }
}

/// Events on their way to one reader.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    reader: Option<Waker>,
    over: bool,
}

#[derive(Debug)]
enum Waiting {
    Changes(HashMap<UserId, UserState>),
    Other(Event),
}

impl EventQueue {
    /// Never waits; see the module's text for what happens when nobody reads.
    pub(crate) fn push(&self, event: Event) {
        let mut inner = self.0.lock();
        match event {
            Event::Changed(states) => inner.push_changes(states),
            other => inner.waiting.push_back(Waiting::Other(other)),
        }
        if inner.waiting.len() > EVENTS_LEN_MAX {
            inner.conflate();
        }
        inner.wake();
    }

    /// No event follows.
    pub(crate) fn end(&self) {
        let mut inner = self.0.lock();
        inner.over = true;
        inner.wake();
    }

    fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut inner = self.0.lock();
        match inner.waiting.pop_front() {
            Some(Waiting::Other(event)) => Poll::Ready(Some(event)),
            Some(Waiting::Changes(states)) => {
                Poll::Ready(Some(Event::Changed(states.into_values().collect())))
            }
            None if inner.over => Poll::Ready(None),
            None => {
                inner.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Inner {
    fn push_changes(&mut self, states: Vec<UserState>) {
        let by_user = states.into_iter().map(|state| (state.user.clone(), state));
        if let Some(Waiting::Changes(last)) = self.waiting.back_mut() {
            last.extend(by_user);
        } else {
            self.waiting.push_back(Waiting::Changes(by_user.collect()));
        }
    }

    fn conflate(&mut self) {
        let mut latest = HashMap::new();
        let mut others = VecDeque::new();
        for waiting in self.waiting.drain(..) {
            match waiting {
                Waiting::Changes(states) => latest.extend(states),
                other @ Waiting::Other(_) => others.push_back(other),
            }
        }
        // Half of the room is freed, so that an unread queue is not gone through at each event.
        let excess = others.len().saturating_sub(EVENTS_LEN_MAX / 2);
        self.waiting.extend(others.into_iter().skip(excess));
        if !latest.is_empty() {
            self.waiting.push_back(Waiting::Changes(latest));
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online(user: &str, version: u64) -> UserState {
        let user = UserId::new(user).unwrap();
        UserState { version, ..UserState::never_seen(user) }
    }

    async fn rest(queue: Arc<EventQueue>) -> Vec<Event> {
        queue.end();
        futures::StreamExt::collect(Events::new(queue)).await
    }

    #[tokio::test]
    async fn changes_that_follow_each_other_are_merged_by_user() {
        let queue = Arc::new(EventQueue::default());
        for version in 1..=1000 {
            queue.push(Event::Changed(vec![online("bo", version)]));
        }
        assert_eq!(rest(queue).await, [Event::Changed(vec![online("bo", 1000)])]);
    }

    #[tokio::test]
    async fn a_reader_that_sleeps_is_owed_the_latest_states_and_the_last_events() {
        let queue = Arc::new(EventQueue::default());
        for version in 1..=1000 {
            queue.push(Event::Degraded(Some(version)));
            queue.push(Event::Changed(vec![online("bo", version)]));
        }
        let events = rest(queue).await;
        assert!(events.len() <= EVENTS_LEN_MAX);
        assert!(events.contains(&Event::Degraded(Some(1000))));
        assert_eq!(events.last(), Some(&Event::Changed(vec![online("bo", 1000)])));
    }
}
