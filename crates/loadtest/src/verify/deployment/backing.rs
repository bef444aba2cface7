//! The Redis of the deployment, and what can be done to it. Everything here blocks.

use anyhow::{Result, bail};
use presence_testkit::RedisServer;

use crate::verify::args::StoreArg;

/// How many keys a step of a scan looks at.
const SCAN_STEP: &str = "1000";

/// The servers behind the gateways.
pub(crate) enum Backing {
    One(RedisServer),
}

impl Backing {
    pub(crate) fn start(store: StoreArg) -> Result<Self> {
        match store {
            StoreArg::Redis => Ok(Self::One(RedisServer::start())),
            _ => bail!("a cluster cannot be started yet"),
        }
    }

    pub(crate) fn url(&self) -> String {
        let Self::One(server) = self;
        server.url()
    }

    /// How it is called in the summary.
    pub(crate) fn describe(&self) -> String {
        let Self::One(server) = self;
        format!("redis-server on port {}", server.port())
    }

    pub(crate) fn kill(&mut self) {
        let Self::One(server) = self;
        server.kill();
    }

    /// With nothing in it.
    pub(crate) fn restart(&mut self) {
        let Self::One(server) = self;
        server.restart();
    }

    pub(crate) fn pause(&self) {
        let Self::One(server) = self;
        server.pause();
    }

    pub(crate) fn resume(&self) {
        let Self::One(server) = self;
        server.resume();
    }

    /// Cuts all connections of a type, `normal` or `pubsub`; returns how many.
    pub(crate) fn kill_clients(&self, of_type: &str) -> String {
        self.cli(&["CLIENT", "KILL", "TYPE", of_type])
    }

    pub(crate) fn cli(&self, words: &[&str]) -> String {
        let Self::One(server) = self;
        server.cli(words)
    }

    /// The processes of its servers.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let answer = self.cli(&["INFO", "server"]);
        let pids = answer.lines().filter_map(|line| line.strip_prefix("process_id:"));
        pids.filter_map(|pid| pid.trim().parse().ok()).collect()
    }

    /// How many keys match a pattern.
    pub(crate) fn count_keys(&self, pattern: &str) -> usize {
        let mut count = 0;
        let mut cursor = "0".to_owned();
        loop {
            let answer = self.cli(&["SCAN", &cursor, "MATCH", pattern, "COUNT", SCAN_STEP]);
            let mut lines = answer.lines();
            lines.next().unwrap_or("0").clone_into(&mut cursor);
            count += lines.filter(|line| !line.is_empty()).count();
            if cursor == "0" {
                return count;
            }
        }
    }
}
