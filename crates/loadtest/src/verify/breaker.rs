//! Breaks what a round plans to break, heals it, and writes down when.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;

use crate::verify::deployment::Deployment;
use crate::verify::deployment::backing::Backing;
use crate::verify::history::PlannedFault;
use crate::verify::narrator::Narrator;
use crate::verify::record::{Fault, FaultKind, Moment, Us};
use crate::verify::world::World;

/// What is needed to break things.
#[derive(Clone)]
pub(crate) struct Breaker {
    pub(crate) world: Arc<World>,
    pub(crate) deployment: Arc<Deployment>,
    pub(crate) narrator: Arc<Narrator>,
}

impl Breaker {
    /// Breaks and heals everything in time; ends when all is whole.
    pub(crate) async fn run(&self, start: Us, faults: &[PlannedFault]) -> Result<()> {
        let mut tasks = JoinSet::new();
        for &fault in faults {
            let breaker = self.clone();
            tasks.spawn(async move { breaker.break_and_heal(start, fault).await });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn break_and_heal(&self, start: Us, planned: PlannedFault) -> Result<()> {
        self.world.wait_until(start + planned.at).await;
        self.narrator.say(&format!("break   {}", describe(&planned)));
        let after = self.world.now();
        // Written down before it is done, so that no end of a session comes before its cause.
        let number = {
            let mut faults = self.world.faults.lock();
            let from = Moment { after, by: after };
            let (kind, place) = (planned.kind, planned.place);
            faults.push(Fault { kind, place, from, healed: None });
            faults.len() - 1
        };
        self.begin(planned).await?;
        self.world.faults.lock()[number].from.by = self.world.now();
        if planned.kind != FaultKind::GatewayRestart {
            self.world.wait_until(start + planned.end()).await;
        }
        self.end(planned).await?;
        let healed = self.world.now();
        self.world.faults.lock()[number].healed = Some(healed);
        if planned.lasts > 0 {
            let took = Duration::from_micros(healed - after);
            self.narrator.say(&format!("healed  {} after {took:.1?}", describe(&planned)));
        }
        Ok(())
    }

    async fn begin(&self, PlannedFault { kind, place, .. }: PlannedFault) -> Result<()> {
        let deployment = &self.deployment;
        let gateway = || deployment.gateway(place.unwrap_or(0)).lock();
        match kind {
            FaultKind::GatewayKill => gateway().await.kill(),
            FaultKind::GatewayPause => gateway().await.pause(),
            FaultKind::GatewayRestart => Ok(()),
            FaultKind::RedisKill | FaultKind::ClusterFailover => {
                deployment.with_backing(Backing::kill).await?
            }
            FaultKind::RedisPause => deployment.with_backing(Backing::pause).await,
            FaultKind::ClusterHang => deployment.with_backing(Backing::hang).await?,
            FaultKind::SubscriberKill => self.cut_clients("pubsub").await,
            FaultKind::ConnectionKill => self.cut_clients("normal").await,
        }
    }

    async fn end(&self, PlannedFault { kind, place, .. }: PlannedFault) -> Result<()> {
        let deployment = &self.deployment;
        let gateway = || deployment.gateway(place.unwrap_or(0)).lock();
        match kind {
            FaultKind::GatewayKill => gateway().await.start().await,
            FaultKind::GatewayPause => gateway().await.resume(),
            FaultKind::GatewayRestart => {
                let mut gateway = gateway().await;
                gateway.terminate().await?;
                gateway.start().await
            }
            FaultKind::RedisKill | FaultKind::ClusterFailover => {
                deployment.with_backing(Backing::restart).await??;
                deployment.note_store().await;
                Ok(())
            }
            FaultKind::RedisPause => deployment.with_backing(Backing::resume).await,
            FaultKind::ClusterHang => deployment.with_backing(Backing::wake).await?,
            FaultKind::SubscriberKill | FaultKind::ConnectionKill => Ok(()),
        }
    }

    async fn cut_clients(&self, of_type: &'static str) -> Result<()> {
        self.deployment.with_backing(move |redis| redis.kill_clients(of_type)).await?;
        Ok(())
    }
}

fn describe(fault: &PlannedFault) -> String {
    let place = fault.place.map_or(0, |place| place + 1);
    match fault.kind {
        FaultKind::GatewayKill => format!("gateway {place}: SIGKILL"),
        FaultKind::GatewayPause => format!("gateway {place}: SIGSTOP"),
        FaultKind::GatewayRestart => format!("gateway {place}: SIGTERM, then started again"),
        FaultKind::RedisKill => "Redis: SIGKILL, then started empty".to_owned(),
        FaultKind::RedisPause => "Redis: SIGSTOP".to_owned(),
        FaultKind::SubscriberKill => "Redis: CLIENT KILL TYPE pubsub".to_owned(),
        FaultKind::ConnectionKill => "Redis: CLIENT KILL TYPE normal".to_owned(),
        FaultKind::ClusterFailover => "cluster: SIGKILL of a primary".to_owned(),
        FaultKind::ClusterHang => "cluster: SIGSTOP of a primary".to_owned(),
    }
}
