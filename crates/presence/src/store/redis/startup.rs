//! What a Redis must be before it is used: new enough, and telling of expired keys.

use std::collections::HashMap;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, ConfigInterface};
use fred::types::InfoKind;
use fred::types::config::Options;

use super::channels::PubSub;
use super::connect::{Target, nodes};
use super::errors::OpenError;
use crate::store::StoreError;

/// The oldest Redis that will do, as `major.minor`. Older ones neither are maintained nor were ever tested.
const VERSION_MIN: (u32, u32) = (6, 2);

/// Since when there are sharded channels.
const SHARDED_SINCE: (u32, u32) = (7, 0);

/// The setting by which Redis tells of expired keys, and the flags that are needed in it.
const EVENTS_SETTING: &str = "notify-keyspace-events";

/// What was found at the start, for the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupReport {
    /// As the server says it; in a cluster, the oldest. `unknown` when it does not say.
    pub version: String,
    /// How the servers are arranged.
    pub mode: Mode,
    /// How transitions are published.
    pub pubsub: PubSub,
    /// Whether expired keys are told of.
    pub keyspace_events: KeyspaceEvents,
}

/// How the servers are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One server.
    Standalone,
    /// One server at a time, which sentinels name.
    Sentinel,
    /// Many, with the keys spread over them.
    Cluster {
        /// How many hold keys.
        primaries: usize,
    },
}

/// Whether the servers tell of expired keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyspaceEvents {
    /// They did already.
    AlreadyOn,
    /// They do now.
    TurnedOn,
    /// They may not, and we may not change it: the TTLs still hold, but a death that no gateway notices is seen later.
    Refused {
        /// What an operator is to set.
        advice: String,
    },
}

/// Checks the servers, and turns on what is needed.
pub(super) async fn check(client: &Client, target: &Target) -> Result<StartupReport, OpenError> {
    let infos = infos(client).await.map_err(|error| target.explain(&error))?;
    if target.mode(client) == Mode::Standalone {
        infos.iter().flatten().try_for_each(|info| check_alone(target, info))?;
    }
    let versions = infos.iter().flatten().map(|info| check_version(&target.name(), info));
    let versions = versions.collect::<Result<Vec<_>, _>>()?;
    if versions.len() < infos.len() {
        tracing::warn!("Redis does not tell its version: grant +info to this user");
    }
    let keyspace_events = turn_on_events(client)
        .await
        .map_err(|reason| OpenError::Unreachable { server: target.name(), reason })?;
    if let KeyspaceEvents::Refused { advice } = &keyspace_events {
        tracing::warn!(%advice, "Redis does not tell of expired keys, and it may not be changed from here");
    }
    let oldest = versions.into_iter().min();
    let version = oldest.map_or_else(|| "unknown".to_owned(), |version| version.text);
    let pubsub = choose(client.is_clustered(), &infos);
    Ok(StartupReport { version, mode: target.mode(client), pubsub, keyspace_events })
}

/// How transitions can be published now. Err says why a server is out of reach.
pub(super) async fn pubsub_of(client: &Client) -> Result<PubSub, String> {
    if !client.is_clustered() {
        return Ok(PubSub::Plain);
    }
    Ok(choose(true, &infos(client).await.map_err(|error| error.to_string())?))
}

/// Sharded channels in a cluster, when all of it knows them.
fn choose(clustered: bool, infos: &[Option<String>]) -> PubSub {
    let knows = |info: &Option<String>| {
        let version = info.as_deref().and_then(|info| version_of(info).1);
        version.is_some_and(|version| version >= SHARDED_SINCE)
    };
    if clustered && infos.iter().all(knows) { PubSub::Sharded } else { PubSub::Plain }
}

/// What every server that holds keys says of itself; none where it may not be asked.
async fn infos(client: &Client) -> Result<Vec<Option<String>>, Error> {
    let mut infos = Vec::new();
    for node in nodes(client) {
        let info = client.with_options(&node).info(Some(InfoKind::Server)).await;
        infos.push(match info {
            Ok(info) => Some(info),
            Err(error) => match StoreError::from(&error) {
                StoreError::Unreachable(_) => return Err(error),
                _ => None,
            },
        });
    }
    Ok(infos)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    number: (u32, u32),
    text: String,
}

fn check_version(server: &str, info: &str) -> Result<Version, OpenError> {
    let (text, number) = version_of(info);
    if let Some(number) = number.filter(|&number| number >= VERSION_MIN) {
        return Ok(Version { number, text: text.to_owned() });
    }
    Err(OpenError::TooOld {
        server: server.to_owned(),
        found: if text.is_empty() { "unknown".to_owned() } else { text.to_owned() },
        needed: format!("{}.{}", VERSION_MIN.0, VERSION_MIN.1),
    })
}

/// A node of a cluster would refuse most keys, and a sentinel has none.
fn check_alone(target: &Target, info: &str) -> Result<(), OpenError> {
    let base = if target.is_encrypted() { "rediss" } else { "redis" };
    let (found, kind) = match mode_of(info) {
        "cluster" => ("a node of a cluster", "cluster://"),
        "sentinel" => {
            ("a sentinel", "sentinel://, and name the service with ?sentinelServiceName=")
        }
        _ => return Ok(()),
    };
    Err(OpenError::Arranged { server: target.name(), found, scheme: format!("{base}-{kind}") })
}

