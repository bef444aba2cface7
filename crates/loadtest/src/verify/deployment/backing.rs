//! The Redis of the deployment, one server or a cluster, and what can be done to it. Everything here
//! blocks.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use presence_testkit::{RedisCluster, RedisServer};

use crate::verify::args::StoreArg;

/// How many keys a step of a scan looks at.
const SCAN_STEP: &str = "1000";

/// The servers of a cluster, replicas included.
const CLUSTER_SERVERS: usize = 6;

/// A slot whose server is asked for when the cluster is to be whole; any would do.
const ANY_SLOT: u16 = 0;

/// How long a cluster may take to be whole again, or to replace a primary.
const WHOLE_LIMIT: Duration = Duration::from_mins(1);

const LOOK: Duration = Duration::from_millis(50);

/// The servers behind the gateways.
pub(crate) enum Backing {
    One(RedisServer),
    Cluster {
        cluster: RedisCluster,
        /// The server that was killed or stopped, and does not go on yet.
        out: Option<usize>,
    },
}

impl Backing {
    pub(crate) fn start(store: StoreArg) -> Self {
        match store {
            StoreArg::Cluster => Self::Cluster { cluster: RedisCluster::start(), out: None },
            _ => Self::One(RedisServer::start()),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster { cluster, .. } => cluster.url(),
        }
    }

    /// How it is called in the summary.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::One(server) => format!("redis-server on port {}", server.port()),
            Self::Cluster { .. } => "a Redis Cluster of 3 primaries and 3 replicas".to_owned(),
        }
    }

    /// Kills the server, or a primary of the cluster.
    pub(crate) fn kill(&mut self) -> Result<()> {
        match self {
            Self::One(server) => server.kill(),
            Self::Cluster { cluster, out } => {
                let primary = wait_until_whole(cluster)?;
                cluster.kill(primary);
                *out = Some(primary);
            }
        }
        Ok(())
    }

    /// Starts what was killed, with nothing in it, and waits until all is whole.
    pub(crate) fn restart(&mut self) -> Result<()> {
        match self {
            Self::One(server) => server.restart(),
            Self::Cluster { cluster, out } => {
                if let Some(number) = out.take() {
                    cluster.restart(number);
                }
                wait_until_whole(cluster)?;
            }
        }
        Ok(())
    }

    /// Stops a primary of the cluster.
    pub(crate) fn hang(&mut self) -> Result<()> {
        let Self::Cluster { cluster, out } = self else { bail!("there is no cluster") };
        let primary = wait_until_whole(cluster)?;
        cluster.pause(primary);
        *out = Some(primary);
        Ok(())
    }

    /// Lets a primary go on that was stopped, when its replica has taken over.
    pub(crate) fn wake(&mut self) -> Result<()> {
        let Self::Cluster { cluster, out } = self else { bail!("there is no cluster") };
        let Some(hung) = out.take() else { return Ok(()) };
        let taken_over = wait_for_primary(cluster, |primary| primary != hung);
        cluster.resume(hung);
        taken_over.map(drop)
    }

    pub(crate) fn pause(&mut self) {
        match self {
            Self::One(server) => server.pause(),
            Self::Cluster { cluster, .. } => (0..CLUSTER_SERVERS).for_each(|n| cluster.pause(n)),
        }
    }

    pub(crate) fn resume(&mut self) {
        match self {
            Self::One(server) => server.resume(),
            Self::Cluster { cluster, .. } => (0..CLUSTER_SERVERS).for_each(|n| cluster.resume(n)),
        }
    }

    /// Cuts all connections of a type, `normal` or `pubsub`.
    pub(crate) fn kill_clients(&mut self, of_type: &str) {
        self.everywhere(&["CLIENT", "KILL", "TYPE", of_type]);
    }

    /// The processes of its servers.
    pub(crate) fn pids(&mut self) -> Vec<u32> {
        let answers = self.everywhere(&["INFO", "server"]);
        let lines = answers.iter().flat_map(|answer| answer.lines());
        let pids = lines.filter_map(|line| line.strip_prefix("process_id:"));
        pids.filter_map(|pid| pid.trim().parse().ok()).collect()
    }

    /// How many keys match a pattern, on the one server there is.
    pub(crate) fn count_keys(&mut self, pattern: &str) -> Result<usize> {
        let mut count = 0;
        let mut cursor = "0".to_owned();
        loop {
            let answer = self.one(&["SCAN", &cursor, "MATCH", pattern, "COUNT", SCAN_STEP])?;
            let mut lines = answer.lines();
            lines.next().unwrap_or("0").clone_into(&mut cursor);
            count += lines.filter(|line| !line.is_empty()).count();
            if cursor == "0" {
                return Ok(count);
            }
        }
    }

    /// Asks the one server there is.
    pub(crate) fn one(&self, words: &[&str]) -> Result<String> {
        match self {
            Self::One(server) => Ok(server.cli(words)),
            Self::Cluster { .. } => bail!("a cluster has no one server"),
        }
    }

    fn everywhere(&self, words: &[&str]) -> Vec<String> {
        match self {
            Self::One(server) => vec![server.cli(words)],
            Self::Cluster { cluster, .. } => cluster.cli_everywhere(words),
        }
    }
}

/// Waits until all servers that run agree which of them has [`ANY_SLOT`], and tells it.
fn wait_until_whole(cluster: &RedisCluster) -> Result<usize> {
    wait_for_primary(cluster, |_| true)
}

fn wait_for_primary(cluster: &RedisCluster, is_right: impl Fn(usize) -> bool) -> Result<usize> {
    let deadline = Instant::now() + WHOLE_LIMIT;
    loop {
        if let Some(primary) = cluster.primary_of(ANY_SLOT).filter(|&primary| is_right(primary)) {
            return Ok(primary);
        }
        ensure!(Instant::now() < deadline, "the cluster is not whole after {WHOLE_LIMIT:?}");
        sleep(LOOK);
    }
}
