//! The answers of the app's backend, for as long as they count: bounded, and forgotten at once for a user about whom the
//! backend says so.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use presence_protocol::UserId;
use quick_cache::sync::Cache as Pairs;
use tokio::time::Instant;

use super::Verdict;

/// After so many forgotten users, those whose answers are too old anyhow are let go.
const FORGOTTEN_LEN_MAX: usize = 10_000;

/// Answers, by who asks and about whom.
pub(super) struct Cache {
    pairs: Pairs<(UserId, UserId), Answer>,
    ttl: Duration,
    /// What was asked for these users before then counts no more.
    forgotten: Mutex<HashMap<UserId, Instant>>,
}

#[derive(Clone, Copy)]
struct Answer {
    verdict: Verdict,
    asked: Instant,
}

impl Cache {
    pub(super) fn new(len_max: usize, ttl: Duration) -> Self {
        Self { pairs: Pairs::new(len_max), ttl, forgotten: Mutex::default() }
    }

    /// Whether `user` may watch `other`, if that is known.
    pub(super) fn get(&self, user: &UserId, other: &UserId) -> Option<Verdict> {
        let answer = self.pairs.get(&(user.clone(), other.clone()))?;
        let counts = answer.asked.elapsed() < self.ttl && !self.is_forgotten(user, answer.asked);
        counts.then_some(answer.verdict)
    }

    /// Keeps what was answered to a question of then.
    pub(super) fn keep(
        &self,
        user: &UserId,
        others: &[UserId],
        verdicts: &[Verdict],
        asked: Instant,
    ) {
        if self.ttl.is_zero() {
            return;
        }
        for (other, &verdict) in others.iter().zip(verdicts) {
            self.pairs.insert((user.clone(), other.clone()), Answer { verdict, asked });
        }
    }

    /// Whatever was asked for this user until now counts no more.
    pub(super) fn forget(&self, user: &UserId) {
        let mut forgotten = self.forgotten.lock();
        forgotten.insert(user.clone(), Instant::now());
        if forgotten.len() > FORGOTTEN_LEN_MAX {
            forgotten.retain(|_, at| at.elapsed() < self.ttl);
        }
        if forgotten.len() > FORGOTTEN_LEN_MAX {
            // A storm of them: less is kept of the answers, and nothing of the users.
            forgotten.clear();
            self.pairs.clear();
        }
    }

    /// Whether what was asked for this user then counts no more.
    pub(super) fn is_forgotten(&self, user: &UserId, asked: Instant) -> bool {
        self.forgotten.lock().get(user).is_some_and(|at| asked <= *at)
    }

    pub(super) fn forget_all(&self) {
        self.pairs.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId::new(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_its_time_and_until_it_is_forgotten() {
        let cache = Cache::new(100, Duration::from_secs(10));
        let (ana, bo, cy) = (user("ana"), user("bo"), user("cy"));
        let asked = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for asker in [&ana, &bo] {
            cache.keep(
                asker,
                &[bo.clone(), cy.clone()],
                &[Verdict::Allowed, Verdict::Refused],
                asked,
            );
        }
        assert_eq!(
            (cache.get(&ana, &bo), cache.get(&ana, &cy)),
            (Some(Verdict::Allowed), Some(Verdict::Refused))
        );
        assert_eq!(cache.get(&cy, &bo), None);
        cache.forget(&ana);
        assert_eq!((cache.get(&ana, &bo), cache.get(&bo, &cy)), (None, Some(Verdict::Refused)));
        // An answer to a question from before is as old as that.
        cache.keep(&ana, std::slice::from_ref(&cy), &[Verdict::Allowed], asked);
        assert_eq!(cache.get(&ana, &cy), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        cache.keep(&ana, std::slice::from_ref(&cy), &[Verdict::Allowed], Instant::now());
        assert_eq!(cache.get(&ana, &cy), Some(Verdict::Allowed));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!((cache.get(&ana, &cy), cache.get(&bo, &cy)), (Some(Verdict::Allowed), None));
    }

    #[tokio::test(start_paused = true)]
    async fn neither_answers_nor_forgotten_users_grow_without_bound() {
        let cache = Cache::new(100, Duration::from_hours(1));
        for number in 0..20_000 {
            let one = user(&number.to_string());
            cache.keep(&one, &[user("bo")], &[Verdict::Allowed], Instant::now());
            cache.forget(&one);
        }
        assert!(cache.len() <= 100 && cache.forgotten.lock().len() <= FORGOTTEN_LEN_MAX);
    }
}
