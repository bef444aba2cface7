//! The store that many gateways share: Redis, Valkey, or a cluster of either.
//!
//! What is written, and by which rules, is in the Lua scripts below `redis/lua/`; here is only how they are called.
//! Keeps no presence of its own, and never decides what a user's state is.

mod channels;
mod connect;
mod errors;
mod events;
mod keys;
mod lease;
mod orders;
mod outlet;
mod permissions;
mod reach;
mod scripts;
mod startup;
mod subscription;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, PubsubInterface};
use fred::types::Value;
use parking_lot::Mutex;
use presence_protocol::UserId;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::debug;

pub use channels::PubSub;
pub use errors::OpenError;
pub use keys::{UserKeys, keys_of};
pub use startup::{KeyspaceEvents, Mode, StartupReport};
pub use tls::{ClientFiles, TlsFiles};

use super::bucket::bucket_of;
use super::notice::{Dated, Notice, Order};
use super::{
    Ailment, BATCH_LEN_MAX, Claim, EVENT_QUEUE_LEN, Lease, ORDERS_LEN_MAX, Opened, Pulse, Standing,
    Store, StoreError,
};
use crate::config::Config;
use channels::{Address, Channels};
use connect::{AbortOnDrop, CALL, Link, OPEN_TIMEOUT, Target};
use events::Feed;
use keys::Keyspace;
use lease::Leases;
use orders::Orders;
use reach::Reach;
use scripts::Scripts;
use subscription::Subscription;

/// What it takes to open the store.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// `redis://`, `redis-cluster://` or `redis-sentinel://`, with `user:password@`, port and database as needed;
    /// `rediss…` for TLS.
    pub url: String,
    /// What TLS takes, where the URL asks for it.
    pub tls: TlsFiles,
    /// The start of every key and channel.
    pub prefix: String,
    /// The id of this gateway, new at each start.
    pub gateway: String,
    /// Times and limits. All gateways on one Redis must agree on them.
    pub config: Config,
}

impl RedisOptions {
    /// The names become parts of keys, hash tags and of the lines in which views are kept.
    fn check(&self) -> Result<(), OpenError> {
        let plain = |name: &str, forbidden: &[char]| {
            let bad = |c: char| c.is_whitespace() || c.is_control() || forbidden.contains(&c);
            !name.is_empty() && !name.contains(bad)
        };
        if !plain(&self.prefix, &['{', '}']) {
            return Err(OpenError::Prefix(self.prefix.clone()));
        }
        if !plain(&self.gateway, &[',']) || self.gateway == "." {
            return Err(OpenError::Gateway(self.gateway.clone()));
        }
        Ok(())
    }
}

/// Connects, checks the server and subscribes. Fails within about five seconds when something is wrong.
pub async fn open(options: RedisOptions) -> Result<(Opened, StartupReport), OpenError> {
    options.check()?;
    let target = Target::parse(&options.url, &options.tls)?;
    let late = |_| target.explain(&Error::new(ErrorKind::Timeout, "no answer in time"));
    timeout(OPEN_TIMEOUT, open_target(&target, options)).await.map_err(late)?
}

async fn open_target(
    target: &Target,
    options: RedisOptions,
) -> Result<(Opened, StartupReport), OpenError> {
    let failed = |error| target.explain(&error);
    let commands = Link::open(target.command_client()).await.map_err(failed)?;
    let report = startup::check(&commands.client, target).await?;
    let channels = Arc::new(Channels::new(&options.prefix, report.pubsub));
    let expired = format!("__keyevent@{}__:expired", target.database());
    let missing =
        permissions::missing(&commands.client, &options.prefix, &channels, &expired).await;
    let refused = |error| OpenError::from_store(&target.name(), error);
    if let Some(grants) = missing.map_err(refused)? {
        return Err(OpenError::Forbidden { server: target.name(), grants });
    }
    let subscriber = Link::open(target.subscriber_client()).await.map_err(failed)?;

    let reach = Arc::new(Reach::new());
    let running = reach.clone();
    let beat = AbortOnDrop::new(tokio::spawn(async move { running.beat().await }));
    let (sender, events) = mpsc::channel(EVENT_QUEUE_LEN);
    let client = commands.client.clone();
    let subscription = Subscription::new(channels.clone(), expired);
    let keys = Keyspace::new(&options.prefix);
    let leases = Arc::new(Leases::new(&options));
    let mut feed =
        Feed::new(commands, subscriber, keys, subscription, reach.clone(), leases.clone(), sender);
    feed.subscribe().await.map_err(failed)?;

    let store = RedisStore {
        scripts: Scripts::new(client.clone(), &options, channels.clone(), leases),
        orders: Orders::new(&options),
        client,
        reach,
        channels,
        untold: Mutex::default(),
        tried_to_find_out: tokio::sync::Mutex::new(Instant::now()),
        _feed: AbortOnDrop::new(tokio::spawn(feed.run())),
        _beat: beat,
    };
    // Before anything is read: since when the store remembers is part of every answer.
    store.learn_leases().await.map_err(refused)?;
    Ok((Opened { store: Arc::new(store), events }, report))
}

