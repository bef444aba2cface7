//! What is shown while a simulation goes on: a bar on a terminal, a line each second elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use anyhow::Error;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::sim::meter::{Meter, Reading};
use crate::sim::plan::Plan;
use crate::sim::tally::Tally;

const EVERY: Duration = Duration::from_secs(1);

/// Shows it until it is dropped, or Redis cannot be asked: the answer is why.
pub(crate) async fn show(
    plan: &Plan,
    tally: &Tally,
    meter: &Meter,
    told_to_store: impl Fn() -> u64,
) -> Error {
    let bar = stderr().is_terminal().then(|| bar(plan));
    let start = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut last = None;
    loop {
        ticks.tick().await;
        let now = match meter.read().await {
            Ok(reading) => Moment { reading, beats: tally.beats.get() },
            Err(error) => return error,
        };
        let joined = told_to_store().min(plan.sessions.into());
        if let Some(last) = last.replace(now) {
            let line = line(plan, tally, joined, &now, &last);
            match &bar {
                Some(bar) => {
                    bar.set_position(joined);
                    bar.set_message(line);
                }
                None => eprintln!("{:4}s  {line}", start.elapsed().as_secs()),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Moment {
    reading: Reading,
    beats: u64,
}

fn bar(plan: &Plan) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed:>4} {bar:24} {msg}")
        .expect("the template is constant and valid");
    ProgressBar::new(plan.sessions.into()).with_style(style)
}

fn line(plan: &Plan, tally: &Tally, joined: u64, now: &Moment, last: &Moment) -> String {
    let secs = now.reading.at.duration_since(last.reading.at).as_secs_f64();
    let percent = |now: f64, last: f64| 100.0 * (now - last) / secs;
    let (now_redis, last_redis) = (now.reading.redis, last.reading.redis);
    format!(
        "joined {joined}/{}  heartbeats {:.0}/s of {:.0}/s  Redis {:.0}% CPU  \
         this process {:.0}% CPU  late p99 {:.1} ms  told {}",
        plan.sessions,
        (now.beats - last.beats) as f64 / secs,
        plan.beats_per_sec(),
        percent(now_redis.cpu_secs, last_redis.cpu_secs),
        percent(now.reading.own.cpu_secs, last.reading.own.cpu_secs),
        tally.lateness.p99_ms(),
        tally.told.get(),
    )
}
