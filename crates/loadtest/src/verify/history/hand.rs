//! What one user does at random. Pure, but for its dice.
//!
//! It assumes that every act succeeds. Where one did not, as the gateway was gone, acts on that
//! session come to nothing, and a later one signs in again.

use std::collections::HashSet;

use fastrand::Rng;
use presence_protocol::Show;

use crate::verify::history::{Act, DEVICES, PlannedFault, SLOTS, Slot, Step};
use crate::verify::record::{FaultKind, Place, Us, User};

const SECOND: Us = 1_000_000;

/// Between two acts that belong together, such as leaving and coming back.
const BREATH: Us = SECOND / 50;

/// What all hands have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    pub(crate) users: u32,
    pub(crate) places: usize,
    pub(crate) heartbeat: Us,
    pub(crate) ttl: Us,
    pub(crate) grace: Us,
    /// Between two acts of one user, on average.
    pub(crate) pause: Us,
    /// How many others are watched or forgotten at once.
    pub(crate) watch_step: usize,
}

/// One user's dice and what it believes to be its sessions.
#[derive(Debug)]
pub(crate) struct Hand {
    user: User,
    rng: Rng,
    open: [Option<Place>; SLOTS],
}

/// What is done next.
#[derive(Clone, Copy)]
enum Mood {
    Connect,
    /// Away and back within grace, here or elsewhere.
    Hop,
    /// To another gateway with no gap.
    Move,
    Drop,
    Bye,
    Freeze,
    Stall,
    Status,
    Rewatch,
}

/// How likely each is, for a user who is there.
const MOODS: [(Mood, u32); 9] = [
    (Mood::Connect, 14),
    (Mood::Hop, 24),
    (Mood::Move, 8),
    (Mood::Drop, 16),
    (Mood::Bye, 10),
    (Mood::Freeze, 8),
    (Mood::Stall, 4),
    (Mood::Status, 10),
    (Mood::Rewatch, 6),
];

impl Hand {
    pub(crate) fn new(user: User, rng: Rng) -> Self {
        Self { user, rng, open: [None; SLOTS] }
    }

    /// Signs in once, at a random moment of `length`.
    pub(crate) fn sign_in(&mut self, habits: &Habits, length: Us) -> Vec<Step> {
        let at = self.rng.u64(..length);
        let place = self.rng.usize(..habits.places);
        vec![(at, self.connect(0, place))]
    }

    /// What the user does in a round of this length in which these things break.
    pub(crate) fn play(
        &mut self,
        habits: &Habits,
        length: Us,
        faults: &[PlannedFault],
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut losses = faults.iter().filter(|fault| ends_sessions(fault)).peekable();
        let mut at = self.pause(habits);
        loop {
            while let Some(loss) = losses.next_if(|loss| loss.at <= at) {
                self.lose(habits, loss, faults, length, &mut steps);
            }
            if at >= length {
                break;
            }
            let last = self.act(habits, at, faults, &mut steps);
            at = last + self.pause(habits);
        }
        steps.retain(|(at, _)| *at < length);
        steps.sort_by_key(|(at, _)| *at);
        steps
    }

    /// Random, with the mean of the habits.
    fn pause(&mut self, habits: &Habits) -> Us {
        let share = -(1.0 - self.rng.f64()).ln();
        (habits.pause as f64 * share.clamp(0.02, 5.0)) as Us
    }

    /// A gateway takes the user's sessions with it. Some users come back elsewhere, in time or not.
    fn lose(
        &mut self,
        habits: &Habits,
        loss: &PlannedFault,
        faults: &[PlannedFault],
        length: Us,
        steps: &mut Vec<Step>,
    ) {
        for slot in 0..SLOTS {
            if self.open[slot] != loss.place {
                continue;
            }
            self.open[slot] = None;
            let back = loss.at + BREATH + self.rng.u64(..habits.ttl + habits.grace + SECOND);
            if self.rng.u32(..10) < 6 && back < length {
                let place = self.place(habits, back, faults);
                steps.push((back, self.connect(slot, place)));
            }
        }
    }

