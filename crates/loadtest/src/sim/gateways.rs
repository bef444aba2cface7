//! The engines, as many gateways as are simulated, and what they counted. Uses nothing of an engine
//! but what a gateway uses.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use presence::store::BATCH_LEN_MAX;
use presence::store::redis::{self, Mode, RedisOptions, TlsFiles};
use presence::{Joining, Metrics, Presence, Request, Session};
use presence_protocol::{Availability, Format, UserState};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::sim::plan::{self, KEY_PREFIX, Plan};

/// How often to look whether the store was told.
const LOOK: Duration = Duration::from_millis(50);

/// The format in which the virtual clients speak: the cheaper one to read.
pub(crate) const FORMAT: Format = Format::MsgPack;

/// Gateways without sockets.
pub(crate) struct Gateways {
    gateways: Vec<Gateway>,
    /// Where they run.
    engines: Handle,
}

struct Gateway {
    engine: Presence,
    registry: Registry,
}

/// What all gateways counted since they started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) heartbeats: u64,
    /// Users told to the store, each time they are.
    pub(crate) claims: u64,
    pub(crate) claims_waiting: u64,
    /// Changes of users, heard from the store.
    pub(crate) transitions: u64,
    /// Users that the store had lost.
    pub(crate) rejoins: u64,
    pub(crate) silent_deaths: u64,
    pub(crate) store_errors: u64,
}

impl Gateways {
    pub(crate) async fn open(plan: &Plan, url: &str, engines: &Handle) -> Result<Self> {
        // New at each start, as two gateways of one name would be one.
        let run = fastrand::u32(..);
        let opening = (0..plan.gateways).map(|number| {
            let options = RedisOptions {
                url: url.to_owned(),
                tls: TlsFiles::default(),
                prefix: KEY_PREFIX.to_owned(),
                gateway: format!("{run:08x}-{number}"),
                config: plan.config.clone(),
            };
            let config = plan.config.clone();
            engines.spawn(async move {
                let (opened, report) = redis::open(options).await.context("opening the store")?;
                ensure!(
                    matches!(report.mode, Mode::Standalone),
                    "one server is measured here, and this is a part of a cluster"
                );
                let mut registry = Registry::default();
                let metrics = Metrics::register(&mut registry);
                let engine = Presence::start(config, opened, metrics);
                Ok(Gateway { engine, registry })
            })
        });
        let opened: Result<Vec<Gateway>> = try_join_all(opening).await?.into_iter().collect();
        Ok(Self { gateways: opened?, engines: engines.clone() })
    }

    /// Asks for a session what its client asks.
    pub(crate) fn request(&self, session: &Session, request: Request) {
        let _here = self.engines.enter();
        session.request(request);
    }

    /// Lets the n-th user in, on the next gateway each time it comes.
    pub(crate) fn join(&self, index: u32, times_before: u32) -> Session {
        let gateway =
            &self.gateways[(index as usize + times_before as usize) % self.gateways.len()];
        let user = plan::user(index);
        let joining = Joining { user, device: None, status: None, format: FORMAT, address: None };
        gateway.engine.join(joining).expect("the oldest session gives way")
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for gateway in &self.gateways {
            gateway.engine.measure();
            let mut text = String::new();
            encode(&mut text, &gateway.registry).expect("a string takes any text");
            sum.add(&text);
        }
        sum
    }

    /// Waits until the store knows of everybody.
    pub(crate) async fn wait_until_told(&self) {
        while self.counters().claims_waiting > 0 {
            sleep(LOOK).await;
        }
    }

    /// Waits until so many changes were heard, all gateways together; for a while, as a message that was
    /// lost is made good without being heard.
    pub(crate) async fn wait_until_heard(&self, transitions: u64, time_max: Duration) {
        let heard = async {
            while self.counters().transitions < transitions {
                sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(time_max, heard).await;
    }

    /// Asks one gateway after the other where everybody stands, and counts who is offline.
    pub(crate) async fn count_offline(&self, sessions: u32) -> Result<u64> {
        let mut offline = 0;
        for (first, gateway) in
            (0..sessions).step_by(BATCH_LEN_MAX).zip(self.gateways.iter().cycle())
        {
            let end = sessions.min(first + BATCH_LEN_MAX as u32);
            let states = gateway.engine.query((first..end).map(plan::user).collect()).await?;
            let is_offline = |state: &&UserState| state.state == Availability::Offline;
            offline += states.iter().filter(is_offline).count() as u64;
        }
        Ok(offline)
    }
}

impl Counters {
    /// Adds what a registry says, line by line: a name, perhaps labels, and a number.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let counter = match name.split_once('{').map_or(name, |(name, _)| name) {
                "heartbeats_total" => &mut self.heartbeats,
                "claims_total" => &mut self.claims,
                "claims_waiting" => &mut self.claims_waiting,
                "transitions_total" => &mut self.transitions,
                "rejoins_total" => &mut self.rejoins,
                "silent_deaths_total" => &mut self.silent_deaths,
                "store_errors_total" => &mut self.store_errors,
                _ => continue,
            };
            *counter += value.parse::<u64>().unwrap_or_default();
        }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            heartbeats: self.heartbeats - earlier.heartbeats,
            claims: self.claims - earlier.claims,
            claims_waiting: self.claims_waiting,
            transitions: self.transitions - earlier.transitions,
            rejoins: self.rejoins - earlier.rejoins,
            silent_deaths: self.silent_deaths - earlier.silent_deaths,
            store_errors: self.store_errors - earlier.store_errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_labels_and_gateways() {
        let mut counters = Counters::default();
        for _ in 0..2 {
            counters.add(
                "# TYPE transitions counter\n\
                 transitions_total{cause=\"joined\"} 3\n\
                 transitions_total{cause=\"bye\"} 4\n\
                 lateness_seconds_bucket{le=\"0.005\",cause=\"bye\"} 9\n\
                 claims_waiting 5\n\
                 heartbeats_total 6\n\
                 # EOF\n",
            );
        }
        let Counters { transitions, claims_waiting, heartbeats, rejoins, .. } = counters;
        assert_eq!((transitions, claims_waiting, heartbeats, rejoins), (14, 10, 12, 0));
    }
}
