//! Whether and when to come back, by the contract's table of close codes. Pure but for the dice.

use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{CloseReason, Retry};

use crate::event::DisconnectReason;

/// What comes after a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, after this time.
    Retry(Duration),
    /// Nothing.
    End(CloseReason),
}

/// Whether a refused token can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Possible,
    Impossible,
}

/// Exponential backoff with full jitter: before the n-th attempt in a row, a random time between
/// nothing and min * 2^(n-1), at most max. Spread so, clients of a lost gateway do not come back in
/// step (aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    rng: Rng,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration, rng: Rng) -> Self {
        Self { min, max: max.max(min), failures: 0, rng }
    }

    /// The last connection was a good one. Only then: one that is lost right after each `welcome`
    /// must not be tried again at once for ever.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// `told` is how much is left of the gateway's `reconnect_after_ms`, if it told one.
    pub(crate) fn next(
        &mut self,
        reason: &DisconnectReason,
        told: Option<Duration>,
        renewal: Renewal,
    ) -> Next {
        if let Some(wait) = told.filter(|_| is_departure(reason)) {
            return Next::Retry(wait);
        }
        let retry = match reason {
            DisconnectReason::Closed(close) => match (close.retry(), renewal) {
                (Retry::No, _) | (Retry::WithNewToken, Renewal::Impossible) => {
                    return Next::End(*close);
                }
                (retry, _) => retry,
            },
            DisconnectReason::Unreachable(_) | DisconnectReason::Refused { .. } => {
                Retry::AfterDelay
            }
            _ => Retry::Yes,
        };
        let at_once = match retry {
            Retry::Yes => self.failures == 0,
            // An expired token was a good one, so the next will do; a bad one is no hurry.
            Retry::WithNewToken => {
                self.failures == 0 && *reason == DisconnectReason::Closed(CloseReason::TokenExpired)
            }
            Retry::AfterDelay | Retry::No => false,
        };
        let wait = if at_once { Duration::ZERO } else { self.jittered() };
        self.failures = self.failures.saturating_add(1);
        let DisconnectReason::Refused { retry_after: Some(least), .. } = reason else {
            return Next::Retry(wait);
        };
        // It is told in whole seconds, by which all would come in step. No proxy keeps a client away for longer than the
        // longest wait.
        let spread = Duration::from_secs(1).mul_f64(self.rng.f64());
        Next::Retry(wait.max((*least + spread).min(self.max)))
    }

    fn jittered(&mut self) -> Duration {
        let doubled = self.min.saturating_mul(2u32.saturating_pow(self.failures));
        doubled.min(self.max).mul_f64(self.rng.f64())
    }
}

/// Whether the gateway went away as it had announced, or by its network's fault after that.
fn is_departure(reason: &DisconnectReason) -> bool {
    match reason {
        DisconnectReason::Closed(close) => {
            matches!(close.retry(), Retry::AfterDelay | Retry::Yes)
        }
        DisconnectReason::Unreachable(_) | DisconnectReason::Refused { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(500);
    const MAX: Duration = Duration::from_mins(1);

    fn backoff(seed: u64) -> Backoff {
        Backoff::new(MIN, MAX, Rng::with_seed(seed))
    }

    fn closed(reason: CloseReason) -> DisconnectReason {
        DisconnectReason::Closed(reason)
    }

    fn wait(next: Next) -> Duration {
        match next {
            Next::Retry(wait) => wait,
            Next::End(reason) => panic!("ended with {reason:?}"),
        }
    }

    #[test]
    fn a_lost_network_is_tried_at_once_and_then_with_growing_jitter() {
        let lost = DisconnectReason::Lost(String::new());
        for seed in 0..200 {
            let mut backoff = backoff(seed);
            assert_eq!(backoff.next(&lost, None, Renewal::Possible), Next::Retry(Duration::ZERO));
            for failures in 1..40 {
                let cap = MIN.saturating_mul(2u32.saturating_pow(failures)).min(MAX);
                assert!(wait(backoff.next(&lost, None, Renewal::Possible)) <= cap);
            }
        }
    }

    #[test]
    fn the_jitter_fills_the_whole_range() {
        let waits: Vec<Duration> = (0..1000)
            .map(|seed| {
                let overloaded = closed(CloseReason::Overloaded);
                wait(backoff(seed).next(&overloaded, None, Renewal::Possible))
            })
            .collect();
        assert!(waits.iter().any(|wait| *wait < MIN.mul_f64(0.05)));
        assert!(waits.iter().any(|wait| *wait > MIN.mul_f64(0.95)));
        let mean = waits.iter().sum::<Duration>() / 1000;
        assert!(mean > MIN.mul_f64(0.45) && mean < MIN.mul_f64(0.55), "{mean:?}");
    }

    #[test]
    fn a_refusal_is_obeyed_for_as_long_as_it_says_and_no_longer_than_the_longest_wait() {
        for seed in 0..200 {
            for (told_s, least) in [(7, Duration::from_secs(7)), (86_400, MAX)] {
                let retry_after = Some(Duration::from_secs(told_s));
                let refused = DisconnectReason::Refused { status: 503, retry_after };
                let waited = wait(backoff(seed).next(&refused, None, Renewal::Possible));
                assert!(waited >= least && waited <= least + Duration::from_secs(1), "{waited:?}");
            }
            let refused = DisconnectReason::Refused { status: 503, retry_after: None };
            assert!(wait(backoff(seed).next(&refused, None, Renewal::Possible)) <= MIN);
        }
    }

    #[test]
    fn every_close_code_is_obeyed() {
        for reason in CloseReason::ALL {
            let next = backoff(1).next(&closed(reason), None, Renewal::Possible);
            match reason.retry() {
                Retry::No => assert_eq!(next, Next::End(reason)),
                Retry::Yes => assert_eq!(next, Next::Retry(Duration::ZERO)),
                Retry::AfterDelay => assert!(wait(next) > Duration::ZERO && wait(next) <= MIN),
                Retry::WithNewToken => {
                    let next = backoff(1).next(&closed(reason), None, Renewal::Impossible);
                    assert_eq!(next, Next::End(reason));
                }
            }
        }
    }

    #[test]
    fn what_the_gateway_told_is_obeyed_but_not_when_it_forbids_a_return() {
        let told = Some(Duration::from_secs(7));
        let next = backoff(1).next(&closed(CloseReason::Draining), told, Renewal::Possible);
        assert_eq!(next, Next::Retry(Duration::from_secs(7)));
        let next = backoff(1).next(&closed(CloseReason::Disconnected), told, Renewal::Possible);
        assert_eq!(next, Next::End(CloseReason::Disconnected));
    }
}