    /// Does one thing at `at`; returns when it is done.
    fn act(
        &mut self,
        habits: &Habits,
        at: Us,
        faults: &[PlannedFault],
        steps: &mut Vec<Step>,
    ) -> Us {
        let place = self.place(habits, at, faults);
        let Some(slot) = self.any_open() else {
            steps.push((at, self.connect(0, place)));
            return at;
        };
        match self.mood() {
            Mood::Connect => match self.open.iter().position(Option::is_none) {
                Some(free) => steps.push((at, self.connect(free, place))),
                None => steps.push((at, self.close(Act::Bye(slot), slot))),
            },
            Mood::Hop => {
                // Sometimes a little too late on purpose.
                let back = at + BREATH + self.rng.u64(..habits.grace + habits.grace / 4);
                steps.push((at, self.close(Act::Drop(slot), slot)));
                steps.push((back, self.connect(slot, place)));
                return back;
            }
            Mood::Move => match self.open.iter().position(Option::is_none) {
                Some(free) => {
                    let left = at + self.rng.u64(BREATH..SECOND);
                    steps.push((at, self.connect(free, place)));
                    steps.push((left, self.close(Act::Drop(slot), slot)));
                    return left;
                }
                None => steps.push((at, self.close(Act::Drop(slot), slot))),
            },
            Mood::Drop => steps.push((at, self.close(Act::Drop(slot), slot))),
            Mood::Bye => steps.push((at, self.close(Act::Bye(slot), slot))),
            Mood::Freeze => steps.push((at, self.close(Act::Freeze(slot), slot))),
            Mood::Stall => {
                let lasts = self.rng.u64(habits.heartbeat..habits.ttl - habits.heartbeat);
                steps.push((at, Act::Stall { slot, lasts }));
                return at + lasts;
            }
            Mood::Status => {
                let shows = [Show::Online, Show::Away, Show::Busy];
                let show = *self.rng.choice(&shows).expect("there are three");
                steps.push((at, Act::Status { slot, show, text: self.rng.u8(..) }));
            }
            Mood::Rewatch => {
                let users = self.others(habits);
                let unwatch = self.rng.bool();
                let act =
                    if unwatch { Act::Unwatch { slot, users } } else { Act::Watch { slot, users } };
                steps.push((at, act));
            }
        }
        at
    }

    fn mood(&mut self) -> Mood {
        let total: u32 = MOODS.iter().map(|(_, weight)| weight).sum();
        let mut roll = self.rng.u32(..total);
        for (mood, weight) in MOODS {
            if roll < weight {
                return mood;
            }
            roll -= weight;
        }
        unreachable!("the roll is below the sum of the weights")
    }

    fn any_open(&mut self) -> Option<Slot> {
        let open: Vec<Slot> = (0..SLOTS).filter(|slot| self.open[*slot].is_some()).collect();
        self.rng.choice(open)
    }

    /// A gateway that is there, or at least stopped only.
    fn place(&mut self, habits: &Habits, at: Us, faults: &[PlannedFault]) -> Place {
        let is_gone = |place: Place| {
            let gone = |fault: &&PlannedFault| {
                ends_sessions(fault) && fault.place == Some(place) && fault.at <= at
            };
            faults.iter().filter(gone).any(|fault| at <= fault.end() + SECOND)
        };
        let there: Vec<Place> = (0..habits.places).filter(|place| !is_gone(*place)).collect();
        self.rng.choice(there).unwrap_or(0)
    }

    fn others(&mut self, habits: &Habits) -> Vec<User> {
        let count = habits.watch_step.min(habits.users as usize - 1);
        let mut others = HashSet::new();
        while others.len() < count {
            let other = self.rng.u32(..habits.users);
            if other != self.user {
                others.insert(other);
            }
        }
        let mut others: Vec<User> = others.into_iter().collect();
        others.sort_unstable();
        others
    }

    fn connect(&mut self, slot: Slot, place: Place) -> Act {
        self.open[slot] = Some(place);
        let device = self.rng.bool().then(|| *self.rng.choice(&DEVICES).expect("there are some"));
        Act::Connect { slot, place, device }
    }

    fn close(&mut self, act: Act, slot: Slot) -> Act {
        self.open[slot] = None;
        act
    }
}

fn ends_sessions(fault: &PlannedFault) -> bool {
    matches!(fault.kind, FaultKind::GatewayKill | FaultKind::GatewayRestart)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HABITS: Habits = Habits {
        users: 50,
        places: 3,
        heartbeat: SECOND,
        ttl: 4 * SECOND,
        grace: SECOND,
        pause: 2 * SECOND,
        watch_step: 5,
    };

    fn play(seed: u64, faults: &[PlannedFault]) -> Vec<Step> {
        let mut hand = Hand::new(7, Rng::with_seed(seed));
        let mut steps = hand.sign_in(&HABITS, SECOND);
        steps.extend(hand.play(&HABITS, 600 * SECOND, faults));
        steps
    }

    #[test]
    fn the_same_seed_makes_the_same_history_and_another_does_not() {
        assert_eq!(play(3, &[]), play(3, &[]));
        assert_ne!(play(3, &[]), play(4, &[]));
    }

    #[test]
    fn every_kind_of_act_comes_in_order() {
        let steps = play(2, &[]);
        assert!(steps.len() > 200 && steps[1..].is_sorted_by_key(|(at, _)| *at));
        let kinds: HashSet<_> = steps.iter().map(|(_, act)| std::mem::discriminant(act)).collect();
        assert_eq!(kinds.len(), 8);
    }

    #[test]
    fn nobody_signs_in_at_a_gateway_that_is_known_to_be_gone() {
        let kind = FaultKind::GatewayKill;
        let fault = PlannedFault { at: 10 * SECOND, kind, place: Some(1), lasts: 300 * SECOND };
        let gone = fault.at..fault.end();
        for seed in 0..20 {
            for (at, act) in play(seed, &[fault]).iter().skip(1) {
                let Act::Connect { place, .. } = act else { continue };
                assert!(*place != 1 || !gone.contains(at), "at {at}");
            }
        }
    }
}
