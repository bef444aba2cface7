//! A simulation from start to report, one stage after the other.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::runtime::Handle;
use tokio::select;
use tokio::time::{Instant, sleep, timeout};

use crate::report::Ending;
use crate::sim::args::Path;
use crate::sim::crowd::Crowd;
use crate::sim::gateways::{Counters, Gateways};
use crate::sim::meter::{Meter, Reading};
use crate::sim::plan::Plan;
use crate::sim::progress;
use crate::sim::report::Report;
use crate::sim::set_ex::Keys;
use crate::sim::tally::Tally;
use crate::sim::turns::Turns;
use crate::stop::stop_requested;

/// From when all have joined until it is measured: what joining left to do is done by then.
const SETTLE: Duration = Duration::from_secs(3);

/// For how long the tool is measured by itself.
const ALONE: Duration = Duration::from_secs(3);

/// How long the last changes may take to be heard.
const HEAR_TIME_MAX: Duration = Duration::from_secs(5);

/// What was found.
pub(crate) struct Findings {
    pub(crate) ending: Ending,
    pub(crate) join_time: Duration,
    pub(crate) watch_time: Duration,
    /// Before anybody joined.
    pub(crate) empty: Reading,
    /// When measuring began, and when it ended.
    pub(crate) begin: Reading,
    pub(crate) end: Reading,
    /// Meanwhile.
    pub(crate) heartbeats: u64,
    /// From when measuring began until all had come to rest.
    pub(crate) counters: Counters,
    /// Users whom the gateways took for offline in the end, when all were online.
    pub(crate) read_offline: u64,
}

/// Simulates, and shows how far it is. Who stops it while it measures gets what there is by then.
pub(crate) async fn run(plan: &Plan, url: &str, engines: &Handle) -> Result<Report> {
    let meter = Meter::connect(url).await?;
    let tally = Tally::default();
    let mut stop = pin!(stop_requested());
    let tool_cpu = select! {
        biased;
        tool_cpu = unless_stopped(stop.as_mut(), alone(plan, &meter, &tally)) => tool_cpu?,
        ended = progress::show(plan, &tally, &meter, || 0) => bail!(ended),
    };
    let findings = match plan.path {
        Path::Engine => {
            let empty = meter.read().await?;
            let gateways = Gateways::open(plan, url, engines).await?;
            let told_to_store = || gateways.counters().claims;
            select! {
                biased;
                findings = with_engines(plan, &gateways, &meter, &tally, empty) => findings?,
                ended = progress::show(plan, &tally, &meter, told_to_store) => bail!(ended),
            }
        }
        Path::SetEx => select! {
            biased;
            findings = with_set_ex(plan, url, engines, &meter, &tally) => findings?,
            ended = progress::show(plan, &tally, &meter, || tally.keys_set.get()) => bail!(ended),
        },
    };
    Ok(Report::of(plan, &tally, tool_cpu, &findings))
}

/// What the tool takes when it plays nobody, as a share of a core.
async fn alone(plan: &Plan, meter: &Meter, tally: &Tally) -> Result<f64> {
    let mut turns = Turns::begin(plan, tally);
    let turn_for_nothing = async {
        loop {
            turns.next().await.due.for_each(drop);
        }
    };
    let begin = meter.read().await?;
    let _ = timeout(ALONE, turn_for_nothing).await;
    let end = meter.read().await?;
    Ok((end.own.cpu_secs - begin.own.cpu_secs) / end.at.duration_since(begin.at).as_secs_f64())
}

async fn with_engines(
    plan: &Plan,
    gateways: &Gateways,
    meter: &Meter,
    tally: &Tally,
    empty: Reading,
) -> Result<Findings> {
    let mut stop = pin!(stop_requested());
    let mut crowd = Crowd::new(plan, gateways, tally);
    let come = async {
        let start = Instant::now();
        crowd.join_all().await;
        let join_time = start.elapsed();
        let start = Instant::now();
        crowd.watch_all().await;
        let watch_time = start.elapsed();
        crowd.go_on_during(sleep(SETTLE)).await;
        Ok((join_time, watch_time))
    };
    let (join_time, watch_time) = unless_stopped(stop.as_mut(), come).await?;

    let before = gateways.counters();
    tally.lateness.clear();
    let begin = crowd.go_on_during(meter.read()).await?;
    crowd.begin_churn();
    let ending = crowd.go_on_during(measured_time(plan, stop.as_mut())).await?;
    let end = crowd.go_on_during(meter.read()).await?;
    let heartbeats = gateways.counters().since(&before).heartbeats;

    let come_to_rest = async {
        crowd.end_churn().await;
        let moves = tally.moves.get() * u64::from(plan.gateways);
        let heard = gateways.wait_until_heard(before.transitions + moves, HEAR_TIME_MAX);
        crowd.go_on_during(heard).await;
        crowd.go_on_during(gateways.count_offline(plan.sessions)).await
    };
    let read_offline = unless_stopped(pin!(stop_requested()), come_to_rest).await?;
    let counters = gateways.counters().since(&before);
    Ok(Findings {
        ending,
        join_time,
        watch_time,
        empty,
        begin,
        end,
        heartbeats,
        counters,
        read_offline,
    })
}

/// There is nothing to report when it is stopped meanwhile.
async fn unless_stopped<T>(
    stop: Pin<&mut impl Future<Output = io::Result<()>>>,
    act: impl Future<Output = Result<T>>,
) -> Result<T> {
    select! {
        biased;
        stopped = stop => stopped.map_err(Into::into).and_then(|()| bail!("stopped before it was done")),
        done = act => done,
    }
}

/// Lets pass what is measured.
async fn measured_time(
    plan: &Plan,
    stop: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> Result<Ending> {
    select! {
        biased;
        stopped = stop => Ok(stopped.map(|()| Ending::Interrupted)?),
        () = sleep(plan.time) => Ok(Ending::Complete),
    }
}

async fn with_set_ex(
    plan: &Plan,
    url: &str,
    engines: &Handle,
    meter: &Meter,
    tally: &Tally,
) -> Result<Findings> {
    let mut stop = pin!(stop_requested());
    let empty = meter.read().await?;
    let mut keys = Keys::connect(plan, url, engines, tally).await?;
    let start = Instant::now();
    unless_stopped(stop.as_mut(), keys.join_all()).await?;
    let join_time = start.elapsed();
    let measured = async {
        let settled = async {
            sleep(SETTLE).await;
            Ok(())
        };
        unless_stopped(stop.as_mut(), settled).await?;
        tally.lateness.clear();
        let (begin, before) = (meter.read().await?, tally.beats.get());
        let ending = measured_time(plan, stop.as_mut()).await?;
        let (end, heartbeats) = (meter.read().await?, tally.beats.get() - before);
        Ok(Findings {
            ending,
            join_time,
            watch_time: Duration::ZERO,
            empty,
            begin,
            end,
            heartbeats,
            counters: Counters::default(),
            read_offline: 0,
        })
    };
    select! {
        findings = measured => findings,
        failed = keys.beat() => failed.and_then(|()| bail!("hearts beat until the end")),
    }
}
