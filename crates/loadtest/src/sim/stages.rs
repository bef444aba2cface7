//! A simulation from start to report, one stage after the other.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::select;
use tokio::signal::ctrl_c;
use tokio::time::{Instant, sleep};

use crate::sim::args::Path;
use crate::sim::crowd::Crowd;
use crate::sim::gateways::{Counters, Gateways};
use crate::sim::meter::{Meter, Reading};
use crate::sim::plan::Plan;
use crate::sim::progress;
use crate::sim::report::Report;
use crate::sim::set_ex::Keys;
use crate::sim::tally::Tally;

/// From when all have joined until it is measured: what joining left to do is done by then.
const SETTLE: Duration = Duration::from_secs(3);

/// How long the last changes may take to be heard.
const HEAR_TIME_MAX: Duration = Duration::from_secs(5);

/// What was found.
pub(crate) struct Findings {
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

/// Simulates, and shows how far it is.
pub(crate) async fn run(plan: &Plan, url: &str) -> Result<Report> {
    let meter = Meter::connect(url).await?;
    let tally = Tally::default();
    let findings = match plan.path {
        Path::Engine => {
            let empty = meter.read().await?;
            let gateways = Gateways::open(plan, url).await?;
            let told_to_store = || gateways.counters().claims;
            select! {
                biased;
                _ = ctrl_c() => bail!("stopped before it was done"),
                findings = with_engines(plan, &gateways, &meter, &tally, empty) => findings?,
                ended = progress::show(plan, &tally, &meter, told_to_store) => bail!(ended),
            }
        }
        Path::SetEx => select! {
            biased;
            _ = ctrl_c() => bail!("stopped before it was done"),
            findings = with_set_ex(plan, url, &meter, &tally) => findings?,
            ended = progress::show(plan, &tally, &meter, || tally.keys_set.get()) => bail!(ended),
        },
    };
    Ok(Report::of(plan, &tally, &findings))
}

async fn with_engines(
    plan: &Plan,
    gateways: &Gateways,
    meter: &Meter,
    tally: &Tally,
    empty: Reading,
) -> Result<Findings> {
    let mut crowd = Crowd::new(plan, gateways, tally);
    let start = Instant::now();
    crowd.join_all().await;
    let join_time = start.elapsed();
    let start = Instant::now();
    crowd.watch_all().await;
    let watch_time = start.elapsed();
    crowd.go_on_during(sleep(SETTLE)).await;

    let before = gateways.counters();
    tally.lateness.clear();
    let begin = crowd.go_on_during(meter.read()).await?;
    crowd.begin_churn();
    crowd.go_on_during(sleep(plan.time)).await;
    let end = crowd.go_on_during(meter.read()).await?;
    let heartbeats = gateways.counters().since(&before).heartbeats;

    crowd.end_churn().await;
    let moves = tally.moves.get() * u64::from(plan.gateways);
    let heard = gateways.wait_until_heard(before.transitions + moves, HEAR_TIME_MAX);
    crowd.go_on_during(heard).await;
    let read_offline = crowd.go_on_during(gateways.count_offline(plan.sessions)).await?;
    let counters = gateways.counters().since(&before);
    Ok(Findings { join_time, watch_time, empty, begin, end, heartbeats, counters, read_offline })
}

async fn with_set_ex(plan: &Plan, url: &str, meter: &Meter, tally: &Tally) -> Result<Findings> {
    let empty = meter.read().await?;
    let mut keys = Keys::connect(plan, url, tally).await?;
    let start = Instant::now();
    keys.join_all().await?;
    let join_time = start.elapsed();
    let measured = async {
        sleep(SETTLE).await;
        tally.lateness.clear();
        let (begin, before) = (meter.read().await?, tally.beats.get());
        sleep(plan.time).await;
        let (end, heartbeats) = (meter.read().await?, tally.beats.get() - before);
        Ok(Findings {
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
