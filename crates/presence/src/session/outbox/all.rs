//! All sessions' outboxes, by the number of the session.

use std::sync::Arc;

use parking_lot::RwLock;
use slab::Slab;

use super::{ConnId, Outbox};

/// All sessions' outboxes by number.
#[derive(Default)]
pub(crate) struct Outboxes {
    slots: RwLock<Slab<Arc<Outbox>>>,
}

impl Outboxes {
    pub(crate) fn insert(&self, outbox: Arc<Outbox>) -> ConnId {
        ConnId(self.slots.write().insert(outbox) as u32)
    }

    pub(crate) fn remove(&self, conn: ConnId) {
        let mut slots = self.slots.write();
        slots.try_remove(conn.0 as usize);
        if slots.is_empty() {
            // It does not give back by itself what it has grown to.
            *slots = Slab::new();
        }
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<Arc<Outbox>> {
        self.slots.read().get(conn.0 as usize).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.read().len()
    }

    /// Those of these sessions that are still there.
    pub(crate) fn each(&self, conns: &[ConnId], mut act: impl FnMut(ConnId, &Outbox)) {
        let slots = self.slots.read();
        for conn in conns {
            if let Some(outbox) = slots.get(conn.0 as usize) {
                act(*conn, outbox);
            }
        }
    }

    /// Every session there is now, by number.
    pub(crate) fn numbered(&self) -> Vec<(ConnId, Arc<Outbox>)> {
        let slots = self.slots.read();
        slots.iter().map(|(conn, outbox)| (ConnId(conn as u32), outbox.clone())).collect()
    }

    /// Every session there is now.
    pub(crate) fn all(&self) -> Vec<Arc<Outbox>> {
        self.slots.read().iter().map(|(_, outbox)| outbox.clone()).collect()
    }
}
