//! Gateways under test, in this process: each in a runtime of its own, so that a test's work and a gateway's work do not
//! delay each other more than two processes would, and that dropping one ends all its tasks.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use presence_gateway::Gateway;
use presence_gateway::settings::Settings;
use presence_testkit::RedisServer;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Opens the calls under `/v1` of every gateway here.
pub(crate) const API_KEY: &str = "the key of these tests";

/// How much later than the TTL and the grace an offline may be shown at the latest.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(1);

/// How soon every view must be the truth again after a fault, or once all is quiet.
pub(crate) const HEAL_MAX: Duration = Duration::from_secs(5);

/// How many requests of a session a gateway lets wait for an earlier one.
pub(crate) const WAITING_MAX: usize = 16;

/// Shared by all tests that do not hurt others; each has its own prefix.
static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);

/// Where presence is kept, and by how many gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    OneEmbedded,
    TwoOnRedis,
}

/// The times that clients live by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) heartbeat: Duration,
    pub(crate) ttl: Duration,
    pub(crate) grace: Duration,
}

/// As short as is reliable on a busy machine.
pub(crate) const QUICK: Times = Times {
    heartbeat: Duration::from_millis(200),
    ttl: Duration::from_secs(1),
    grace: Duration::from_millis(300),
};

/// As short, but no session ends whose process had no turn for a while.
pub(crate) const QUICK_AND_LENIENT: Times = Times { ttl: Duration::from_secs(10), ..QUICK };

/// Nothing lapses and no grace ends during a test.
pub(crate) const SLOW: Times = Times {
    heartbeat: Duration::from_secs(20),
    ttl: Duration::from_mins(1),
    grace: Duration::from_mins(1),
};

impl Times {
    pub(crate) fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    pub(crate) fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    pub(crate) fn flags(self) -> Vec<String> {
        let Self { heartbeat, ttl, grace } = self;
        [("heartbeat", heartbeat), ("ttl", ttl), ("grace", grace)]
            .map(|(name, time)| format!("--{name}={}ms", time.as_millis()))
            .to_vec()
    }
}

/// Everyone is who they say they are.
pub(crate) const OPEN: &str = "--auth=none";

/// One gateway or two, on one store.
pub(crate) struct House {
    pub(crate) times: Times,
    flags: Vec<String>,
    here: Running,
    there: Option<Running>,
}

impl House {
    /// Without authentication.
    pub(crate) async fn new(kind: Kind, times: Times) -> Self {
        Self::with(kind, times, &[OPEN]).await
    }

    /// With more flags; one of them says how clients prove who they are.
    pub(crate) async fn with(kind: Kind, times: Times, flags: &[&str]) -> Self {
        match kind {
            Kind::OneEmbedded => {
                let flags = all_flags(times, flags);
                Self { times, here: Running::start(&flags).await, there: None, flags }
            }
            Kind::TwoOnRedis => Self::on(&REDIS, times, flags).await,
        }
    }

    /// Two gateways on a server of the test's own.
    pub(crate) async fn on(server: &RedisServer, times: Times, flags: &[&str]) -> Self {
        Self::at(&server.url(), times, flags).await
    }

    /// Two gateways on the Redis of a URL.
    pub(crate) async fn at(url: &str, times: Times, flags: &[&str]) -> Self {
        Self::on_urls([url.to_owned(), url.to_owned()], times, flags).await
    }

    /// Two gateways that reach one Redis in different ways.
    pub(crate) async fn on_urls(urls: [String; 2], times: Times, flags: &[&str]) -> Self {
        let mut flags = all_flags(times, flags);
        flags.push(format!("--prefix={}", prefix()));
        let [here, there] = urls.map(|url| [&flags[..], &[format!("--redis-url={url}")]].concat());
        let (here, there) = (Running::start(&here).await, Running::start(&there).await);
        Self { times, here, there: Some(there), flags }
    }

    /// Where both listen.
    pub(crate) fn addrs(&self) -> [SocketAddr; 2] {
        [self.here(), self.there()]
    }

    /// Where one gateway listens.
    pub(crate) fn here(&self) -> SocketAddr {
        self.here.addr
    }

    /// Where the other one listens; with the embedded store there is no other.
    pub(crate) fn there(&self) -> SocketAddr {
        self.there.as_ref().unwrap_or(&self.here).addr
    }

    /// Drains the gateway `here`. It is gone when the task ends.
    pub(crate) fn drain_here(&mut self, time: Duration) -> JoinHandle<()> {
        let gateway = self.here.gateway.take().expect("it runs");
        self.here.runtime().spawn(gateway.drain(time))
    }

    /// The start of every key of theirs.
    pub(crate) fn prefix(&self) -> &str {
        let prefix = self.flags.iter().find_map(|flag| flag.strip_prefix("--prefix="));
        prefix.expect("they are on Redis")
    }
}

fn all_flags(times: Times, flags: &[&str]) -> Vec<String> {
    let mut all = vec![
        "--listen=127.0.0.1:0".to_owned(),
        format!("--api-key={API_KEY}"),
        "--message-rate=10000".to_owned(),
    ];
    all.extend(times.flags());
    // The last one of two wins.
    all.extend(flags.iter().map(|&flag| flag.to_owned()));
    all
}

/// A prefix that no other test has.
pub(crate) fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The server of tests that do not hurt others.
pub(crate) fn shared_redis() -> &'static RedisServer {
    &REDIS
}

struct Running {
    addr: SocketAddr,
    gateway: Option<Gateway>,
    runtime: Option<Runtime>,
}

impl Running {
    async fn start(flags: &[String]) -> Self {
        let args = std::iter::once("presence-gateway").chain(flags.iter().map(String::as_str));
        let settings = Settings::from_parts(args, [], None).expect("good settings");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let started = runtime.spawn(Gateway::start(settings)).await;
        let gateway = started.expect("no panic").expect("the gateway starts");
        Self { addr: gateway.addr(), gateway: Some(gateway), runtime: Some(runtime) }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it has one until it is dropped")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs each scenario twice: with one gateway and the embedded store, and with two gateways on one Redis.
macro_rules! on_both_stores {
    ($($scenario:ident),+ $(,)?) => {
        mod one_embedded {
            $(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario($crate::house::Kind::OneEmbedded).await;
                }
            )+
        }

        mod two_on_redis {
            $(
                #[tokio::test]
                async fn $scenario() {
                    super::$scenario($crate::house::Kind::TwoOnRedis).await;
                }
            )+
        }
    };
}

pub(crate) use on_both_stores;
