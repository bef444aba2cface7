//! Counters that many tasks write to; the promise check's and the simulation's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A number that many tasks add to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often each of a few kinds of thing happened.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<BTreeMap<String, u64>>);

impl Kinds {
    pub(crate) fn add(&self, kind: String) {
        *self.0.lock().entry(kind).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}
