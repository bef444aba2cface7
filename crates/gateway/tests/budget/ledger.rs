//! What lives on the heap, and how much of it there may be.

use std::alloc::System;
use std::fmt;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes and allocations that live.
#[derive(Clone, Copy)]
pub(crate) struct Live {
    bytes: isize,
    allocations: isize,
}

/// The most that may live for each connection.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) bytes: isize,
    pub(crate) allocations: isize,
}

impl Live {
    pub(crate) fn now() -> Self {
        let stats = ALLOCATOR.stats();
        Self {
            bytes: stats.bytes_allocated as isize - stats.bytes_deallocated as isize,
            allocations: stats.allocations as isize - stats.deallocations as isize,
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            allocations: self.allocations - before.allocations,
        }
    }

    /// Rounded up.
    pub(crate) fn each_of(self, count: usize) -> Self {
        let each = |sum: isize| sum.div_euclid(count as isize) + 1;
        Self { bytes: each(self.bytes), allocations: each(self.allocations) }
    }
}

impl Budget {
    pub(crate) fn holds(self, cost: Live) -> bool {
        cost.bytes <= self.bytes && cost.allocations <= self.allocations
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} allocations", self.bytes, self.allocations)
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in {} allocations", self.bytes, self.allocations)
    }
}