/// One gateway's access to Redis. Dropping it closes its connections and ends its events.
pub struct RedisStore {
    client: Client,
    scripts: Scripts,
    orders: Orders,
    reach: Arc<Reach>,
    channels: Arc<Channels>,
    /// What renewals told that nobody has heard of yet.
    untold: Mutex<Pulse>,
    /// When it was tried last to find out about leases after a stop of this process; held by whoever does.
    tried_to_find_out: tokio::sync::Mutex<Instant>,
    /// Owns both connections.
    _feed: AbortOnDrop<()>,
    _beat: AbortOnDrop<()>,
}

impl RedisStore {
    /// A process that was stopped does not know who died meanwhile, nor whether the store was away, and finds out first: it
    /// tries once.
    async fn know_leases(&self) {
        if !self.reach.was_stopped_since(self.scripts.leases.renewed_at()) {
            return;
        }
        let mut tried = self.tried_to_find_out.lock().await;
        let known = self.scripts.leases.renewed_at().max(*tried);
        if self.reach.was_stopped_since(known) {
            *tried = Instant::now();
            if let Err(error) = self.learn_leases().await {
                debug!(%error, "others are judged by what was known before this process was stopped");
            }
        }
    }

    /// Renews the lease; what that tells is for the next who renews it.
    async fn learn_leases(&self) -> Result<(), StoreError> {
        let pulse = self.renew().await?;
        *self.untold.lock() = pulse;
        Ok(())
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        debug_assert!(claims.len() <= BATCH_LEN_MAX);
        self.know_leases().await;
        self.reach.call(async { self.scripts.apply(&claims, self.reach.contact()).await }).await
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        debug_assert!(users.len() <= BATCH_LEN_MAX);
        self.reach.call(async { self.scripts.refresh(&users, self.reach.contact()).await }).await
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        debug_assert!(users.len() <= BATCH_LEN_MAX);
        self.know_leases().await;
        self.reach.call(async { self.scripts.snapshot(&users, self.reach.contact()).await }).await
    }

    async fn outdo(&self, shown: Vec<(UserId, u64)>) -> Result<(), StoreError> {
        debug_assert!(shown.len() <= BATCH_LEN_MAX);
        self.know_leases().await;
        self.reach.call(async { self.scripts.outdo(&shown, self.reach.contact()).await }).await
    }

    async fn tell(&self, notice: Notice) -> Result<(), StoreError> {
        let message = scripts::notice_message(&notice)?;
        let client = self.client.with_options(&CALL);
        let Address { pubsub, channel } = self.channels.address(bucket_of(notice.user()));
        let tell = async {
            let told: Result<Value, _> = match pubsub {
                PubSub::Plain => client.publish(channel, message).await,
                PubSub::Sharded => client.spublish(channel, message).await,
            };
            told.map(drop).map_err(|error| StoreError::from(&error))
        };
        self.reach.call(tell).await
    }

    async fn record(&self, orders: Vec<(Order, Option<u64>)>) -> Result<u64, StoreError> {
        debug_assert!(orders.len() <= ORDERS_LEN_MAX);
        self.reach.call(self.orders.record(&self.client, &orders)).await
    }

    async fn orders(&self, from_s: u64, skip: usize) -> Result<Vec<Dated>, StoreError> {
        self.reach.call(self.orders.since(&self.client, from_s, skip)).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.reach.call(self.scripts.leases.release(&self.client)).await
    }

    async fn renew(&self) -> Result<Pulse, StoreError> {
        let renewed = self.reach.call(self.scripts.leases.renew(&self.client)).await;
        if renewed.is_err() && self.reach.gives_up() {
            connect::replace_connection(&self.client).await;
        }
        let mut pulse = renewed?;
        let untold = std::mem::take(&mut *self.untold.lock());
        pulse.lapsed.extend(untold.lapsed);
        pulse.lost |= untold.lost;
        Ok(pulse)
    }

    fn has_stalled(&self) -> bool {
        self.reach.has_stalled()
    }

    fn ailment(&self) -> Option<Ailment> {
        self.reach.ailment()
    }

    fn may_forget(&self) -> bool {
        true
    }

    fn gateways(&self) -> u32 {
        self.scripts.leases.living()
    }

    fn leases(&self) -> Vec<Lease> {
        self.scripts.leases.all()
    }

    fn gateway(&self) -> &str {
        self.scripts.gateway()
    }

    fn now_ms(&self) -> u64 {
        self.scripts.leases.now_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_break_a_key_or_a_line_are_refused() {
        let options = |prefix: &str, gateway: &str| RedisOptions {
            url: String::new(),
            tls: TlsFiles::default(),
            prefix: prefix.to_owned(),
            gateway: gateway.to_owned(),
            config: Config::default(),
        };
        assert!(options("my:app", "g-1").check().is_ok());
        for (prefix, gateway) in
            [("", "g"), ("a{b}", "g"), ("p", ""), ("p", "a,b"), ("p", "a b"), ("p", ".")]
        {
            assert!(options(prefix, gateway).check().is_err(), "{prefix:?} {gateway:?}");
        }
    }
}
