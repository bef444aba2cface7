//! Since when what is read in a turn may have been there: by so much the tester may be late itself
//! to hear of it. Pure.

/// A wait that ends so soon found something that was there before.
const AT_ONCE_US: u64 = 100;

/// The turns of the loop: each waits, and then reads what came.
#[derive(Debug, Default)]
pub(super) struct Turns {
    began_us: u64,
    heard_us: u64,
    is_full: bool,
}

/// A wait for what comes, or for the moment when something is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) from_us: u64,
    pub(super) due_us: u64,
    /// When it ended, which may be late.
    pub(super) to_us: u64,
    /// Whether as much was told as can be at once: there may be more.
    pub(super) is_full: bool,
}

impl Turns {
    /// A turn begins after a wait. One that is full may have left something to the next.
    pub(super) fn begin(&mut self, wait: Wait) {
        let Wait { from_us, due_us, to_us, is_full } = wait;
        let found_at_once = due_us <= from_us || to_us < from_us + AT_ONCE_US;
        let heard_us = match (self.is_full, found_at_once) {
            (true, _) => self.heard_us,
            (false, true) => self.began_us,
            (false, false) => to_us.min(due_us),
        };
        *self = Self { began_us: to_us, heard_us, is_full };
    }

    /// What is read in this turn did not come before.
    pub(super) fn heard_us(&self) -> u64 {
        self.heard_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_may_have_been_there_since_the_turn_before_or_since_the_wait_should_have_ended()
    {
        let mut turns = Turns::default();
        let mut heard_after = |from_us, due_us, to_us, is_full| {
            turns.begin(Wait { from_us, due_us, to_us, is_full });
            turns.heard_us()
        };
        assert_eq!(heard_after(1_000, 9_000, 5_000, false), 5_000, "it came and was heard");
        assert_eq!(heard_after(6_000, 9_000, 12_000, false), 9_000, "it was not woken in time");
        assert_eq!(heard_after(50_000, 90_000, 50_010, false), 12_000, "it came meanwhile");
        assert_eq!(heard_after(60_000, 59_000, 70_000, true), 50_010, "there was no wait");
        assert_eq!(heard_after(80_000, 90_000, 85_000, false), 50_010, "it was left");
        assert_eq!(heard_after(90_000, 99_000, 95_000, false), 95_000);
    }
}
