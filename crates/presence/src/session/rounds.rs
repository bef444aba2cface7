//! Rounds: under strain, sessions are not woken for each push but all together from time to time, so that whoever watches
//! many is told of many in one frame. At ease nothing waits here.
//!
//! A frame costs both ends far more than a state in it: while thousands sign in who all watch each other, this is what keeps
//! the gateway from falling behind.

use parking_lot::Mutex;

use crate::clock::Tick;
use crate::session::outbox::{ConnId, Outboxes};
use crate::strain::Strain;
use crate::watch::UserRef;

/// The sessions that wait for the next round.
#[derive(Default)]
pub(crate) struct Rounds {
    waiting: Mutex<Vec<ConnId>>,
    latest: Mutex<Tick>,
}

impl Rounds {
    /// These sessions are to be told of a user: at once, or in the next round.
    pub(crate) fn tell(
        &self,
        outboxes: &Outboxes,
        strain: &Strain,
        conns: &[ConnId],
        user: UserRef,
    ) {
        if strain.gather_time().is_zero() {
            outboxes.each(conns, |_, outbox| outbox.mark(user));
            return;
        }
        let mut waiting = self.waiting.lock();
        outboxes.each(conns, |conn, outbox| {
            if outbox.mark_for_round(user) {
                waiting.push(conn);
            }
        });
    }

    /// Wakes the sessions that wait, if it is time.
    pub(crate) fn go_if_due(&self, outboxes: &Outboxes, strain: &Strain, now: Tick) {
        let mut latest = self.latest.lock();
        if now.since(*latest) >= strain.gather_time() {
            *latest = now;
            let conns = std::mem::take(&mut *self.waiting.lock());
            outboxes.each(&conns, |_, outbox| outbox.go_round());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use presence_protocol::{Format, UserId};

    use super::*;
    use crate::session::outbox::{Due, Outbox};

    struct Here {
        outboxes: Outboxes,
        outbox: Arc<Outbox>,
        conn: ConnId,
        strain: Strain,
        rounds: Rounds,
    }

    impl Here {
        /// A session that watches users 0 to 9 and waits for work.
        fn new() -> Self {
            let outbox = Outbox::new(UserId::new("ana").unwrap(), Format::Json, Tick(0));
            let outbox = Arc::new(outbox);
            let watching =
                outbox.edit_watching(|watching| watching.extend((0..10).map(UserRef::for_test)));
            assert!(watching.is_ok());
            let outboxes = Outboxes::default();
            let conn = outboxes.insert(outbox.clone());
            Self { outboxes, outbox, conn, strain: Strain::default(), rounds: Rounds::default() }
        }

        fn strained() -> Self {
            let here = Self::new();
            (0..100).for_each(|_| here.strain.note_timer(Duration::from_millis(100)));
            here
        }

        fn tell(&self, user: u32) {
            self.rounds.tell(&self.outboxes, &self.strain, &[self.conn], UserRef::for_test(user));
        }

        /// How many users the session's task finds in its next frame, if it was woken.
        fn told(&self, woken: &Arc<Woken>) -> Option<usize> {
            if !std::mem::take(&mut *woken.0.lock()) {
                return None;
            }
            let found = Mutex::new(0);
            let encode = |users: &[UserRef]| {
                *found.lock() = users.len();
                Some(Bytes::new())
            };
            let waker = Waker::from(woken.clone());
            let mut context = Context::from_waker(&waker);
            while let Poll::Ready(due) = self.outbox.poll_due(&mut context, encode) {
                assert!(matches!(due, Due::Frame(_)), "{due:?}");
            }
            Some(*found.lock())
        }
    }

    #[derive(Default)]
    struct Woken(Mutex<bool>);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            *self.0.lock() = true;
        }
    }

    fn asleep(here: &Here) -> Arc<Woken> {
        let woken = Arc::new(Woken(Mutex::new(true)));
        assert_eq!(here.told(&woken), Some(0));
        woken
    }

    #[test]
    fn at_ease_everybody_is_told_at_once() {
        let here = Here::new();
        let woken = asleep(&here);
        for user in 0..3 {
            here.tell(user);
            assert_eq!(here.told(&woken), Some(1));
        }
    }

    #[test]
    fn under_strain_many_are_told_of_in_one_frame() {
        let here = Here::strained();
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(1_000));
        let woken = asleep(&here);
        (0..5).for_each(|user| here.tell(user));
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(1_050));
        assert_eq!(here.told(&woken), None, "it is too early");
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(1_500));
        assert_eq!(here.told(&woken), Some(5));
        here.tell(7);
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(2_000));
        assert_eq!(here.told(&woken), Some(1), "it is in the next round as well");
    }

    #[test]
    fn whoever_waits_when_the_strain_is_over_is_told_with_the_next_step() {
        let here = Here::strained();
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(1_000));
        let woken = asleep(&here);
        here.tell(1);
        (0..200).for_each(|_| here.strain.note_timer(Duration::ZERO));
        here.rounds.go_if_due(&here.outboxes, &here.strain, Tick(1_050));
        assert_eq!(here.told(&woken), Some(1));
    }
}
