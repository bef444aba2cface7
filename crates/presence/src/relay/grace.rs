//! The grace queue: which held-back users fall due when. Pure: the time is passed in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

use crate::watch::UserRef;

/// Users by the moment at which their loss may be shown. An entry may be stale (its user came back, or its number was
/// given to another): whoever takes it out compares with the watch table.
#[derive(Debug, Default)]
pub(crate) struct Grace {
    heap: BinaryHeap<Reverse<(Instant, UserRef)>>,
}

impl Grace {
    /// The user's loss falls due then.
    pub(crate) fn hold(&mut self, user: UserRef, due: Instant) {
        self.heap.push(Reverse((due, user)));
    }

    /// When the next one falls due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes out those that are due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<UserRef> {
        let mut users = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            users.extend(self.heap.pop().map(|Reverse((_, user))| user));
        }
        users
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_due_comes_out_in_order_and_the_rest_stays() {
        let start = Instant::now();
        let mut grace = Grace::default();
        for (user, ms) in [(1, 30), (2, 10), (3, 20)] {
            grace.hold(UserRef::for_test(user), start + Duration::from_millis(ms));
        }
        let due = grace.take_due(start + Duration::from_millis(20));
        assert_eq!(due, [UserRef::for_test(2), UserRef::for_test(3)]);
        assert_eq!(grace.next_due(), Some(start + Duration::from_millis(30)));
    }

    #[test]
    fn everybody_comes_out_once_for_each_hold_when_due_and_never_early() {
        for seed in 0..1000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (start, mut grace, mut held) = (Instant::now(), Grace::default(), Vec::new());
            let mut now = start;
            for _ in 0..random.usize(1..60) {
                if random.bool() {
                    let due = start + Duration::from_millis(random.u64(..200));
                    let user = UserRef::for_test(random.u32(..5));
                    grace.hold(user, due);
                    held.push((due, user));
                } else {
                    now += Duration::from_millis(random.u64(..20));
                    held.sort();
                    let rest = held.split_off(held.partition_point(|(due, _)| *due <= now));
                    let due: Vec<_> = held.into_iter().map(|(_, user)| user).collect();
                    assert_eq!(grace.take_due(now), due, "seed {seed}");
                    held = rest;
                }
                let next = held.iter().map(|(due, _)| *due).min();
                assert_eq!(grace.next_due(), next, "seed {seed}");
            }
        }
    }
}
