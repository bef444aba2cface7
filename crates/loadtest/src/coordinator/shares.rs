//! Which users are whose, and who may watch whom: every worker has about as many, those of this host
//! come first and share a ledger, and each of another host is a world of its own.

use std::ops::Range;

use anyhow::{Result, ensure};
use tempfile::NamedTempFile;

use crate::coordinator::hellos::Candidate;
use crate::measures::micros;
use crate::plan::Plan;
use crate::scenario::Model;
use crate::wire::{Assignment, LedgerPlace};

/// Which users are whose.
pub(super) struct Shares {
    users: u32,
    workers: u32,
    here: u32,
}

impl Shares {
    pub(super) fn new(plan: &Plan, here: usize) -> Self {
        let workers = plan.workers + plan.remote_workers;
        Self { users: plan.scenario.users, workers, here: here as u32 }
    }

    fn of(&self, worker: u32) -> Range<u32> {
        let until = |worker: u32| {
            (u64::from(self.users) * u64::from(worker) / u64::from(self.workers)) as u32
        };
        until(worker)..until(worker + 1)
    }

    /// All of this host, whose workers come first.
    pub(super) fn here(&self) -> Range<u32> {
        0..if self.here == 0 { 0 } else { self.of(self.here - 1).end }
    }

    pub(super) fn assignment(
        &self,
        plan: &Plan,
        worker: u32,
        candidate: &Candidate,
        ledger: &NamedTempFile,
    ) -> Result<Assignment> {
        let users = self.of(worker);
        let connections = users.len() as u64 * u64::from(plan.scenario.devices);
        ensure!(
            connections <= candidate.connections_max,
            "worker {} can hold {} connections, and its share is {connections}: use more workers",
            worker + 1,
            candidate.connections_max
        );
        let (world, place) = if candidate.is_here {
            (self.here(), LedgerPlace::Shared(ledger.path().to_owned()))
        } else {
            (users.clone(), LedgerPlace::Own)
        };
        // Of a list, those of other hosts are left out.
        let is_listed = matches!(plan.scenario.contacts, Model::Listed { .. });
        ensure!(
            is_listed || world.len() > plan.scenario.contacts.watched_max() as usize,
            "contacts: users of worker {} can watch at most the {} others of its host",
            worker + 1,
            world.len().saturating_sub(1)
        );
        Ok(Assignment {
            scenario: plan.scenario.clone(),
            worker,
            workers: self.workers,
            users,
            world,
            ledger: place,
            urls: plan.urls.clone(),
            origin: plan.origin,
            jwt_secret: plan.jwt_secret.clone(),
            authorities: plan.authorities.clone(),
            connect_timeout_us: micros(plan.connect_timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_users_once_and_are_alike() {
        for (users, workers) in [(7, 3), (1_000_000, 55), (5, 5)] {
            let shares = Shares { users, workers, here: workers - 1 };
            let mut next = 0;
            for worker in 0..workers {
                let share = shares.of(worker);
                assert_eq!(share.start, next);
                assert!(share.len().abs_diff((users / workers) as usize) <= 1, "{share:?}");
                next = share.end;
            }
            assert_eq!(next, users);
            assert_eq!(shares.here().end, shares.of(workers - 1).start);
        }
    }
}
