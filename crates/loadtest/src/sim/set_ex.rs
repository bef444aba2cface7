//! What the engine is compared with: every heartbeat is one `SET key EX ttl`, those of a turn in one
//! pipeline, as many connections as there would be gateways, on the engines' threads.

use anyhow::Result;
use fred::clients::Pool;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::Config;
use fred::types::{Builder, Expiration};
use tokio::runtime::Handle;

use crate::sim::plan::{self, KEY_PREFIX, Plan};
use crate::sim::tally::Tally;
use crate::sim::turns::Turns;

/// Keys set in one pipeline while all join.
const JOINS_PER_CALL: usize = 1_000;

/// The users' keys.
pub(crate) struct Keys<'a> {
    tally: &'a Tally,
    pool: Pool,
    names: Vec<String>,
    ttl: Expiration,
    turns: Turns<'a>,
}

impl<'a> Keys<'a> {
    /// Connects; no key is set yet.
    pub(crate) async fn connect(
        plan: &Plan,
        url: &str,
        engines: &Handle,
        tally: &'a Tally,
    ) -> Result<Self> {
        let pool =
            Builder::from_config(Config::from_url(url)?).build_pool(plan.gateways as usize)?;
        let connecting = pool.clone();
        engines.spawn(async move { connecting.init().await }).await??;
        let name = |index| format!("{KEY_PREFIX}:user:{}", plan::user(index).as_str());
        Ok(Self {
            tally,
            pool,
            names: (0..plan.sessions).map(name).collect(),
            ttl: Expiration::PX(plan.config.ttl.as_millis() as i64),
            turns: Turns::begin(plan, tally),
        })
    }

    /// Sets every key once.
    pub(crate) async fn join_all(&self) -> Result<()> {
        for names in self.names.chunks(JOINS_PER_CALL) {
            self.set(names.iter()).await?;
            self.tally.keys_set.add(names.len() as u64);
        }
        Ok(())
    }

    /// Beats for ever, or until a call fails.
    pub(crate) async fn beat(&mut self) -> Result<()> {
        loop {
            let due: Vec<u32> = self.turns.next().await.due.collect();
            self.set(due.iter().map(|index| &self.names[*index as usize])).await?;
            self.tally.beats.add(due.len() as u64);
        }
    }

    async fn set(&self, names: impl ExactSizeIterator<Item = &String>) -> Result<()> {
        if names.len() == 0 {
            return Ok(());
        }
        let pipeline = self.pool.next().pipeline();
        for name in names {
            let ttl = Some(self.ttl.clone());
            pipeline.set::<(), _, _>(name.as_str(), "g", ttl, None, false).await?;
        }
        Ok(pipeline.last::<()>().await?)
    }
}
