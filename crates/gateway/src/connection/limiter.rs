//! The rate limit of one connection: a token bucket in eight bytes.

use std::time::Instant;

/// How many seconds' worth of messages may come at once.
const BURST_S: f32 = 4.0;

/// After so many refusals without a pause for breath, the connection is given up.
const STRIKES_MAX: u16 = 100;

/// A token bucket that fills with `rate` tokens a second.
#[derive(Debug)]
pub(super) struct Limiter {
    used: f32,
    last: Instant,
    strikes: u16,
}

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Admitted,
    Refused,
    /// It is one too many.
    GivenUp,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { used: 0.0, last: Instant::now(), strikes: 0 }
    }
}

impl Limiter {
    /// Judges one message of now, at most `rate` a second.
    pub(super) fn admit(&mut self, rate: u32) -> Verdict {
        self.admit_at(rate, Instant::now())
    }

    fn admit_at(&mut self, rate: u32, now: Instant) -> Verdict {
        let rate = rate as f32;
        let passed = now.saturating_duration_since(self.last).as_secs_f32();
        self.used = (self.used - passed * rate).max(0.0);
        self.last = now;
        if self.used < rate * BURST_S {
            if self.used == 0.0 {
                self.strikes = 0;
            }
            self.used += 1.0;
            return Verdict::Admitted;
        }
        self.strikes += 1;
        if self.strikes > STRIKES_MAX { Verdict::GivenUp } else { Verdict::Refused }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_admitted_then_the_rate_then_none() {
        let mut limiter = Limiter::default();
        let start = limiter.last;
        let burst = (0..50).filter(|_| limiter.admit_at(10, start) == Verdict::Admitted).count();
        assert_eq!(burst, 40);
        let later = start + Duration::from_secs(1);
        let next = (0..50).filter(|_| limiter.admit_at(10, later) == Verdict::Admitted).count();
        assert_eq!(next, 10);
    }

    #[test]
    fn who_goes_on_and_on_is_given_up_and_who_pauses_is_forgiven() {
        let mut limiter = Limiter::default();
        let mut now = limiter.last;
        for _ in 0..3 {
            let verdicts: Vec<_> = (0..120).map(|_| limiter.admit_at(10, now)).collect();
            assert!(!verdicts.contains(&Verdict::GivenUp));
            now += Duration::from_secs(5);
        }
        let verdicts: Vec<_> = (0..200).map(|_| limiter.admit_at(10, now)).collect();
        assert_eq!(verdicts.last(), Some(&Verdict::GivenUp));
    }
}
