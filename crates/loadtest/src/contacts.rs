//! Who watches whom in a run: follows from the scenario alone, so that every worker knows it of
//! everybody and keeps no table; but for contacts that a file lists.

mod power_law;
pub(crate) mod random;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::contacts::power_law::PowerLaw;
use crate::contacts::random::RandomContacts;

/// How users are connected with each other, as a scenario says it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Model {
    /// Nobody watches anybody.
    None,
    /// Everybody watches so many random others.
    Fixed { count: u32 },
    /// A few users watch and are watched by very many, most by few: degrees follow a bounded Pareto
    /// distribution with density x^-exponent.
    PowerLaw { mean: f64, max: u32, exponent: f64 },
    /// Everybody watches so many of those who connect last: when they come, everybody is told.
    Popular { count: u32 },
    /// Everybody watches those whom the file of users names, at most so many.
    Listed {
        #[serde(default)]
        max: u32,
    },
}

impl Model {
    /// The most that anybody watches.
    pub(crate) fn watched_max(&self) -> u32 {
        match *self {
            Self::None => 0,
            Self::Fixed { count } | Self::Popular { count } => count,
            Self::PowerLaw { max, .. } | Self::Listed { max } => max,
        }
    }
}

/// The contacts of the users of one world: those whom one ledger covers.
#[derive(Clone, Debug)]
pub(crate) struct Contacts {
    world: Range<u32>,
    choice: Choice,
}

#[derive(Clone, Debug)]
enum Choice {
    Nobody,
    Random(RandomContacts),
    PowerLaw(PowerLaw),
    Last(u32),
    /// Of the users from this one on.
    Listed(u32, Vec<Vec<u32>>),
}

impl Contacts {
    /// The model must have been checked for a world of this size.
    pub(crate) fn new(model: &Model, world: Range<u32>, seed: u64) -> Self {
        let users = world.len() as u32;
        let choice = match *model {
            Model::None | Model::Listed { .. } => Choice::Nobody,
            Model::Fixed { count } => {
                Choice::Random(RandomContacts::new(users, count.min(users - 1), seed))
            }
            Model::PowerLaw { mean, max, exponent } => {
                Choice::PowerLaw(PowerLaw::new(users, mean, max.min(users - 1), exponent, seed))
            }
            Model::Popular { count } => Choice::Last(count.min(users - 1)),
        };
        Self { world, choice }
    }

    /// Those that are named, of users from `first` on; only others of the world are watched.
    pub(crate) fn listed(world: Range<u32>, first: u32, lists: Vec<Vec<u32>>) -> Self {
        Self { world, choice: Choice::Listed(first, lists) }
    }

    /// Whom this user watches: distinct others of its world, sorted.
    pub(crate) fn of(&self, user: u32) -> Vec<u32> {
        if let Choice::Listed(first, lists) = &self.choice {
            let listed = lists[(user - first) as usize].iter().copied();
            return listed.filter(|other| self.world.contains(other)).collect();
        }
        let place = user - self.world.start;
        let mut watched = match &self.choice {
            Choice::Nobody | Choice::Listed(..) => Vec::new(),
            Choice::Random(contacts) => contacts.watched_by(place),
            Choice::PowerLaw(contacts) => contacts.watched_by(place),
            Choice::Last(count) => self.last(*count).filter(|other| *other != place).collect(),
        };
        watched.sort_unstable();
        for other in &mut watched {
            *other += self.world.start;
        }
        watched
    }

    fn last(&self, count: u32) -> Range<u32> {
        let users = self.world.len() as u32;
        users - count..users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_watches_distinct_others_of_its_world() {
        let power_law = Model::PowerLaw { mean: 8.0, max: 60, exponent: 2.5 };
        let popular = Model::Popular { count: 3 };
        for model in [Model::None, Model::Fixed { count: 20 }, power_law, popular] {
            let contacts = Contacts::new(&model, 100..200, 7);
            for user in 100..200 {
                let watched = contacts.of(user);
                assert!(watched.is_sorted_by(|one, other| one < other), "{model:?}");
                assert!(watched.iter().all(|other| *other != user && (100..200).contains(other)));
                assert!(watched.len() as u32 <= model.watched_max(), "{model:?}");
            }
        }
    }

    #[test]
    fn the_last_are_watched_by_all_others() {
        let contacts = Contacts::new(&Model::Popular { count: 2 }, 100..200, 7);
        assert_eq!(contacts.of(100), [198, 199]);
        assert_eq!(contacts.of(199), [198]);
    }
}
