//! Everybody watches the same number of random others: the choice of the promise check and the
//! simulation, and the model `fixed` of a run.

use std::collections::HashSet;

use fastrand::Rng;

/// An odd constant that spreads neighbouring indexes over all seeds (2^64 divided by the golden
/// ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Who watches whom. The same numbers make the same choices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomContacts {
    users: u32,
    watch: u32,
    seed: u64,
}

impl RandomContacts {
    /// Each of the users watches `watch` others, of whom there must be as many.
    pub(crate) fn new(users: u32, watch: u32, seed: u64) -> Self {
        Self { users, watch, seed }
    }

    /// The dice of the n-th user.
    pub(crate) fn rng(&self, index: u32) -> Rng {
        Rng::with_seed(self.seed ^ u64::from(index + 1).wrapping_mul(SPREAD))
    }

    /// Whom the n-th user watches: distinct others, each set of them as likely as any.
    ///
    /// Floyd's algorithm: as many rolls as picks, however many there are to pick from.
    pub(crate) fn watched_by(&self, index: u32) -> Vec<u32> {
        let others = self.users - 1;
        let mut rng = self.rng(index);
        let mut picked = HashSet::with_capacity(self.watch as usize);
        for last in others - self.watch..others {
            let roll = rng.u32(0..=last);
            if !picked.insert(roll) {
                picked.insert(last);
            }
        }
        // The others are all but this one: those from it on are one further.
        picked.into_iter().map(|other| other + u32::from(other >= index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_watches_distinct_others() {
        for watch in [0, 1, 20, 99] {
            let contacts = RandomContacts::new(100, watch, 7);
            for index in 0..100 {
                let watched: HashSet<u32> = contacts.watched_by(index).into_iter().collect();
                assert_eq!(watched.len(), watch as usize);
                assert!(watched.iter().all(|other| *other != index && *other < 100));
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_choices_and_another_does_not() {
        let watched = |seed| {
            let mut watched = RandomContacts::new(1_000, 20, seed).watched_by(3);
            watched.sort_unstable();
            watched
        };
        assert_eq!(watched(1), watched(1));
        assert_ne!(watched(1), watched(2));
    }

    #[test]
    fn all_are_watched_about_as_often() {
        let contacts = RandomContacts::new(200, 20, 1);
        let mut times = vec![0u32; 200];
        for index in 0..200 {
            contacts.watched_by(index).into_iter().for_each(|other| times[other as usize] += 1);
        }
        assert!(times.iter().all(|times| (4..=45).contains(times)), "{times:?}");
    }
}
