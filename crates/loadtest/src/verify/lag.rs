//! How late this process itself was, and how long the machine kept the deployment's processes from
//! running: what happened is known only to within that. Pure; clocks are read elsewhere.

use crate::verify::record::{Span, Us};

/// Lateness is kept for each slot of this length.
const SLOT: Us = 100_000;

/// A change is on its way for so long; the waits for a CPU in that time may have delayed it, by a
/// second at most.
const WAY_SLOTS: usize = 10;

/// When this process was so late, the machine stood still. To the gateways this is a fault like any other: they have to
/// find out what they missed.
const STANDSTILL_MIN: Us = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The greatest lateness of this process.
    late: Us,
    /// For how long one of the deployment's processes was ready to run and did not.
    starved: Us,
}

/// Lateness by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag {
    slots: Vec<Slot>,
    /// Times in which the machine stood still.
    standstills: Vec<Span>,
}

impl Lag {
    /// What was due at `due` was done at `now`: everything in between may have been late by as much.
    pub(crate) fn note(&mut self, due: Us, now: Us) {
        let late = now.saturating_sub(due);
        self.slot(now);
        for slot in &mut self.slots[(due / SLOT) as usize..=(now / SLOT) as usize] {
            slot.late = late.max(slot.late);
        }
        if late >= STANDSTILL_MIN {
            self.standstills.push(Span { start: due, end: now });
        }
    }

    /// One of the deployment's processes waited for a CPU by so much since the last time.
    pub(crate) fn note_starved(&mut self, now: Us, waited: Us) {
        self.slot(now).starved += waited;
    }

    /// By how much later what was told at `at`, or was due then, may have been read. The slots
    /// beside it count as well: a long stall shows where it ends.
    pub(crate) fn around(&self, at: Us) -> Us {
        let slot = (at / SLOT) as usize;
        let near = self.slots.iter().skip(slot.saturating_sub(1)).take(3);
        let late = near.map(|slot| slot.late).max().unwrap_or(0);
        late + self.starved_before(slot + 1)
    }

    /// When what was due at `due` must have been read, if a fault is healed `relief` after it.
    pub(crate) fn read_by(&self, due: Us, relief: Us) -> Us {
        let relieved = |still: &Span| Span { start: still.start, end: still.end + relief };
        let standstills = self.standstills.iter().map(relieved).filter(|still| still.has(due));
        let due = standstills.map(|still| still.end).max().unwrap_or(due);
        due + self.around(due)
    }

    fn starved_before(&self, slot: usize) -> Us {
        let way = self.slots.iter().skip((slot + 1).saturating_sub(WAY_SLOTS)).take(WAY_SLOTS);
        way.map(|slot| slot.starved).sum()
    }

    /// The greatest lateness of this process.
    pub(crate) fn late_max(&self) -> Us {
        self.slots.iter().map(|slot| slot.late).max().unwrap_or(0)
    }

    /// The most that a process of the deployment waited for a CPU within a second.
    pub(crate) fn starved_max(&self) -> Us {
        (0..self.slots.len()).map(|slot| self.starved_before(slot)).max().unwrap_or(0)
    }

    fn slot(&mut self, at: Us) -> &mut Slot {
        let slot = (at / SLOT) as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Slot::default());
        }
        &mut self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_known_around_the_time_it_covers_and_nowhere_else() {
        let mut lag = Lag::default();
        lag.note(1_000_000, 1_700_000);
        lag.note(3_000_000, 3_000_100);
        for at in [900_000, 1_000_000, 1_350_000, 1_700_000, 1_850_000] {
            assert_eq!(lag.around(at), 700_000, "{at}");
        }
        assert_eq!(lag.around(500_000), 0);
        assert_eq!(lag.around(3_000_000), 100);
        assert_eq!(lag.around(9_000_000), 0);
        assert_eq!(lag.late_max(), 700_000);
    }

    #[test]
    fn what_is_due_while_the_machine_stands_still_or_soon_after_has_time_to_heal() {
        let mut lag = Lag::default();
        lag.note(2_000_000, 2_999_999);
        assert_eq!(lag.read_by(2_500_000, 7_000_000), 2_500_000 + 999_999);
        lag.note(4_000_000, 5_000_000);
        for due in [4_000_000, 4_900_000, 11_999_999] {
            assert_eq!(lag.read_by(due, 7_000_000), 12_000_000, "{due}");
        }
        assert_eq!(lag.read_by(12_000_000, 7_000_000), 12_000_000);
    }

    #[test]
    fn waits_for_a_cpu_add_up_over_a_second() {
        let mut lag = Lag::default();
        for tenth in 0..20 {
            lag.note_starved(5_000_000 + tenth * SLOT, 30_000);
        }
        assert_eq!(lag.around(4_000_000), 0);
        assert_eq!(lag.around(6_500_000), 300_000);
        assert_eq!(lag.around(9_000_000), 0);
        assert_eq!(lag.starved_max(), 300_000);
    }
}
