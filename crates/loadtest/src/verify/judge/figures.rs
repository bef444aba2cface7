//! The worst that was measured of each kind, and what was let pass since the machine was busy. Pure.

use serde::Serialize;

use crate::verify::record::Us;
use crate::verify::truth::PROMPT;

/// A verdict that hangs on more is none: it is the shortest bound itself.
const WIDENED_MAX: Us = PROMPT;

/// The worst of what a bound judges, and how often it was broken: the two always agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Extreme {
    pub(crate) checked: u64,
    pub(crate) worst_us: Us,
    pub(crate) broken: u64,
}

impl Extreme {
    pub(crate) fn latest(&mut self, late: Us) {
        self.merge(Self { checked: 1, worst_us: late, broken: 0 }, Us::max);
    }

    pub(super) fn earliest(&mut self, early: Us) {
        self.merge(Self { checked: 1, worst_us: early, broken: 0 }, Us::min);
    }

    /// Takes in what was found elsewhere.
    pub(crate) fn merge(&mut self, other: Self, worse: fn(Us, Us) -> Us) {
        self.worst_us = match (self.checked, other.checked) {
            (0, _) => other.worst_us,
            (_, 0) => self.worst_us,
            _ => worse(self.worst_us, other.worst_us),
        };
        self.checked += other.checked;
        self.broken += other.broken;
    }
}

/// Verdicts that would have been others on an idle machine's bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Widened {
    pub(crate) verdicts: u64,
    /// By how much a bound had to be widened at most.
    pub(crate) most_us: Us,
    /// How many hung on more than can be excused: this machine was too busy to judge them.
    pub(crate) too_far: u64,
}

impl Widened {
    /// A bound had to be widened by so much.
    pub(super) fn note(&mut self, by: Us) {
        self.verdicts += 1;
        self.most_us = self.most_us.max(by);
        self.too_far += u64::from(by > WIDENED_MAX);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.verdicts += other.verdicts;
        self.most_us = self.most_us.max(other.most_us);
        self.too_far += other.too_far;
    }
}
