//! How late this process itself was, and when: what happened is known only to within that.
//! Pure; the clock is read elsewhere.

use crate::verify::record::Us;

/// Lateness is kept for each slot of this length.
const SLOT: Us = 100_000;

/// The greatest lateness in each slot of time.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    slots: Vec<Us>,
}

impl Lag {
    /// What was due at `due` was done at `now`: everything in between may have been late by as much.
    pub(crate) fn note(&mut self, due: Us, now: Us) {
        let late = now.saturating_sub(due);
        let last = (now / SLOT) as usize;
        if self.slots.len() <= last {
            self.slots.resize(last + 1, 0);
        }
        for slot in &mut self.slots[(due / SLOT) as usize..=last] {
            *slot = late.max(*slot);
        }
    }

    /// By how much a frame that was read at `at` may have been read too late. The slots beside it
    /// count as well: a long stall shows where it ends.
    pub(crate) fn around(&self, at: Us) -> Us {
        let slot = (at / SLOT) as usize;
        let near = self.slots.iter().skip(slot.saturating_sub(1)).take(3);
        near.copied().max().unwrap_or(0)
    }

    pub(crate) fn max(&self) -> Us {
        self.slots.iter().copied().max().unwrap_or(0)
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
        assert_eq!(lag.max(), 700_000);
    }
}