/// Reads `INFO server`: how the server takes itself. Newer ones of Valkey may call it `server_mode`.
fn mode_of(info: &str) -> &str {
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    value("redis_mode:").or_else(|| value("server_mode:")).map(str::trim).unwrap_or_default()
}

/// Reads `INFO server`: the version as it stands there, and its first two numbers. Valkey reports the Redis that it is
/// compatible with.
fn version_of(info: &str) -> (&str, Option<(u32, u32)>) {
    let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let text = line.map(str::trim).unwrap_or_default();
    let mut parts = text.split('.').map(|part| part.parse().ok());
    (text, parts.next().flatten().zip(parts.next().flatten()))
}

/// Makes every server tell of expired keys, keeping what else it tells of. Needed again whenever one has restarted.
/// Err says why a server is out of reach.
pub(super) async fn turn_on_events(client: &Client) -> Result<KeyspaceEvents, String> {
    let mut found = KeyspaceEvents::AlreadyOn;
    for node in nodes(client) {
        match turn_on_events_at(client, &node).await? {
            KeyspaceEvents::AlreadyOn => {}
            KeyspaceEvents::TurnedOn => found = KeyspaceEvents::TurnedOn,
            refused @ KeyspaceEvents::Refused { .. } => return Ok(refused),
        }
    }
    Ok(found)
}

async fn turn_on_events_at(client: &Client, node: &Options) -> Result<KeyspaceEvents, String> {
    let client = client.with_options(node);
    let settings: Result<HashMap<String, String>, _> = client.config_get(EVENTS_SETTING).await;
    let set = match settings {
        Ok(settings) => settings.get(EVENTS_SETTING).cloned().unwrap_or_default(),
        Err(error) => return refused(&error, "Ex"),
    };
    let Some(wanted) = with_expired(&set) else {
        return Ok(KeyspaceEvents::AlreadyOn);
    };
    match client.config_set(EVENTS_SETTING, wanted.as_str()).await {
        Ok(()) => Ok(KeyspaceEvents::TurnedOn),
        Err(error) => refused(&error, &wanted),
    }
}

fn refused(error: &Error, flags: &str) -> Result<KeyspaceEvents, String> {
    match StoreError::from(error) {
        StoreError::Unreachable(reason) => Err(reason),
        StoreError::Refused(reason) | StoreError::Nonsense(reason) => Ok(KeyspaceEvents::Refused {
            advice: format!(
                "set `{EVENTS_SETTING} {flags}` in redis.conf or in your provider's settings \
                 (CONFIG was refused: {reason})"
            ),
        }),
    }
}

/// The flags with those added by which expired keys are told of; none when they are there. `A` includes `x`.
fn with_expired(flags: &str) -> Option<String> {
    let mut wanted = flags.to_owned();
    if !flags.contains('E') {
        wanted.push('E');
    }
    if !flags.contains(['x', 'A']) {
        wanted.push('x');
    }
    (wanted != flags).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_older_than_6_2_is_refused_with_both_versions() {
        for old in ["6.0.16", "5.0.14", "2.8", "", "x.y"] {
            let error = check_version("h:1", &format!("# Server\r\nredis_version:{old}\r\n"));
            let message = error.expect_err(old).to_string();
            assert!(message.contains("6.2"), "{message}");
            assert!(message.contains(if old.is_empty() { "unknown" } else { old }), "{message}");
        }
        for new in ["6.2.0", "7.0.15", "7.2.4", "8.0.1", "10.0.0"] {
            let info = format!("# Server\r\nredis_version:{new}\r\nredis_git_sha1:0\r\n");
            assert_eq!(check_version("h:1", &info).expect(new).text, new);
        }
    }

    #[test]
    fn sharded_channels_are_chosen_where_every_server_of_a_cluster_knows_them() {
        let info = |version: &str| Some(format!("redis_version:{version}\r\n"));
        // What Valkey 8 says; it forked from Redis 7.2.4.
        let valkey =
            "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n";
        let valkey = || Some(valkey.to_owned());
        assert_eq!(check_version("h:1", &valkey().unwrap()).unwrap().text, "7.2.4");
        for (infos, expected) in [
            (vec![valkey(), valkey()], PubSub::Sharded),
            (vec![info("7.0.0"), info("8.0.1"), valkey()], PubSub::Sharded),
            (vec![info("7.0.0"), info("6.2.14")], PubSub::Plain),
            (vec![info("7.0.0"), None], PubSub::Plain),
        ] {
            assert_eq!(choose(true, &infos), expected, "{infos:?}");
            assert_eq!(choose(false, &infos), PubSub::Plain);
        }
    }

    #[test]
    fn a_server_says_what_it_takes_itself_for() {
        for (info, mode) in [
            ("# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n", "cluster"),
            ("redis_version:7.2.4\r\nvalkey_version:8.1.3\r\nserver_mode:sentinel\r\n", "sentinel"),
            ("redis_version:7.0.15\r\n", ""),
        ] {
            assert_eq!(mode_of(info), mode, "{info}");
        }
    }

    #[test]
    fn flags_that_are_set_are_kept() {
        for (set, wanted) in
            [("", "Ex"), ("Kg", "KgEx"), ("AK", "AKE"), ("Eg", "Egx"), ("xK", "xKE")]
        {
            assert_eq!(with_expired(set).as_deref(), Some(wanted), "{set}");
        }
        for enough in ["Ex", "AKE", "xE", "KElx"] {
            assert_eq!(with_expired(enough), None, "{enough}");
        }
    }
}
