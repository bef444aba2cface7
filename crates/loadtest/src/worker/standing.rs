//! What is true of a user whose connections are here, written down for all workers to judge by.
//!
//! A note is made before the act, so that nobody can be told of the act sooner than of the note.

use crate::ledger::Truth;
use crate::measures::Count;
use crate::worker::connection::Connection;
use crate::worker::reactor::Worker;

impl Worker {
    /// Any user's truth, by the ledger.
    pub(super) fn truth_of(&mut self, user: u32) -> Truth {
        self.ledger.read(user).unwrap_or_else(|error| {
            self.fault.get_or_insert(error);
            Truth::Never
        })
    }

    /// Something changed for one connection: its user's truth may follow.
    pub(super) fn note(&mut self, index: u32, truth: Truth) {
        self.connection(index).set_truth(truth);
        let standing = self.standing(index);
        self.write_truth(index, standing);
    }

    /// The user's truth after its `hello` was answered.
    pub(super) fn note_welcomed(&mut self, index: u32, now_us: u64) {
        let before = self.standing(index);
        let hello_us = self.connection(index).hello_us;
        let truth = self.rules.welcomed(before, hello_us, now_us);
        if matches!(truth, Truth::Returned { .. }) {
            self.count(Count::ReturnedInGrace);
        }
        self.note(index, truth);
    }

    /// What all connections of the user amount to.
    pub(super) fn standing(&self, index: u32) -> Truth {
        let siblings = &self.connections[self.world.siblings(index)];
        self.rules.standing(siblings.iter().map(Connection::truth))
    }

    pub(super) fn write_truth(&mut self, index: u32, truth: Truth) {
        if let Err(error) = self.ledger.write(self.world.user_of(index), truth) {
            self.fault.get_or_insert(error);
        }
    }
}
