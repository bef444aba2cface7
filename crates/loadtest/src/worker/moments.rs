//! What a worker does to its connections, and when: fixed by the seed, whatever the gateway does.
//! Pure.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::scenario::{Gap, Phase, Scenario, Span};

/// What is done to one connected user picked at random; a storm, to a share of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Deed {
    Close { back_after: Gap },
    SignOut { back_after: Gap },
    FallSilent,
    Freeze { lasts: Gap },
    Storm { share: f64, within_us: u64 },
}

/// The moments of a whole run.
pub(super) struct Moments {
    /// In the order of their phases, which do not overlap.
    streams: VecDeque<Stream>,
    rng: Rng,
    next: Option<(u64, Deed)>,
}

/// Evenly spread moments, each at random within its own stretch.
#[derive(Clone, Copy, Debug)]
struct Stream {
    deed: Deed,
    from_us: u64,
    step_us: f64,
    done: u64,
    count: u64,
}

impl Moments {
    /// Those of one worker of several.
    pub(super) fn new(scenario: &Scenario, worker: u32, workers: u32, rng: Rng) -> Self {
        let spans = scenario.timeline().spans;
        let streams = spans.iter().filter_map(|span| Stream::of(span, worker, workers));
        let mut moments = Self { streams: streams.collect(), rng, next: None };
        moments.next = moments.roll();
        moments
    }

    pub(super) fn next_due_us(&self) -> Option<u64> {
        self.next.map(|(due_us, _)| due_us)
    }

    /// The next deed that is due, and when it was.
    pub(super) fn pop_due(&mut self, now_us: u64) -> Option<(u64, Deed)> {
        let due = self.next.filter(|(due_us, _)| *due_us <= now_us)?;
        self.next = self.roll();
        Some(due)
    }

    fn roll(&mut self) -> Option<(u64, Deed)> {
        while let Some(stream) = self.streams.front_mut() {
            if stream.done < stream.count {
                let place = stream.done as f64 + self.rng.f64();
                stream.done += 1;
                return Some((stream.from_us + (place * stream.step_us) as u64, stream.deed));
            }
            self.streams.pop_front();
        }
        None
    }
}

impl Stream {
    fn of(span: &Span, worker: u32, workers: u32) -> Option<Self> {
        let from_us = span.from_us;
        let length_us = span.to_us - from_us;
        let at_rate = |rate: f64| (rate * length_us as f64 / 1e6).round() as u64;
        let (deed, all, length_us) = match span.phase {
            Phase::Ramp { .. } | Phase::Hold { .. } | Phase::Restart { .. } => return None,
            Phase::Storm { share, within, .. } => {
                let deed = Deed::Storm { share, within_us: within.us() };
                return Some(Self { deed, from_us, step_us: 0.0, done: 0, count: 1 });
            }
            Phase::Churn { rate, gap, .. } => {
                (Deed::Close { back_after: gap }, at_rate(rate.per_second()), length_us)
            }
            Phase::SignOut { rate, gap, .. } => {
                (Deed::SignOut { back_after: gap }, at_rate(rate.per_second()), length_us)
            }
            Phase::Flaky { rate, freeze, .. } => {
                (Deed::Freeze { lasts: freeze }, at_rate(rate.per_second()), length_us)
            }
            Phase::Silent { count, within, .. } => {
                (Deed::FallSilent, u64::from(count), within.us())
            }
        };
        let until = |worker: u32| all * u64::from(worker) / u64::from(workers);
        let count = until(worker + 1) - until(worker);
        let step_us = length_us as f64 / count.max(1) as f64;
        Some(Self { deed, from_us, step_us, done: 0, count })
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Heartbeat, Model, Notation, Time};

    use super::*;

    fn scenario() -> Scenario {
        let (within, duration) = (Time::from_secs(2), Time::from_secs(10));
        let gap: Gap = "1s..2s".parse().unwrap();
        Scenario {
            name: String::new(),
            users: 100,
            devices: 1,
            seed: 1,
            user_prefix: "load".to_owned(),
            format: Notation::Msgpack,
            heartbeat: Heartbeat::default(),
            contacts: Model::None,
            people: None,
            reconnect: None,
            phases: vec![
                Phase::Ramp { rate: "10/s".parse().unwrap() },
                Phase::Churn { rate: "5/s".parse().unwrap(), gap, duration },
                Phase::Storm { share: 0.5, within, duration },
                Phase::Silent { count: 7, within, duration },
            ],
        }
    }

    fn all(worker: u32, workers: u32) -> Vec<(u64, Deed)> {
        let mut moments = Moments::new(&scenario(), worker, workers, Rng::with_seed(3));
        std::iter::from_fn(|| moments.pop_due(u64::MAX)).collect()
    }

    #[test]
    fn all_workers_together_do_what_the_scenario_says() {
        let deeds: Vec<_> = (0..3).flat_map(|worker| all(worker, 3)).collect();
        let close = |deed: &Deed| matches!(deed, Deed::Close { .. });
        assert_eq!(deeds.iter().filter(|(_, deed)| close(deed)).count(), 50);
        let silent = deeds.iter().filter(|(_, deed)| *deed == Deed::FallSilent);
        assert_eq!(silent.clone().count(), 7);
        assert!(silent.clone().all(|(due, _)| (30_000_000..32_000_000).contains(due)));
        let storms = deeds.iter().filter(|(_, deed)| matches!(deed, Deed::Storm { .. }));
        assert!(storms.clone().all(|(due, _)| *due == 20_000_000));
        assert_eq!(storms.count(), 3, "each worker has its own share");
    }

    #[test]
    fn moments_are_in_order_and_the_same_each_time() {
        let moments = all(0, 1);
        assert!(moments.is_sorted_by_key(|(due, _)| *due));
        assert_eq!(moments, all(0, 1));
        assert!(moments.iter().all(|(due, _)| *due >= 10_000_000));
    }
}
