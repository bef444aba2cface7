//! What breaks at random, and when. Pure.
//!
//! Several things may be broken at once, but a gateway only in one way at a time, one gateway is
//! always whole, and Redis is broken in one way at a time. All is healed when the round ends.

use fastrand::Rng;

use crate::verify::history::PlannedFault;
use crate::verify::record::{FaultKind, Place, Us};

const SECOND: Us = 1_000_000;

/// Faults begin after this, so that there is something to break.
const FIRST: Us = SECOND;

/// How often is tried to find a time for a fault.
const TRIES: usize = 20;

/// What the random faults of a round follow from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breakage<'a> {
    pub(crate) kinds: &'a [FaultKind],
    pub(crate) places: usize,
    pub(crate) ttl: Us,
    /// How long a drain takes.
    pub(crate) drain: Us,
}

impl Breakage<'_> {
    /// Some faults for a round of this length, in the order of their beginning.
    pub(crate) fn plan(&self, rng: &mut Rng, length: Us) -> Vec<PlannedFault> {
        let mut planned: Vec<PlannedFault> = Vec::new();
        if self.kinds.is_empty() {
            return planned;
        }
        let count = 1 + rng.u64(1..=1 + length / (6 * SECOND));
        for _ in 0..count {
            let found = (0..TRIES).map(|_| self.roll(rng, length));
            let found = found.flatten().find(|fault| self.is_possible(fault, &planned));
            planned.extend(found);
        }
        planned.sort_by_key(|fault| fault.at);
        planned
    }

    fn roll(&self, rng: &mut Rng, length: Us) -> Option<PlannedFault> {
        let kind = *rng.choice(self.kinds)?;
        let lasts = match kind {
            FaultKind::SubscriberKill | FaultKind::ConnectionKill => 0,
            FaultKind::GatewayRestart => self.drain + rng.u64(SECOND / 10..SECOND),
            FaultKind::GatewayKill => rng.u64(SECOND / 5..self.ttl + 2 * SECOND),
            FaultKind::RedisKill => rng.u64(SECOND / 10..3 * SECOND),
            FaultKind::GatewayPause | FaultKind::RedisPause => {
                rng.u64(SECOND / 2..self.ttl + self.ttl / 2)
            }
            FaultKind::ClusterFailover => 8 * SECOND,
            FaultKind::ClusterHang => rng.u64(6 * SECOND..12 * SECOND),
        };
        let at = FIRST + rng.u64(..=length.checked_sub(lasts + FIRST)?);
        let place = kind.is_of_gateway().then(|| rng.usize(..self.places));
        Some(PlannedFault { at, kind, place, lasts })
    }

    fn is_possible(&self, fault: &PlannedFault, planned: &[PlannedFault]) -> bool {
        let meets = |other: &&PlannedFault| {
            other.at <= fault.end() + SECOND && fault.at <= other.end() + SECOND
        };
        let meeting: Vec<&PlannedFault> = planned.iter().filter(meets).collect();
        match fault.place {
            // What is cut is cut by Redis, which must be there to do it.
            None => meeting.iter().all(|other| other.place.is_some()),
            Some(place) => {
                let mut broken: Vec<Place> =
                    meeting.iter().filter_map(|other| other.place).collect();
                broken.dedup();
                !broken.contains(&place) && broken.len() + 1 < self.places
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [FaultKind; 7] = [
        FaultKind::GatewayKill,
        FaultKind::GatewayPause,
        FaultKind::GatewayRestart,
        FaultKind::RedisKill,
        FaultKind::RedisPause,
        FaultKind::SubscriberKill,
        FaultKind::ConnectionKill,
    ];

    #[test]
    fn one_gateway_is_always_whole_and_all_is_healed_in_the_end() {
        let breakage = Breakage { kinds: &KINDS, places: 3, ttl: 4 * SECOND, drain: 2 * SECOND };
        let mut at_once = 0;
        for seed in 0..500 {
            let faults = breakage.plan(&mut Rng::with_seed(seed), 20 * SECOND);
            assert!(!faults.is_empty());
            assert!(faults.is_sorted_by_key(|fault| fault.at));
            for fault in &faults {
                assert!(fault.end() <= 20 * SECOND, "{fault:?}");
                let at = |other: &&PlannedFault| other.at <= fault.at && fault.at <= other.end();
                let now: Vec<_> = faults.iter().filter(at).collect();
                let gateways = now.iter().filter(|fault| fault.place.is_some()).count();
                assert!(gateways <= 2 && now.len() - gateways <= 1, "{now:?}");
                at_once = at_once.max(now.len());
            }
        }
        assert_eq!(at_once, 3);
    }
}
