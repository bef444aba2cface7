//! The rate limit of one connection: a token bucket in a few bytes. Every frame is a token, and a message that names many
//! users costs some more.

use std::time::Instant;

use presence_protocol::ClientMessage;

/// How many seconds' worth of messages may come at once.
const BURST_S: f32 = 4.0;

/// So many users in a message cost as much as one message more: about as much work.
const USERS_PER_TOKEN: f32 = 128.0;

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

    /// Takes what a message that was admitted costs beyond itself.
    pub(super) fn charge(&mut self, rate: u32, message: &ClientMessage) {
        let (ClientMessage::Watch { users, .. }
        | ClientMessage::Unwatch { users }
        | ClientMessage::Query { users, .. }) = message
        else {
            return;
        };
        let cost = users.len() as f32 / USERS_PER_TOKEN;
        // A second later the next message is admitted, however many users this one names. And never less than the
        // message itself: else whoever has used up all would be admitted again at once.
        let most = rate as f32 * (BURST_S + 1.0) - 1.0;
        self.used = (self.used + cost).min(most).max(self.used);
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

    use presence_protocol::UserId;

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
    fn a_message_that_names_many_users_costs_more_but_never_more_than_there_is() {
        let watch = |len| {
            let users = vec![UserId::new("b").unwrap(); len];
            ClientMessage::Watch { users, id: None, grant: None }
        };
        let mut limiter = Limiter::default();
        let now = limiter.last;
        let admitted = (0..100).filter(|_| {
            let admitted = limiter.admit_at(10, now) == Verdict::Admitted;
            limiter.charge(10, &watch(384));
            admitted
        });
        assert_eq!(admitted.count(), 10, "each costs 4 of 40");
        limiter.charge(10, &watch(100_000));
        assert_eq!(limiter.admit_at(10, now + Duration::from_secs(1)), Verdict::Admitted);
        limiter.charge(10, &ClientMessage::Heartbeat);
    }

    #[test]
    fn a_storm_of_messages_that_name_users_is_held_to_the_rate() {
        for (len, each) in [(0, 1), (128, 2), (1_024, 9)] {
            let users = vec![UserId::new("b").unwrap(); len];
            let storm = ClientMessage::Unwatch { users };
            let mut limiter = Limiter::default();
            let start = limiter.last;
            let mut admitted = 0;
            for ms in 0..10_000 {
                if limiter.admit_at(50, start + Duration::from_millis(ms)) == Verdict::Admitted {
                    admitted += 1;
                    limiter.charge(50, &storm);
                }
            }
            // Four seconds' worth at once, and ten seconds' worth since.
            assert!(admitted <= 14 * 50 / each + 1, "{admitted} of {len} users each");
        }
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
