//! The connections to Redis: where to, with which limits, and who keeps them up.

use std::sync::LazyLock;
use std::time::Duration;

use fred::clients::{Client, SubscriberClient};
use fred::error::Error;
use fred::interfaces::{ClientLike, ClusterInterface};
use fred::types::config::{
    ClusterDiscoveryPolicy, Config, ConnectionConfig, Options, PerformanceConfig, ReconnectError,
    ReconnectPolicy, ServerConfig, TcpConfig, UnresponsiveConfig,
};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::errors::OpenError;
use super::startup::Mode;
use super::tls::TlsFiles;

/// How long opening the store may take in all.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one attempt to connect may take, and one command of fred's own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The same in a cluster. To find out who serves what, servers are asked one after the other while all calls wait: one that
/// hangs is to be passed over before any of these fails.
const CLUSTER_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a call may take before it counts as unreachable. A full batch takes milliseconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection on which an answer is owed for so long is replaced.
const UNRESPONSIVE_AFTER: Duration = Duration::from_secs(3);

/// How often that is looked at.
const UNRESPONSIVE_INTERVAL: Duration = Duration::from_millis(500);

/// How long the kernel may try to hand over what was written; fred writes without a timeout of its own.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts to reconnect come between these, doubling, for ever.
const RECONNECT_DELAY_MIN_MS: u32 = 50;
const RECONNECT_DELAY_MAX_MS: u32 = 500;
const RECONNECT_JITTER_MS: u32 = 100;

/// How many commands may wait: in a cluster, one call is up to 500 of them.
const COMMAND_QUEUE_LEN: usize = 4096;

/// How many messages may wait for the events task. About 150 bytes each are set aside, for each of fred's eight kinds
/// of events, so the command client, which hears no messages, has far fewer.
const MESSAGES_LEN: usize = 4096;
const NOTICES_LEN: usize = 64;

/// How calls are made: never kept waiting for a connection, since the caller keeps what is newest and tries again. The
/// second attempt is for a slot that was moved: fred counts following it as one.
pub(super) static CALL: LazyLock<Options> =
    LazyLock::new(|| Options { fail_fast: true, max_attempts: Some(2), ..Options::default() });

/// The Redis that a URL names.
pub(super) struct Target {
    config: Config,
}

impl Target {
    pub(super) fn parse(url: &str, tls: &TlsFiles) -> Result<Self, OpenError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (base, kind) = scheme.split_once('-').map_or((scheme, None), |(b, k)| (b, Some(k)));
        let encrypted = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(OpenError::Url(format!("the scheme is {scheme:?}"))),
        };
        // Fred would read the files of this machine for TLS, and fail with them.
        let plain = match kind {
            None => format!("redis://{rest}"),
            Some(kind @ ("cluster" | "sentinel")) => format!("redis-{kind}://{rest}"),
            Some(_) => return Err(OpenError::Url(format!("the scheme is {scheme:?}"))),
        };
        let mut config =
            Config::from_url(&plain).map_err(|error| OpenError::Url(error.details().to_owned()))?;
        // Those that were found are asked as well: all that the URL names may hang.
        if let ServerConfig::Clustered { policy, .. } = &mut config.server {
            *policy = ClusterDiscoveryPolicy::UseCache;
        }
        let tls = encrypted.then(|| tls.load()).transpose()?;
        Ok(Self { config: Config { fail_fast: true, tls, ..config } })
    }

    /// Why it cannot be used, in words. Where one side speaks TLS and the other does not, neither says so.
    pub(super) fn explain(&self, error: &Error) -> OpenError {
        OpenError::from_fred(self, error)
    }

    /// Whether it asks for TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.config.tls.is_some()
    }

    /// Whether it asks for a cluster.
    pub(super) fn is_clustered(&self) -> bool {
        self.config.server.is_clustered()
    }

    /// Host and port, for messages.
    pub(super) fn name(&self) -> String {
        let hosts = self.config.server.hosts();
        let names: Vec<_> =
            hosts.iter().map(|host| format!("{}:{}", host.host, host.port)).collect();
        names.join(",")
    }

    /// The database whose events are heard. A cluster has only one.
    pub(super) fn database(&self) -> u8 {
        if self.is_clustered() { 0 } else { self.config.database.unwrap_or(0) }
    }

    pub(super) fn mode(&self, client: &Client) -> Mode {
        match self.config.server {
            ServerConfig::Clustered { .. } => Mode::Cluster { primaries: nodes(client).len() },
            ServerConfig::Sentinel { .. } => Mode::Sentinel,
            ServerConfig::Centralized { .. } => Mode::Standalone,
        }
    }

    pub(super) fn command_client(&self) -> Client {
        Client::new(
            self.config.clone(),
            Some(performance(NOTICES_LEN)),
            Some(self.connection()),
            Some(reconnect()),
        )
    }

    pub(super) fn subscriber_client(&self) -> SubscriberClient {
        SubscriberClient::new(
            self.config.clone(),
            Some(performance(MESSAGES_LEN)),
            Some(self.connection()),
            Some(reconnect()),
        )
    }

    fn connection(&self) -> ConnectionConfig {
        let timeout = if self.config.server.is_clustered() {
            CLUSTER_CONNECT_TIMEOUT
        } else {
            CONNECT_TIMEOUT
        };
        ConnectionConfig {
            connection_timeout: timeout,
            internal_command_timeout: timeout,
            max_command_attempts: 1,
            max_command_buffer_len: COMMAND_QUEUE_LEN,
            unresponsive: UnresponsiveConfig {
                max_timeout: Some(UNRESPONSIVE_AFTER),
                interval: UNRESPONSIVE_INTERVAL,
            },
            tcp: TcpConfig {
                nodelay: Some(true),
                user_timeout: Some(TCP_USER_TIMEOUT),
                ..TcpConfig::default()
            },
            // Not LOADING: that server is the right one, and a reconnect for each call would not make it load faster.
            reconnect_errors: vec![ReconnectError::ReadOnly],
            ..ConnectionConfig::default()
        }
    }
}

