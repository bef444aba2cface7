//! Who has something for its client: one list that the wakers of all sessions write into.

use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// Indexes of sessions that woke their client since the last look.
#[derive(Debug, Default)]
pub(crate) struct Knocks(Mutex<Vec<u32>>);

impl Knocks {
    /// For one session; it knocks once.
    pub(crate) fn waker(knocks: &Arc<Self>, index: u32) -> Waker {
        Arc::new(Knocker { index, knocks: knocks.clone() }).into()
    }

    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock())
    }
}

struct Knocker {
    index: u32,
    knocks: Arc<Knocks>,
}

impl Wake for Knocker {
    fn wake(self: Arc<Self>) {
        self.knocks.0.lock().push(self.index);
    }
}
