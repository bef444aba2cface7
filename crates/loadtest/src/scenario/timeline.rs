//! When each phase begins and ends: known before the run, whatever the server does.

use crate::scenario::{Phase, Scenario};

/// A phase and its time, in µs since the run began.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) phase: Phase,
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
}

/// All phases, in order.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) spans: Vec<Span>,
}

impl Timeline {
    pub(crate) fn end_us(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.to_us)
    }
}

impl Scenario {
    /// When the n-th connection is begun, in µs.
    pub(crate) fn begin_us(&self, n: u64) -> u64 {
        let Some(ramp @ Phase::Ramp { rate }) = self.phases.first() else { return 0 };
        let share = n as f64 / self.connections() as f64;
        (rate.share_of_time(share) * self.length_us(ramp) as f64) as u64
    }

    pub(crate) fn timeline(&self) -> Timeline {
        let mut now_us = 0u64;
        let spans = self.phases.iter().map(|phase| {
            let from_us = now_us;
            now_us = now_us.saturating_add(self.length_us(phase));
            Span { phase: phase.clone(), from_us, to_us: now_us }
        });
        Timeline { spans: spans.collect() }
    }

    fn length_us(&self, phase: &Phase) -> u64 {
        match phase {
            Phase::Ramp { rate } => rate.length_us(self.connections()),
            Phase::Hold { duration }
            | Phase::Churn { duration, .. }
            | Phase::Storm { duration, .. }
            | Phase::Silent { duration, .. }
            | Phase::Flaky { duration, .. }
            | Phase::SignOut { duration, .. }
            | Phase::Restart { duration, .. } => duration.us(),
        }
    }
}
