//! What is told while a check runs, on stderr: what happens, as lines, and how far it is, as a bar
//! on a terminal and as a line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::report::written::counted;
use crate::verify::world::World;

const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Tells what happens. Dropping it takes the bar away.
pub(crate) struct Narrator {
    epoch: Instant,
    bar: Option<ProgressBar>,
    /// What is going on, for the line of progress.
    now: Mutex<String>,
}

impl Narrator {
    pub(crate) fn new(epoch: Instant) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        let bar = stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style));
        Self { epoch, bar, now: Mutex::default() }
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        let line = format!("{:7.1}s  {line}", self.epoch.elapsed().as_secs_f64());
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// What is going on from now on.
    pub(crate) fn enter(&self, what: &str) {
        what.clone_into(&mut self.now.lock());
    }

    /// How far something is that takes long.
    pub(crate) fn count(&self, what: &str, done: u64, of: u64) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{what}: {done} of {of}")),
            None if done == of || done.is_multiple_of(200_000) => {
                self.say(&format!("{what}: {done} of {of}"));
            }
            None => {}
        }
    }

    /// Shows how far it is, for as long as the check lasts.
    pub(crate) async fn show(&self, world: &World) {
        let mut last = world.states.get();
        loop {
            let pause = if self.bar.is_some() { ON_TERMINAL } else { ELSEWHERE };
            sleep(pause).await;
            let states = world.states.get();
            let rate = (states - last) as f64 / pause.as_secs_f64();
            last = states;
            let line = format!(
                "{}: {}, {} told ({rate:.0}/s), widened by {:.0} ms",
                self.now.lock(),
                counted(world.living.load(Ordering::Relaxed), "session"),
                counted(states, "state"),
                world.lag.lock().around(world.now()) as f64 / 1000.0,
            );
            match &self.bar {
                Some(bar) => {
                    bar.set_message(line);
                    bar.tick();
                }
                None => self.say(&line),
            }
        }
    }
}

impl Drop for Narrator {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
