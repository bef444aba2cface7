//! Who leaves when, how, and when they are back: at random, and fixed by the seed. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use presence::Session;
use tokio::time::Instant;

use crate::sim::plan::Plan;

/// Comings and goings since a moment.
pub(crate) struct Churn {
    sessions: u32,
    per_sec: f64,
    away_time: Duration,
    begin: Instant,
    left: u64,
    /// Who is away, and until when; the first to be back first.
    away: VecDeque<(Instant, u32)>,
    rng: Rng,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    SignOut,
    JustClose,
}

impl Farewell {
    pub(crate) fn say(self, session: Session) {
        if self == Self::SignOut {
            session.bye();
        }
        drop(session);
    }
}

impl Churn {
    pub(crate) fn begin(plan: &Plan, now: Instant) -> Self {
        Self {
            sessions: plan.sessions,
            per_sec: plan.churn,
            away_time: plan.away(),
            begin: now,
            left: 0,
            away: VecDeque::new(),
            rng: Rng::with_seed(plan.seed),
        }
    }

    /// Nobody leaves any more.
    pub(crate) fn stop(&mut self) {
        self.per_sec = 0.0;
    }

    pub(crate) fn is_anybody_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// Somebody who is due back.
    pub(crate) fn next_back(&mut self, now: Instant) -> Option<u32> {
        let (_, index) = self.away.pop_front_if(|(until, _)| *until <= now)?;
        Some(index)
    }

    /// Somebody who is to leave, if that is due and it is there.
    pub(crate) fn next_leaving(&mut self, now: Instant) -> Option<(u32, Farewell)> {
        let due = (now - self.begin).as_secs_f64() * self.per_sec;
        if self.left as f64 + 1.0 > due {
            return None;
        }
        self.left += 1;
        let farewell =
            if self.left.is_multiple_of(2) { Farewell::SignOut } else { Farewell::JustClose };
        Some((self.rng.u32(..self.sessions), farewell))
    }

    pub(crate) fn note_away(&mut self, index: u32, now: Instant) {
        self.away.push_back((now + self.away_time, index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_leave_in_a_second_and_each_is_back_after_its_time() {
        let now = Instant::now();
        let away_time = Duration::from_secs(5);
        let mut churn = Churn {
            sessions: 1_000,
            per_sec: 10.0,
            away_time,
            begin: now,
            left: 0,
            away: VecDeque::new(),
            rng: Rng::with_seed(1),
        };
        let mut leaving = Vec::new();
        for ms in (0..=2_050).step_by(10) {
            let now = now + Duration::from_millis(ms);
            while let Some((index, farewell)) = churn.next_leaving(now) {
                churn.note_away(index, now);
                leaving.push((index, farewell));
            }
        }
        assert_eq!(leaving.len(), 20);
        assert_eq!(leaving.iter().filter(|(_, how)| *how == Farewell::SignOut).count(), 10);
        churn.stop();
        let later = now + Duration::from_mins(1);
        assert_eq!(churn.next_leaving(later), None);
        assert_eq!(churn.next_back(now + away_time), None);
        let back: Vec<u32> = std::iter::from_fn(|| churn.next_back(later)).collect();
        assert_eq!(back, leaving.iter().map(|(index, _)| *index).collect::<Vec<_>>());
        assert!(!churn.is_anybody_away());
    }
}
