//! A real Redis with a replica, and a sentinel that makes the replica take over.

use std::fs;
use std::time::Duration;

use crate::keeper::{Running, Scratch};
use crate::redis::{RedisServer, Role, SAVE_NOTHING, free_port, wait_until};
use crate::resp;
use crate::wait::eventually;

/// What the sentinel calls the servers.
const SERVICE: &str = "presence-test";

/// So long the primary may be silent before it is replaced.
const DOWN_AFTER_MS: u32 = 1000;

/// How long a change may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two servers and one sentinel. Ends with the test process.
pub struct RedisSentinel {
    servers: [RedisServer; 2],
    port: u16,
    _sentinel: Running,
    _scratch: Scratch,
}

impl RedisSentinel {
    /// Starts all three, and waits until the sentinel knows the replica.
    pub fn start() -> Self {
        let delay = ["--repl-diskless-sync-delay", "0"];
        let launch = |more: &[&str]| {
            RedisServer::launch(Role::Lone, &[&SAVE_NOTHING[..], &delay, more].concat())
        };
        let primary = launch(&[]);
        let replica = launch(&["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
        // Only then is what is written passed on; the replica's link is up some time before.
        primary.wait_until("the replica follows", &["INFO", "replication"], "state=online");
        let (port, scratch) = (free_port(), Scratch::new());
        let file = scratch.file("sentinel.conf");
        let config = format!(
            "port {port}\nbind 127.0.0.1\n\
             sentinel monitor {SERVICE} 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {SERVICE} 5000\n",
            primary.port()
        );
        fs::write(&file, config).expect("a file of this test");
        let sentinel = Running::start(&[file, "--sentinel".to_owned()]);
        let replicas = ["SENTINEL", "REPLICAS", SERVICE];
        wait_until(port, "it could promote the replica", &replicas, "master-link-status\nok");
        Self { servers: [primary, replica], port, _sentinel: sentinel, _scratch: scratch }
    }

    /// The URL that a store takes.
    pub fn url(&self) -> String {
        format!("redis-sentinel://127.0.0.1:{}?sentinelServiceName={SERVICE}", self.port)
    }

    /// The URL for a user of the servers, and the same user of the sentinel.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let url = self.url().replacen("://", &format!("://{user}:{password}@"), 1);
        format!("{url}&sentinelUsername={user}&sentinelPassword={password}")
    }

    /// A server, 0 or 1, for its `cli`. Kill it through this.
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// Runs a command at the sentinel.
    pub fn sentinel_cli(&self, words: &[&str]) -> String {
        let answer = resp::command(self.port, words);
        answer.unwrap_or_else(|error| panic!("sentinel on port {}: {words:?}: {error}", self.port))
    }

    /// Which server the sentinel names as the primary, if that one says so as well.
    pub fn primary(&self) -> Option<usize> {
        let address = self.sentinel_cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let port = address.lines().last()?.parse::<u16>().ok()?;
        let number = self.servers.iter().position(|server| server.port() == port)?;
        let server = &self.servers[number];
        let agrees = server.is_running() && server.cli(&["ROLE"]).starts_with("master");
        agrees.then_some(number)
    }

    /// Kills a server as a crash would (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        self.servers[number].kill();
    }

    /// Makes the replica take over while its primary lives, which becomes a replica some seconds later.
    pub fn promote_replica(&self) {
        let answer = self.sentinel_cli(&["SENTINEL", "FAILOVER", SERVICE]);
        assert_eq!(answer, "OK");
    }

    /// Waits until another server than `old` is the primary.
    pub async fn failover(&self, old: usize) -> usize {
        let promoted = async || self.primary().filter(|&new| new != old);
        eventually("the replica was promoted", PATIENCE, promoted).await
    }
}
