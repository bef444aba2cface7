//! What is shown while a run goes on: a bar on a terminal, a line each second elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};

use crate::run::Run;

const EVERY: Duration = Duration::from_secs(1);

/// Shows the run until it is dropped.
pub(crate) async fn show(run: &Run) {
    let bar = stderr().is_terminal().then(|| bar(run));
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    let mut last = Totals::of(run);
    loop {
        ticks.tick().await;
        let now = Totals::of(run);
        let line = line(run, &now.since(&last));
        match &bar {
            Some(bar) => {
                bar.set_position(run.tally.open());
                bar.set_message(line);
            }
            None => eprintln!("{:4}s  {line}", run.epoch.elapsed().as_secs()),
        }
        last = now;
    }
}

fn bar(run: &Run) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed:>4} {bar:24} {msg}")
        .expect("the template is constant and valid");
    ProgressBar::new(run.plan.schedule.connections.into()).with_style(style)
}

fn line(run: &Run, second: &Totals) -> String {
    let tally = &run.tally;
    let mut line = format!(
        "open {}/{}  connecting {}  failed {}  dropped {}  pings {}/s  pushes {}/s  \
         ping p99 {:.1} ms",
        tally.open(),
        run.plan.schedule.connections,
        tally.connecting(),
        tally.failed.get(),
        tally.dropped.get(),
        second.pings,
        second.pushes,
        tally.ping.quantile_ms(0.99),
    );
    let late_ms = tally.lateness.quantile_ms(0.99);
    if late_ms > 50.0 {
        // A string takes any text, so writing to one does not fail.
        let _ = write!(line, "  this tester is late: p99 {late_ms:.0} ms");
    }
    line
}

/// Counters at one moment, or how much they grew.
struct Totals {
    pings: u64,
    pushes: u64,
}

impl Totals {
    fn of(run: &Run) -> Self {
        let tally = &run.tally;
        let pushes = tally.pushed_online.get() + tally.pushed_offline.get();
        Self { pings: tally.pongs.get(), pushes }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self { pings: self.pings - earlier.pings, pushes: self.pushes - earlier.pushes }
    }
}
