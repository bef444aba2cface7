//! What is shown while a run goes on: a bar on a terminal, a line each second elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use crate::coordinator::merge::Merge;
use crate::measures::{Count, Timing};
use crate::report::Second;

/// When the testers themselves were this late, it is said.
const LATE_WORTH_A_WORD_MS: f64 = 50.0;

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
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:24} {msg}")
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
        let line = self.line(merge, second);
        match &self.bar {
            Some(bar) => {
                bar.set_position(second.open);
                bar.set_message(line);
            }
            None => eprintln!("{:4}s  {line}", second.at_s),
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

    fn line(&self, merge: &Merge, second: &Second) -> String {
        let grew = |count: Count| second.grew.get(count.name()).copied().unwrap_or_default();
        let p99 = |timing: Timing| second.timings.get(timing.name()).map(|brief| brief.p99_ms);
        let whole = &merge.whole;
        let mut line = format!(
            "open {}/{}  connecting {}  failed {}  dropped {}  pings {}/s  pushes {}/s",
            second.open,
            self.planned,
            whole.connecting(),
            whole.get(Count::Failed),
            whole.get(Count::Dropped),
            grew(Count::Pongs),
            grew(Count::PushedOnline) + grew(Count::PushedOffline),
        );
        // A string takes any text, so writing to one does not fail.
        if let Some(ping_ms) = p99(Timing::Ping) {
            let _ = write!(line, "  ping p99 {ping_ms:.1} ms");
        }
        let late_ms = p99(Timing::TesterLate).unwrap_or_default();
        if late_ms > LATE_WORTH_A_WORD_MS {
            let _ = write!(line, "  this tester is late: p99 {late_ms:.0} ms");
        }
        line
    }
}
