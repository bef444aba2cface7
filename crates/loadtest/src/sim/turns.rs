//! The turns of the loop that plays all the clients.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::sim::plan::Plan;
use crate::sim::rhythm::Rhythm;
use crate::sim::tally::Tally;

/// How long after each other turns are due.
const EVERY: Duration = Duration::from_millis(20);

/// Turn after turn; late ones are made up for.
pub(crate) struct Turns<'a> {
    tally: &'a Tally,
    rhythm: Rhythm,
    start: Instant,
    next: Instant,
}

/// One that is due.
pub(crate) struct Turn<Due> {
    pub(crate) now: Instant,
    /// Whose heartbeat came due since the last turn.
    pub(crate) due: Due,
    /// The next turn is due already.
    pub(crate) is_behind: bool,
}

impl<'a> Turns<'a> {
    pub(crate) fn begin(plan: &Plan, tally: &'a Tally) -> Self {
        let start = Instant::now();
        let rhythm = Rhythm::new(plan.sessions, plan.config.heartbeat);
        Self { tally, rhythm, start, next: start }
    }

    /// Waits until the next turn is due.
    pub(crate) async fn next(&mut self) -> Turn<impl Iterator<Item = u32> + use<>> {
        sleep_until(self.next).await;
        let now = Instant::now();
        let late = now - self.next;
        self.tally.lateness.record(late);
        self.next += EVERY;
        Turn { now, due: self.rhythm.due(now - self.start), is_behind: late > EVERY }
    }
}
