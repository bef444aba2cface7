//! What is shown while a run goes on: a bar on a terminal, a line each second elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::coordinator::merge::Merge;
use crate::measures::{Count, Measures, Timing};
use crate::report::Second;
use crate::report::names::spoken;

/// When the testers themselves were this late, it is said.
const LATE_WORTH_A_WORD_MS: f64 = 50.0;

/// Promises that are seen broken while a run goes on.
const BROKEN: [Count; 5] = [
    Count::FalseOffline,
    Count::EarlyOffline,
    Count::FlapsShown,
    Count::Backward,
    Count::LostChanges,
];

pub(super) struct Progress {
    planned: u64,
    /// None when there is no terminal.
    bar: Option<ProgressBar>,
    /// The last second that was shown.
    shown_s: u32,
}

impl Progress {
    pub(super) fn new(planned: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:24} {msg}\n     {prefix}")
                .expect("the template is constant and valid");
            ProgressBar::new(planned).with_style(style)
        });
        Self { planned, bar, shown_s: 0 }
    }

    /// Shows the last second, if it is new.
    pub(super) fn show(&mut self, merge: &Merge) {
        let Some(second) = merge.last_second().filter(|second| second.at_s > self.shown_s) else {
            return;
        };
        self.shown_s = second.at_s;
        let (flow, trouble) = (self.flow(second), trouble(&merge.whole, second));
        match &self.bar {
            Some(bar) => {
                bar.set_position(second.open);
                bar.set_message(flow);
                bar.set_prefix(trouble);
            }
            None => eprintln!("{:4}s  {flow}  {trouble}", second.at_s),
        }
    }

    /// Says something beside it.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// How many are there, what they did in this second, and how long that took.
    fn flow(&self, second: &Second) -> String {
        let grew = |count: Count| second.grew.get(count.name()).copied().unwrap_or_default();
        let mut line = format!(
            "open {}/{}  connects {}/s  pings {}/s  pushes {}/s",
            second.open,
            self.planned,
            grew(Count::Connected),
            grew(Count::Pongs),
            grew(Count::PushedOnline) + grew(Count::PushedOffline),
        );
        // A string takes any text, so writing to one does not fail.
        let mut before = "  p99";
        for timing in [Timing::Connect, Timing::Ping, Timing::OnlinePush] {
            if let Some(ms) = p99_ms(second, timing) {
                let _ = write!(line, "{before} {} {ms:.1} ms", timing.name());
                before = ",";
            }
        }
        line
    }
}

/// What went wrong so far in the whole run.
fn trouble(whole: &Measures, second: &Second) -> String {
    let mut line = format!(
        "connecting {}  failed {}  dropped {}",
        whole.connecting(),
        whole.get(Count::Failed),
        whole.get(Count::Dropped),
    );
    for count in [Count::Retried, Count::SentAway, Count::Lost].into_iter().chain(BROKEN) {
        let seen = whole.get(count);
        if seen > 0 {
            let _ = write!(line, "  {} {seen}", spoken(count.name()));
        }
    }
    let late_ms = p99_ms(second, Timing::TesterLate).unwrap_or_default();
    if late_ms > LATE_WORTH_A_WORD_MS {
        let _ = write!(line, "  this tester is late: p99 {late_ms:.0} ms");
    }
    line
}

fn p99_ms(second: &Second, timing: Timing) -> Option<f64> {
    second.timings.get(timing.name()).map(|brief| brief.p99_ms)
}
