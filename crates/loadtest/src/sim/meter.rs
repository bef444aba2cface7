//! What Redis and this process used, read at a moment; the difference of two is what something took.

use anyhow::{Context, Result};
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use fred::types::{Builder, InfoKind};
use tokio::time::Instant;

use crate::observe::Info;
use crate::process::Usage;

/// Commands that either path sends; what scripts run is counted under its own names.
const SENT: [&str; 6] = ["evalsha", "eval", "set", "ping", "subscribe", "info"];

/// Reads what is used.
#[derive(Clone)]
pub(crate) struct Meter {
    redis: Client,
}

/// What was used up to a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) redis: RedisUsage,
    pub(crate) own: Usage,
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisUsage {
    /// Bytes that its data and its connections take.
    pub(crate) memory: u64,
    pub(crate) cpu_secs: f64,
    /// Commands that clients sent.
    pub(crate) sent: u64,
    /// Commands that were run, those of scripts included.
    pub(crate) run: u64,
}

impl Meter {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let redis = Builder::from_config(Config::from_url(url)?).build()?;
        redis.init().await.context("connecting to Redis, to measure it")?;
        Ok(Self { redis })
    }

    pub(crate) async fn read(&self) -> Result<Reading> {
        let info: String = self.redis.info(Some(InfoKind::All)).await.context("asking Redis")?;
        Ok(Reading {
            at: Instant::now(),
            redis: Info::from(info).into(),
            own: Usage::of_this_process()?,
        })
    }
}

impl From<Info> for RedisUsage {
    fn from(info: Info) -> Self {
        Self {
            memory: info.number("used_memory") as u64,
            cpu_secs: info.cpu_secs(),
            sent: SENT.iter().map(|command| info.calls(command)).sum(),
            run: info.number("total_commands_processed") as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_word_is_read_with_what_clients_sent_apart_from_what_scripts_ran() {
        let usage = RedisUsage::from(Info::from(
            "# Memory\r\nused_memory:1024\r\nused_memory_human:1.00K\r\n\
             # Stats\r\ntotal_commands_processed:42\r\n\
             # CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\nused_cpu_sys_children:9.0\r\n\
             # Commandstats\r\n\
             cmdstat_evalsha:calls=7,usec=70,usec_per_call=10.00\r\n\
             cmdstat_pexpire:calls=30,usec=30,usec_per_call=1.00\r\n\
             cmdstat_info:calls=5,usec=5,usec_per_call=1.00\r\n"
                .to_owned(),
        ));
        assert_eq!((usage.memory, usage.sent, usage.run), (1024, 12, 42));
        assert!((usage.cpu_secs - 3.75).abs() < 1e-9, "{usage:?}");
    }
}