fn performance(broadcast_channel_capacity: usize) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: COMMAND_TIMEOUT,
        broadcast_channel_capacity,
        ..PerformanceConfig::default()
    }
}

fn reconnect() -> ReconnectPolicy {
    let mut policy =
        ReconnectPolicy::new_exponential(0, RECONNECT_DELAY_MIN_MS, RECONNECT_DELAY_MAX_MS, 2);
    policy.set_jitter(RECONNECT_JITTER_MS);
    policy
}

/// How to address each server that holds keys: every primary of a cluster, or just the one there is.
pub(super) fn nodes<C: ClientLike>(client: &C) -> Vec<Options> {
    let Some(cluster) = Client::from(client.inner()).cached_cluster_state() else {
        return vec![CALL.clone()];
    };
    let primaries = cluster.unique_primary_nodes().into_iter();
    primaries.map(|node| Options { cluster_node: Some(node), ..CALL.clone() }).collect()
}

/// A client and the task of fred's that does its work. Dropping it closes the connection, which dropping fred's client
/// would not.
pub(super) struct Link<C> {
    pub(super) client: C,
    router: AbortOnDrop<Result<(), Error>>,
}

impl<C: ClientLike> Link<C> {
    /// Connects; fails at once when that fails.
    pub(super) async fn open(client: C) -> Result<Self, Error> {
        let router = AbortOnDrop::new(client.init().await?);
        Ok(Self { client, router })
    }

    /// Waits until fred gave up, which it does even with an unlimited policy: when its command queue is full as the
    /// connection breaks, or when it thinks that the configuration is wrong.
    pub(super) async fn ended(&mut self) {
        let _ = self.router.finished().await;
    }

    /// Starts over if it gave up.
    pub(super) fn restart_if_ended(&mut self) {
        if self.router.0.is_finished() {
            self.router = AbortOnDrop::new(self.client.connect());
        }
    }
}

/// Has a connection replaced that no longer answers. Fred does so by itself only when the last call was long ago, and
/// whoever asks again and again for an answer is never that quiet.
pub(super) async fn replace_connection<C: ClientLike>(client: &C) {
    if client.is_connected() {
        tracing::warn!("Redis does not answer over this connection, which is replaced");
        // It goes on when nobody waits for it.
        let _ = timeout(Duration::ZERO, client.force_reconnection()).await;
    }
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    pub(super) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }

    async fn finished(&mut self) -> Result<T, JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_servers_and_its_database() {
        for (url, name, database) in [
            ("redis://localhost", "localhost:6379", 0),
            ("valkey://u:secret@10.0.0.1:7000/3", "10.0.0.1:7000", 3),
            ("redis-cluster://a:1?node=b:2", "b:2,a:1", 0),
            ("redis-sentinel://s:26379/1?sentinelServiceName=main", "s:26379", 1),
        ] {
            let target = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((target.name().as_str(), target.database()), (name, database), "{url}");
        }
    }

    fn parse(url: &str) -> Result<Target, OpenError> {
        Target::parse(url, &TlsFiles::default())
    }

    #[test]
    fn tls_is_used_exactly_where_the_scheme_says_so() {
        for kind in ["", "-cluster", "-sentinel"] {
            let rest = "h:1?sentinelServiceName=s";
            for (base, encrypted) in
                [("redis", false), ("valkey", false), ("rediss", true), ("valkeys", true)]
            {
                let target = parse(&format!("{base}{kind}://{rest}")).expect("a URL");
                assert_eq!(target.config.tls.is_some(), encrypted, "{base}{kind}");
                assert_eq!(target.config.server.is_clustered(), kind == "-cluster");
                assert_eq!(target.config.server.is_sentinel(), kind == "-sentinel");
            }
        }
    }

    #[test]
    fn what_is_no_redis_url_is_refused_without_telling_its_password() {
        for url in
            ["", "localhost:6379", "http://u:secret@h", "redis://u:secret@h:99999", "redis-x://h"]
        {
            let error = parse(url).err().unwrap_or_else(|| panic!("{url} was taken"));
            assert!(matches!(error, OpenError::Url(_)), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
