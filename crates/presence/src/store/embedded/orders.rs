//! The orders that the store in this process remembers: for as long as the process runs, and no longer than they are kept.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::store::ORDERS_LEN_MAX;
use crate::store::notice::{Dated, Order};

/// Orders, and the first second that each does not cover.
#[derive(Default)]
pub(super) struct Orders(Mutex<HashMap<Order, u64>>);

impl Orders {
    /// Takes orders in, as of now where they have no date, and drops those from before `oldest_s`. Answers the date of now.
    pub(super) fn record(
        &self,
        orders: Vec<(Order, Option<u64>)>,
        now_s: u64,
        oldest_s: u64,
    ) -> u64 {
        let (today, mut kept) = (now_s + 1, self.0.lock());
        for (order, from_s) in orders {
            let date = kept.entry(order).or_default();
            *date = (*date).max(from_s.unwrap_or(today));
        }
        kept.retain(|_, from_s| *from_s >= oldest_s);
        today
    }

    /// Those of this date or later, the earliest first.
    pub(super) fn since(&self, from_s: u64, skip: usize) -> Vec<Dated> {
        let kept = self.0.lock();
        let found = kept.iter().filter(|(_, date)| **date >= from_s);
        let mut found: Vec<Dated> =
            found.map(|(order, from_s)| Dated { order: order.clone(), from_s: *from_s }).collect();
        drop(kept);
        found.sort_by_cached_key(|dated| (dated.from_s, dated.order.to_line()));
        found.into_iter().skip(skip).take(ORDERS_LEN_MAX).collect()
    }
}
