//! A run from start to report: starts the connections on schedule, holds them, and stops.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::select;
use tokio::signal::ctrl_c;
use tokio::time::{Instant, sleep, sleep_until};

use crate::beat::{self, Beats};
use crate::connection;
use crate::plan::Plan;
use crate::process::Usage;
use crate::progress;
use crate::report::{Ending, Footprint, Report};
use crate::tally::Tally;

/// How often to look whether there is still anything to hold.
const LOOK: Duration = Duration::from_millis(250);

/// A user who has not said `hello`, or has left.
pub(crate) const NOT_SIGNED_IN: u64 = 0;

/// What the connections of a run share.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) tally: Tally,
    pub(crate) beats: Beats,
    /// When each user's `hello` was sent, in µs since the start, or [`NOT_SIGNED_IN`].
    pub(crate) hello_sent_us: Box<[AtomicU64]>,
    pub(crate) epoch: Instant,
}

impl Run {
    fn new(plan: Plan) -> Self {
        let connections = plan.schedule.connections;
        Self {
            tally: Tally::default(),
            beats: Beats::new(connections),
            hello_sent_us: (0..connections).map(|_| AtomicU64::new(NOT_SIGNED_IN)).collect(),
            epoch: Instant::now(),
            plan,
        }
    }

    /// Since the start of the run.
    pub(crate) fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }
}

/// Does the run. Its sockets are still open when this returns.
pub(crate) async fn run(plan: Plan) -> Result<Report> {
    let own_before = Usage::of_this_process()?;
    let server_before = server_usage(&plan).context("--pid")?;
    let run = Arc::new(Run::new(plan));
    let ending = select! {
        biased;
        stopped = ctrl_c() => stopped.map(|()| Ending::Interrupted)?,
        ending = start_and_hold(&run) => ending,
        () = progress::show(&run) => unreachable!("it is shown until the run ends"),
        () = beat::run(&run.beats, run.plan.schedule, run.plan.heartbeat, run.epoch) => {
            unreachable!("hearts beat until the run ends")
        }
    };
    let own = Footprint::between(own_before, Usage::of_this_process()?, &run.tally);
    // A server that died during the run has no usage, and the report still is worth having.
    let server_after = server_usage(&run.plan).ok().flatten();
    let server = server_before
        .zip(server_after)
        .map(|(before, after)| Footprint::between(before, after, &run.tally));
    Ok(Report::of(&run, ending, own, server))
}

fn server_usage(plan: &Plan) -> Result<Option<Usage>> {
    plan.server_pid.map(Usage::of).transpose()
}

async fn start_and_hold(run: &Arc<Run>) -> Ending {
    start_all(run).await;
    let end = Instant::now() + run.plan.hold;
    while Instant::now() < end {
        if run.tally.open() == 0 && run.tally.connecting() == 0 {
            return Ending::NobodyLeft;
        }
        sleep(LOOK.min(end.duration_since(Instant::now()))).await;
    }
    Ending::Complete
}

/// Starts each connection when it is due, whatever became of those before it.
async fn start_all(run: &Arc<Run>) {
    for index in 0..run.plan.schedule.connections {
        let due = run.epoch + run.plan.schedule.start(index);
        if due > Instant::now() {
            sleep_until(due).await;
        }
        run.tally.lateness.record(due.elapsed());
        run.tally.started.add(1);
        tokio::spawn(connection::start(run.clone(), index));
    }
}
