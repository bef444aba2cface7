//! What a gateway must be allowed to do in Redis, and what of it a user's access control list lacks.
//!
//! The scripts use most of it, and a script that is stopped half-way by a missing permission would have written half:
//! so it is asked before the first. docs/operations.md has the same as a line for operators, which a test tries.

use bytes::Bytes;
use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::scripts::Script;

use super::channels::{Channels, PubSub};
use super::scripts::{decode, run};
use crate::store::StoreError;

/// What the scripts do to keys.
const ON_KEYS: [&str; 13] = [
    "get",
    "set",
    "hset",
    "hlen",
    "hsetnx",
    "hget",
    "hgetall",
    "hdel",
    "pexpire",
    "pexpireat",
    "zadd",
    "zrangebyscore",
    "zremrangebyscore",
];

/// A command as it could be sent, and what allows it.
struct Need {
    words: Vec<String>,
    grants: Vec<String>,
}

impl Need {
    fn new(words: &[&str], pattern: &str) -> Self {
        let grants = vec![format!("+{}", words[0]), pattern.to_owned()];
        Self { words: words.iter().map(|&word| word.to_owned()).collect(), grants }
    }
}

/// What to grant, in the words of `ACL SETUSER`; none when nothing is missing. `expired` is the channel of expired keys.
pub(super) async fn missing(
    client: &Client,
    prefix: &str,
    channels: &Channels,
    expired: &str,
) -> Result<Option<String>, StoreError> {
    let needs = needs(prefix, channels, expired, client.is_clustered());
    let commands: Vec<_> = needs.iter().map(|need| &need.words).collect();
    let commands = rmp_serde::to_vec(&commands);
    let commands = commands.map_err(|error| StoreError::Nonsense(error.to_string()))?;
    let script = Script::from_lua(include_str!("lua/permissions.lua"));
    let key = format!("{prefix}:leases");
    let answer = match run(client, &script, key, vec![Bytes::from(commands)]).await {
        Err(StoreError::Refused(reason))
            if reason.starts_with("NOPERM") && reason.contains("keys") =>
        {
            return Ok(Some(format!("~{prefix}:*")));
        }
        answer => answer?,
    };
    let mut grants = Vec::new();
    for need in decode::<Vec<usize>>(answer)?.into_iter().filter_map(|place| needs.get(place)) {
        let new = need.grants.iter().filter(|grant| !grant.is_empty() && !grants.contains(*grant));
        grants.extend(new.cloned().collect::<Vec<_>>());
    }
    Ok(Some(grants.join(" ")).filter(|grants| !grants.is_empty()))
}

fn needs(prefix: &str, channels: &Channels, expired: &str, clustered: bool) -> Vec<Need> {
    let (key, shared) = (format!("{prefix}:{{0}}:user:x"), channels.shared());
    let keys = format!("~{prefix}:*");
    let mut needs: Vec<_> =
        ON_KEYS.iter().map(|command| Need::new(&[command, &key, &key, &key], &keys)).collect();
    needs.extend([
        Need::new(&["ping"], ""),
        Need::new(&["time"], ""),
        Need::new(&["eval", "return 1", "1", &key], &keys),
        Need::new(&["subscribe", &shared], &format!("&{shared}")),
        Need::new(&["subscribe", expired], &format!("&{expired}")),
        Need::new(&["publish", &shared, "1"], &format!("&{shared}")),
    ]);
    if channels.pubsub() == PubSub::Sharded {
        let (channel, pattern) = (channels.of_bucket(0), format!("&{prefix}:{{*}}:events"));
        needs.push(Need::new(&["ssubscribe", &channel], &pattern));
        needs.push(Need::new(&["spublish", &channel, "1"], &pattern));
    }
    if clustered {
        needs.push(Need::new(&["asking"], ""));
    }
    needs
}

/// What to grant, where a refusal names it: `NOPERM this user has no permissions to run the 'info' command`.
pub(super) fn advice(refusal: &str) -> Option<String> {
    let rest = refusal.strip_prefix("NOPERM")?;
    let command = rest.split_once('\'').and_then(|(_, rest)| rest.split_once('\''));
    Some(command.map_or_else(
        || "see \"Permissions\" in docs/operations.md for what to grant".to_owned(),
        |(command, _)| format!("grant this user +{command}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_turned_into_what_to_grant() {
        let advised = |refusal| advice(refusal).unwrap_or_default();
        assert_eq!(
            advised("NOPERM this user has no permissions to run the 'cluster|slots' command"),
            "grant this user +cluster|slots"
        );
        let keys =
            "NOPERM this user has no permissions to access one of the keys used as arguments";
        assert!(advised(keys).contains("Permissions"));
        assert_eq!(advice("WRONGPASS invalid username-password pair"), None);
    }
}
