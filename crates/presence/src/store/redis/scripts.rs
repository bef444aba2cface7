//! The calls: batches in and out of the Lua scripts. The forms of ARGV and results are in the scripts' headers.

mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::scripts::Script;
use fred::types::{MultipleKeys, Value};
use futures::future::try_join_all;
use presence_protocol::UserId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RedisOptions;
use super::channels::Channels;
use super::connect::CALL;
use super::keys::Keyspace;
use super::lease::Leases;
use super::reach::Contact;
use crate::store::bucket::bucket_of;
use crate::store::notice::Notice;
use crate::store::{Claim, Event, Standing, StoreError};
use rows::{ClaimRow, Row, Setup};

macro_rules! script {
    ($file:literal) => {
        Script::from_lua(concat!(include_str!("lua/record.lua"), "\n", include_str!($file)))
    };
}

/// The name of a key that never exists. A cluster runs no script on a slot that is on its way to another server while one
/// of the script's keys is not there: without this, it would run one that finds some of a user's keys here and some gone.
const NEVER: &str = "never";

/// The scripts, and what is the same in each call of them.
pub(super) struct Scripts {
    client: Client,
    options: RedisOptions,
    keys: Keyspace,
    channels: Arc<Channels>,
    apply: Script,
    refresh: Script,
    snapshot: Script,
    outdo: Script,
    pub(super) leases: Arc<Leases>,
}

impl Scripts {
    pub(super) fn new(
        client: Client,
        options: &RedisOptions,
        channels: Arc<Channels>,
        leases: Arc<Leases>,
    ) -> Self {
        Self {
            client,
            options: options.clone(),
            keys: Keyspace::new(&options.prefix),
            channels,
            apply: script!("lua/apply.lua"),
            refresh: script!("lua/refresh.lua"),
            snapshot: script!("lua/snapshot.lua"),
            outdo: script!("lua/outdo.lua"),
            leases,
        }
    }

    pub(super) fn gateway(&self) -> &str {
        &self.options.gateway
    }

    pub(super) async fn apply(&self, claims: &[Claim], contact: Contact) -> Result<(), StoreError> {
        let rows = claims.iter().map(|claim| ClaimRow::new(claim, &self.options));
        let parts = self.split(rows.map(|row| (row.bucket, row)));
        let calls =
            parts.into_iter().map(|(bucket, rows)| self.call(&self.apply, bucket, rows, contact));
        let answers = try_join_all(calls).await?;
        // While a slot moves, fred may take the answer to its ASKING for that of a call.
        let counted = answers.iter().all(|answer| answer.as_i64().is_some());
        counted.then_some(()).ok_or_else(|| nonsense(&"a batch of claims was not counted"))
    }

    pub(super) async fn refresh(
        &self,
        users: &[UserId],
        contact: Contact,
    ) -> Result<Vec<UserId>, StoreError> {
        let parts = self.split(users.iter().map(|user| (bucket_of(user), user)));
        let calls = parts.into_iter().map(async |(bucket, users)| {
            let mut buckets = BTreeMap::<u16, Vec<String>>::new();
            for user in users {
                buckets.entry(bucket_of(user)).or_default().push(self.keys.of(user));
            }
            decode::<Vec<String>>(self.call(&self.refresh, bucket, buckets, contact).await?)
        });
        let missing = try_join_all(calls).await?.concat();
        Ok(missing.iter().filter_map(|key| self.keys.user_of(key.as_bytes())).collect())
    }

    pub(super) async fn snapshot(
        &self,
        users: &[UserId],
        contact: Contact,
    ) -> Result<Vec<Standing>, StoreError> {
        let asked = users.iter().enumerate().map(|(place, user)| (bucket_of(user), (place, user)));
        let calls = self.split(asked).into_iter().map(async |(bucket, part)| {
            let asked: Vec<_> = part.iter().map(|(_, user)| (bucket_of(user), user)).collect();
            let answer = bytes_of(self.call(&self.snapshot, bucket, asked, contact).await?)?;
            let rows: Vec<Row> =
                rmp_serde::from_slice(&answer).map_err(|error| nonsense(&error))?;
            let standings = part
                .iter()
                .zip(rows)
                .map(|((place, _), row)| Ok((*place, row.standing(Duration::ZERO)?)));
            standings.collect::<Result<Vec<_>, StoreError>>()
        });
        let mut placed = try_join_all(calls).await?.concat();
        if placed.len() != users.len() {
            return Err(StoreError::Nonsense(
                "a snapshot of other users than asked for".to_owned(),
            ));
        }
        placed.sort_unstable_by_key(|(place, _)| *place);
        Ok(placed.into_iter().map(|(_, standing)| standing).collect())
    }

    pub(super) async fn outdo(
        &self,
        shown: &[(UserId, u64)],
        contact: Contact,
    ) -> Result<(), StoreError> {
        let row = |(user, version): &(UserId, u64)| (bucket_of(user), user.clone(), *version);
        let parts = self.split(shown.iter().map(row).map(|row| (row.0, row)));
        let calls =
            parts.into_iter().map(|(bucket, rows)| self.call(&self.outdo, bucket, rows, contact));
        try_join_all(calls).await.map(drop)
    }

