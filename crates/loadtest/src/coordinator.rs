//! The coordinator of a run: hands out shares to workers, puts together what they tell, and stops
//! them when the scenario is over, when nobody is left, or when it is told to.
//!
//! It opens no connection to a gateway itself, but to see whether there is one.

mod crew;
mod hellos;
mod merge;
mod progress;
mod shares;

use std::process::exit;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tokio::net::TcpStream;
use tokio::select;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::coordinator::crew::{Crew, Event};
use crate::coordinator::merge::{About, Merge};
use crate::coordinator::progress::Progress;
use crate::observe::{Observer, Sights};
use crate::plan::Plan;
use crate::report::{Ending, PhaseSpan, Report};
use crate::stop::stop_requested;
use crate::tls::{self, Tls};
use crate::wire::News;

/// Enough for every worker to hear of it before.
const UNTIL_BEGIN: Duration = Duration::from_millis(300);

/// How long views are left alone after the last disturbance, besides TTL and grace: longer than a
/// change may take to be judged as lost.
const SETTLE: Duration = Duration::from_secs(3);

/// How long workers may take to compare their views, from when one of them last told anything.
const DONE_LIMIT: Duration = Duration::from_mins(1);

/// The exit code of a program that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Does the run.
pub(crate) fn run(plan: &Plan, on_begin: impl FnOnce(std::time::Instant)) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(coordinate(plan, on_begin))
}

/// Fails when nobody listens where workers of this host are sent, or is not trusted: all connections would be begun, and fail, before that
/// was told.
async fn knock(plan: &Plan) -> Result<()> {
    if plan.workers == 0 {
        return Ok(());
    }
    for (url, address) in plan.urls.iter().zip(&plan.addresses) {
        let reached = timeout(plan.connect_timeout, TcpStream::connect(address)).await;
        let stream = reached.unwrap_or_else(|late| Err(late.into())).with_context(|| {
            format!(
                "--url {url}: nobody answers at {address}; start the gateway, or say where it is"
            )
        })?;
        if let Some(name) = tls::server_name(&url.parse()?)? {
            let tls = Tls::new(plan.authorities.as_deref())?;
            let greeted = timeout(plan.connect_timeout, tls.greet(name, stream)).await;
            greeted.unwrap_or_else(|late| Err(late.into())).with_context(|| {
                format!(
                    "--url {url}: no TLS (write ws:// if it speaks none, and name the authority of \
                     its certificate with --tls-ca-file if this machine does not trust it)"
                )
            })?;
        }
    }
    Ok(())
}

async fn coordinate(plan: &Plan, on_begin: impl FnOnce(std::time::Instant)) -> Result<Report> {
    let mut interrupted = std::pin::pin!(stop_requested());
    let gathered = async {
        knock(plan).await?;
        Crew::gather(plan).await
    };
    let mut crew = select! {
        crew = gathered => crew?,
        _ = &mut interrupted => exit(INTERRUPTED.into()),
    };
    // Servers may take seconds to answer: the run begins after that.
    let sights = Sights::first(&plan.targets, plan.authorities.as_deref())?;
    let epoch_unix = SystemTime::now().duration_since(UNIX_EPOCH)? + UNTIL_BEGIN;
    let began = Instant::now() + UNTIL_BEGIN;
    let observer = sights.observe(began.into_std())?;
    on_begin(began.into_std());
    crew.begin(began, epoch_unix).await;
    let mut run = Run {
        plan,
        began,
        observer: &observer,
        merge: Merge::new(crew.usages_before()),
        progress: Progress::new(plan.scenario.connections()),
        settle_from: None,
    };
    let ending = select! {
        ending = run.watch(&mut crew) => ending,
        stopped = &mut interrupted => stopped.map(|()| Ending::Interrupted)?,
    };
    let seconds = run.began.elapsed();
    // Of two signals the second ends the program; one that is the first ends only the waiting.
    let impatient = async {
        if ending == Ending::Interrupted {
            let _ = stop_requested().await;
            exit(INTERRUPTED.into())
        }
        let _ = interrupted.await;
    };
    let ending = select! {
        lost = run.stop(&mut crew) => lost.unwrap_or(ending),
        () = impatient => if ending == Ending::Complete { Ending::Interrupted } else { ending },
    };
    run.progress.finish();
    let mut report = run.report(ending, seconds, epoch_unix, crew.len());
    report.servers = observer.finish(&report.timeline);
    Ok(report)
}

