//! What the handles and the task share: what the application wants, what is known, who listens.
//!
//! The application states what it wants and the task makes it so: there is no queue of commands to
//! overflow, and what is wanted twice is done once. No call here waits; no lock is held across an
//! await.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use presence_protocol::{CloseReason, Status, UserId, UserState, Welcome};
use tokio::sync::Notify;

use crate::event::{DisconnectReason, Event};
use crate::events::{EventQueue, Events};
use crate::retry::Next;
use crate::view::{Known, View};

/// Why the client is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The user signs out.
    SigningOut,
    /// Every handle was dropped: the user may come back, so nobody is told.
    Abandoned,
}

#[derive(Default)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    wake: Notify,
}

#[derive(Default)]
struct Inner {
    view: View,
    status: Option<Status>,
    status_is_unsent: bool,
    leaving: Option<Leaving>,
    readers: Vec<Weak<EventQueue>>,
    now: Now,
}

/// What is true now, as the first events of a new reader.
#[derive(Default)]
struct Now {
    welcome: Option<Welcome>,
    degraded_since: Option<u64>,
    end: End,
}

#[derive(Clone, Copy, Default)]
enum End {
    #[default]
    NotYet,
    /// The application is told why.
    Told(CloseReason),
    /// Every handle was dropped.
    Untold,
}

/// For the handles.
impl Shared {
    pub(crate) fn new(status: Option<Status>) -> Self {
        let inner = Inner { status, ..Inner::default() };
        Self { inner: Mutex::new(inner), wake: Notify::new() }
    }

    pub(crate) fn watch(&self, users: impl IntoIterator<Item = UserId>) {
        self.inner.lock().view.watch(users);
        self.wake.notify_one();
    }

    pub(crate) fn unwatch(&self, users: impl IntoIterator<Item = UserId>) {
        self.inner.lock().view.unwatch(users);
        self.wake.notify_one();
    }

    pub(crate) fn set_status(&self, status: Status) {
        let mut inner = self.inner.lock();
        inner.status = Some(status);
        inner.status_is_unsent = true;
        drop(inner);
        self.wake.notify_one();
    }

    pub(crate) fn known(&self, user: &UserId) -> Option<Known> {
        self.inner.lock().view.known(user)
    }

    pub(crate) fn all_known(&self) -> Vec<Known> {
        self.inner.lock().view.all_known()
    }

    /// A reader whose first events tell what is true already.
    pub(crate) fn events(&self) -> Events {
        let mut inner = self.inner.lock();
        let queue = Arc::new(EventQueue::default());
        inner.tell_what_is_true(&queue);
        inner.readers.retain(|reader| reader.strong_count() > 0);
        inner.readers.push(Arc::downgrade(&queue));
        Events::new(queue)
    }

    /// Asks the task to stop; the first one to ask is obeyed.
    pub(crate) fn leave(&self, leaving: Leaving) {
        self.inner.lock().leaving.get_or_insert(leaving);
        self.wake.notify_one();
    }
}

/// For the task.
impl Shared {
    /// Returns when something was asked for since the last time.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn leaving(&self) -> Option<Leaving> {
        self.inner.lock().leaving
    }

    /// Returns when the client is to stop. What else is asked for meanwhile is found later.
    pub(crate) async fn asked_to_leave(&self) {
        while self.leaving().is_none() {
            self.woken().await;
        }
    }

    /// The status for a `hello`, which thereby is sent.
    pub(crate) fn status_for_hello(&self) -> Option<Status> {
        let mut inner = self.inner.lock();
        inner.status_is_unsent = false;
        inner.status.clone()
    }

    /// The status, if it has yet to be sent.
    pub(crate) fn take_unsent_status(&self) -> Option<Status> {
        let mut inner = self.inner.lock();
        std::mem::take(&mut inner.status_is_unsent).then(|| inner.status.clone()).flatten()
    }

    pub(crate) fn send_status_again(&self) {
        let mut inner = self.inner.lock();
        inner.status_is_unsent = inner.status.is_some();
    }

    pub(crate) fn with_view<R>(&self, act: impl FnOnce(&mut View) -> R) -> R {
        act(&mut self.inner.lock().view)
    }

    pub(crate) fn connected(&self, welcome: Welcome) {
        let mut inner = self.inner.lock();
        inner.view.connected();
        inner.now.welcome = Some(welcome.clone());
        inner.tell(&Event::Connected(welcome));
    }

    /// The connection is gone, whether or not another one follows.
    pub(crate) fn disconnected(&self, reason: DisconnectReason, next: Next) {
        let mut inner = self.inner.lock();
        inner.view.disconnected();
        inner.now.welcome = None;
        inner.now.degraded_since = None;
        if let Next::Retry(retry_in) = next {
            inner.tell(&Event::Disconnected { reason, retry_in });
        }
    }

    pub(crate) fn apply(&self, states: Vec<UserState>) {
        let mut inner = self.inner.lock();
        let changed = inner.view.apply(states);
        if !changed.is_empty() {
            inner.tell(&Event::Changed(changed));
        }
    }

    pub(crate) fn degraded(&self, since: Option<u64>) {
        let mut inner = self.inner.lock();
        inner.now.degraded_since = since;
        inner.tell(&Event::Degraded(since));
    }

    pub(crate) fn tell(&self, event: &Event) {
        self.inner.lock().tell(event);
    }

    /// The last thing the task does; `reason` is none when nobody may be left to hear it.
    pub(crate) fn end(&self, reason: Option<CloseReason>) {
        let mut inner = self.inner.lock();
        inner.view.disconnected();
        inner.now.end = reason.map_or(End::Untold, End::Told);
        if let Some(reason) = reason {
            inner.tell(&Event::Ended(reason));
        }
        inner.live_readers().for_each(|reader| reader.end());
    }
}

impl Inner {
    fn tell(&self, event: &Event) {
        self.live_readers().for_each(|reader| reader.push(event.clone()));
    }

    fn live_readers(&self) -> impl Iterator<Item = Arc<EventQueue>> {
        self.readers.iter().filter_map(Weak::upgrade)
    }

    fn tell_what_is_true(&self, reader: &EventQueue) {
        if let Some(welcome) = &self.now.welcome {
            reader.push(Event::Connected(welcome.clone()));
        }
        if let Some(since) = self.now.degraded_since {
            reader.push(Event::Degraded(Some(since)));
        }
        let known = self.view.all_known();
        if !known.is_empty() {
            reader.push(Event::Changed(known.into_iter().map(|known| known.state).collect()));
        }
        match self.now.end {
            End::NotYet => return,
            End::Told(reason) => reader.push(Event::Ended(reason)),
            End::Untold => {}
        }
        reader.end();
    }
}