    /// The parts of a batch that one script can serve, each with a bucket by which it is routed: all of it, but in a
    /// cluster only what is in one slot.
    fn split<T>(&self, items: impl Iterator<Item = (u16, T)>) -> BTreeMap<u16, Vec<T>> {
        let clustered = self.client.is_clustered();
        let mut parts = BTreeMap::<u16, Vec<T>>::new();
        let mut first = None;
        for (bucket, item) in items {
            let route = if clustered { bucket } else { *first.get_or_insert(bucket) };
            parts.entry(route).or_default().push(item);
        }
        parts
    }

    async fn call(
        &self,
        script: &Script,
        bucket: u16,
        batch: impl Serialize,
        contact: Contact,
    ) -> Result<Value, StoreError> {
        let address = self.channels.address(bucket);
        let is_sent = self.client.is_connected();
        let setup = Setup::new(&self.options, contact, self.leases.known(), address, is_sent);
        let arguments =
            vec![encode(rmp_serde::to_vec_named(&setup))?, encode(rmp_serde::to_vec(&batch))?];
        let key = |kind: &str| format!("{}:{{{bucket}}}:{kind}", self.options.prefix);
        let mut keys = vec![key("gateways")];
        keys.extend(self.client.is_clustered().then(|| key(NEVER)));
        run(&self.client, script, keys, arguments).await
    }
}

/// Runs a script by its hash. A Redis that has restarted does not know it, and is sent the whole.
pub(super) async fn run(
    client: &Client,
    script: &Script,
    keys: impl Into<MultipleKeys>,
    arguments: Vec<Bytes>,
) -> Result<Value, StoreError> {
    let client = client.with_options(&CALL);
    let keys = keys.into();
    let short = client.evalsha(script.sha1().clone(), keys.clone(), arguments.clone()).await;
    let result: Result<Value, Error> = match (short, script.lua()) {
        (Err(error), Some(lua)) if error.details().starts_with("NOSCRIPT") => {
            client.eval(lua.clone(), keys, arguments).await
        }
        (result, _) => result,
    };
    result.map_err(|error| StoreError::from(&error))
}

/// Reads a published message: from a script, the users that changed; from [`notice_message`], a notice.
///
/// `now_ms` by the store's clock: a message may have waited for this process, and holds are counted from when it was sent.
pub(super) fn decode_event(message: &[u8], now_ms: u64) -> Result<Event, StoreError> {
    // Every gateway reads every message: to try one form after the other would cost more than all the rest.
    if is_list(message) {
        let (sent_ms, rows): (u64, Vec<Row>) =
            rmp_serde::from_slice(message).map_err(|error| nonsense(&error))?;
        let age = Duration::from_millis(now_ms.saturating_sub(sent_ms));
        let standings = rows.into_iter().map(|row| row.standing(age));
        return Ok(Event::Transitions(standings.collect::<Result<_, _>>()?));
    }
    let notice = rmp_serde::from_slice(message).map_err(|error| nonsense(&error))?;
    Ok(Event::Notice(notice))
}

fn is_list(message: &[u8]) -> bool {
    matches!(message.first(), Some(0x90..=0x9f | 0xdc | 0xdd))
}

/// The message that tells every gateway: a map, where a script tells a list.
pub(super) fn notice_message(notice: &Notice) -> Result<Bytes, StoreError> {
    encode(rmp_serde::to_vec_named(notice))
}

fn encode(encoded: Result<Vec<u8>, rmp_serde::encode::Error>) -> Result<Bytes, StoreError> {
    encoded.map(Bytes::from).map_err(|error| nonsense(&error))
}

pub(super) fn decode<T: DeserializeOwned>(value: Value) -> Result<T, StoreError> {
    rmp_serde::from_slice(&bytes_of(value)?).map_err(|error| nonsense(&error))
}

fn bytes_of(value: Value) -> Result<Bytes, StoreError> {
    value.into_bytes().ok_or_else(|| StoreError::Nonsense("no bytes".to_owned()))
}

fn nonsense(error: &impl ToString) -> StoreError {
    StoreError::Nonsense(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_counted_from_when_it_was_told_and_not_from_when_that_is_heard() {
        let row = ("ana", "5000 offline 1 . . . ", "closed", 3_000, 2_000, "4000 online 1 . . g ");
        let message = rmp_serde::to_vec(&(1_000, [row])).unwrap();
        let remaining_ms = |now_ms: u64| {
            let Ok(Event::Transitions(told)) = decode_event(&message, now_ms) else { panic!() };
            told[0].held.as_ref().unwrap().remaining.as_millis()
        };
        // The clock of the store is known by what it said last: it may seem to be behind.
        assert_eq!([0, 1_000, 1_700, 9_000].map(remaining_ms), [2_000, 2_000, 1_300, 0]);
    }
}
