//! Two who want nothing but peace, on a gateway that others are hostile to.

use std::time::Duration;

use presence_protocol::{Format, Show};
use presence_testkit::eventually;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Client, PATIENCE};
use crate::house::Times;
use crate::http::metric;
use crate::process::Process;

/// Long enough that a busy machine ends no session. A grace must pass where nobody is to be shown offline.
const TIMES: Times = Times {
    heartbeat: Duration::from_secs(20),
    ttl: Duration::from_mins(1),
    grace: Duration::from_secs(5),
};

/// A gateway in a process of its own, and two clients: one watches the other.
pub(crate) struct Peace {
    pub(crate) gateway: Process,
    watcher: Client,
    friend: Client,
    memory: u64,
}

impl Peace {
    pub(crate) async fn new(flags: &[&str]) -> Self {
        allow_many_files();
        let flags = [&["--message-rate=10000"], flags].concat();
        let gateway = Process::alone(TIMES, &flags).await;
        let mut watcher = Client::join(gateway.addr, Format::Json, "watcher").await;
        watcher.watch(["friend"]).await;
        let friend = Client::join(gateway.addr, Format::MsgPack, "friend").await;
        watcher.expect_online("friend").await;
        let memory = metric(gateway.addr, "presence_memory_bytes").await.expect("it is told");
        Self { gateway, watcher, friend, memory }
    }

    pub(crate) async fn attacker(&self, format: Format) -> Client {
        Client::join(self.gateway.addr, format, "attacker").await
    }

    /// The friend changes, and the watcher is told, within the patience that a busy machine takes: hostile peers who are
    /// not held back stop it altogether.
    pub(crate) async fn push(&mut self) {
        for show in [Show::Away, Show::Online] {
            self.friend.set_status(show, None);
            self.watcher.expect_online("friend").await;
        }
    }

    /// A count of the gateway's, or 0 of what was never counted.
    pub(crate) async fn count(&self, name: &str) -> u64 {
        metric(self.gateway.addr, name).await.unwrap_or_default()
    }

    pub(crate) async fn until(&self, name: &str, wanted: u64) {
        let is_so = async || (self.count(name).await == wanted).then_some(());
        eventually(&format!("{name} is {wanted}"), 2 * PATIENCE, is_so).await;
    }

    /// The gateway uses so much memory more than before, at most.
    pub(crate) async fn assert_grown_at_most(&self, bytes: u64) {
        let memory = self.count("presence_memory_bytes").await;
        assert!(memory < self.memory + bytes, "{memory} bytes, and {} before", self.memory);
    }

    /// Nothing happened to the two, and they are served as ever.
    pub(crate) async fn assert_undisturbed(mut self) {
        self.watcher.expect_nothing_for(Duration::from_millis(50)).await;
        self.friend.bye().await;
        self.watcher.expect_offline("friend").await;
    }
}

/// As many as this process may have; gateways that it starts inherit that.
pub(crate) fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("as it may");
}