struct Run<'a> {
    plan: &'a Plan,
    observer: &'a Observer,
    began: Instant,
    merge: Merge,
    progress: Progress,
    /// When the phases were over, if there was something to settle.
    settle_from: Option<Instant>,
}

impl Run<'_> {
    /// Takes in what the workers tell until the run is over.
    async fn watch(&mut self, crew: &mut Crew) -> Ending {
        let length = Duration::from_micros(self.plan.scenario.timeline().end_us());
        let mut end = self.began + length;
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            select! {
                event = crew.next() => {
                    if let Some(ending) = self.take(event) {
                        return ending;
                    }
                }
                _ = ticks.tick() => {
                    let quiet = crew.lose_quiet();
                    for worker in &quiet {
                        self.lose(*worker, "tells nothing any more");
                    }
                    if !quiet.is_empty() {
                        return Ending::WorkerLost;
                    }
                    self.progress.show(&self.merge);
                    self.observer.notices().iter().for_each(|notice| self.progress.say(notice));
                }
                () = sleep_until(end) => {
                    if self.settle_from.is_some() || !self.merge.is_disturbed() {
                        return Ending::Complete;
                    }
                    self.settle_from = Some(end);
                    end += self.merge.ttl_and_grace() + SETTLE;
                }
            }
        }
    }

    fn take(&mut self, event: Event) -> Option<Ending> {
        match event {
            Event::News(worker, News::Second(second)) => {
                self.merge.take(worker, &second);
                self.merge.is_nobody_left().then_some(Ending::NobodyLeft)
            }
            Event::News(worker, News::Failed { why }) => {
                self.lose(worker, &format!("fails: {why}"));
                Some(Ending::WorkerLost)
            }
            Event::Lost(worker) => {
                self.lose(worker, "is gone");
                Some(Ending::WorkerLost)
            }
            Event::News(..) => None,
        }
    }

    fn lose(&mut self, worker: usize, why: &str) {
        self.progress.say(&format!("worker {} {why}", worker + 1));
        self.merge.lose(worker);
    }

    /// Lets the workers compare, and hears the rest. Answers whether one was lost meanwhile.
    async fn stop(&mut self, crew: &mut Crew) -> Option<Ending> {
        crew.stop().await;
        let mut lost = None;
        while !crew.is_done() {
            if let Ok(event) = timeout(DONE_LIMIT, crew.next()).await {
                let ending = self.take(event).filter(|ending| *ending == Ending::WorkerLost);
                lost = lost.or(ending);
                continue;
            }
            for worker in crew.lose_working() {
                self.lose(worker, "does not compare its views");
            }
            lost = Some(Ending::WorkerLost);
        }
        lost
    }

    fn report(
        self,
        ending: Ending,
        seconds: Duration,
        epoch_unix: Duration,
        workers: usize,
    ) -> Report {
        let scenario = &self.plan.scenario;
        let total_s = seconds.as_secs_f64();
        let in_s = |us: u64| (us as f64 / 1e6).min(total_s);
        let phase = |span: crate::scenario::Span| PhaseSpan {
            name: span.phase.name().to_owned(),
            from_s: in_s(span.from_us),
            to_s: in_s(span.to_us),
        };
        let mut phases: Vec<PhaseSpan> = scenario.timeline().spans.into_iter().map(phase).collect();
        if let Some(from) = self.settle_from {
            let from_s = (from - self.began).as_secs_f64().min(total_s);
            phases.push(PhaseSpan { name: "settle".to_owned(), from_s, to_s: total_s });
        }
        self.merge.into_report(About {
            name: scenario.name.clone(),
            scenario: scenario.to_toml(),
            started_at_ms: epoch_unix.as_millis() as u64,
            seconds: total_s,
            ending,
            urls: self.plan.urls.clone(),
            workers: workers as u32,
            phases,
            planned: scenario.connections(),
        })
    }
}
