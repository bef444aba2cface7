//! The way from the events task to whoever reads the store's events: bounded, and what does not fit is made good.
//!
//! Never waits to send; knows nothing of Redis.

use std::future::pending;

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::store::Event;

/// What must be told sooner or later; the later one includes the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owed {
    Gap,
    Reconnected,
}

/// The store's event queue. What does not fit is dropped and made good by a gap, as soon as there is room.
pub(super) struct Outlet {
    events: mpsc::Sender<Event>,
    owed: Option<Owed>,
    dropped: u64,
}

impl Outlet {
    pub(super) fn new(events: mpsc::Sender<Event>) -> Self {
        Self { events, owed: None, dropped: 0 }
    }

    pub(super) fn send(&mut self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            self.dropped += 1;
            self.owe(Owed::Gap);
        }
    }

    pub(super) fn owe(&mut self, owed: Owed) {
        self.owed = self.owed.max(Some(owed));
    }

    /// Waits for room and sends what is owed; for ever when nothing is.
    pub(super) async fn pay(&mut self) {
        let Some(owed) = self.owed else { return pending().await };
        // When nobody listens any more, nothing is owed.
        if let Ok(room) = self.events.reserve().await {
            room.send(match owed {
                Owed::Gap => Event::Gap,
                Owed::Reconnected => Event::Reconnected,
            });
        }
        self.owed = None;
        if self.dropped > 0 {
            tracing::warn!(dropped = self.dropped, "events were dropped since the queue was full");
            self.dropped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_made_good_by_one_gap_as_soon_as_there_is_room() {
        let (events, mut received) = mpsc::channel(2);
        let mut outlet = Outlet::new(events);
        for _ in 0..5 {
            outlet.send(Event::Transitions(Vec::new()));
        }
        assert_eq!(outlet.dropped, 3);
        assert!(matches!(received.recv().await, Some(Event::Transitions(_))));
        outlet.pay().await;
        assert!(matches!(received.recv().await, Some(Event::Transitions(_))));
        assert!(matches!(received.recv().await, Some(Event::Gap)));
        assert!(outlet.owed.is_none());
    }
}
