//! What one gateway listens to, and at which servers: what changed, and which keys expired.
//!
//! Expired keys are told of by the server that had them, so that every server that holds keys is listened to. A sharded
//! channel is listened to where its slot is served. Knows nothing of what the messages mean.

use std::sync::Arc;

use fred::clients::SubscriberClient;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface, PubsubInterface};
use fred::types::config::{Options, Server};
use fred::types::{ClusterHash, CustomCommand, Message, Value};
use fred::util::redis_keyslot;

use super::channels::{Channels, PubSub};
use super::connect::{CALL, nodes};
use crate::store::bucket::BUCKETS;

/// The subscriber's channels, as they were when it last subscribed.
pub(super) struct Subscription {
    channels: Arc<Channels>,
    expired: String,
    /// In a cluster, every server tells of every message on the shared channel: the one that is listened to.
    teller: Option<Server>,
    shards: Vec<Shard>,
}

/// The sharded channels that are listened to at one server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shard {
    server: Server,
    /// Any of them.
    channel: String,
    /// How many.
    count: i64,
}

/// Whether what is listened to is what was listened to before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// Nothing was missed, as far as the servers know.
    Whole,
    /// Something is listened to elsewhere than before, or was not listened to for a while.
    Broken,
}

impl Subscription {
    /// `expired` is the channel on which a server tells of expired keys.
    pub(super) fn new(channels: Arc<Channels>, expired: String) -> Self {
        Self { channels, expired, teller: None, shards: Vec::new() }
    }

    /// Publishes from now on where it is best; [`Self::renew`] listens there as well.
    pub(super) fn switch_to(&self, pubsub: PubSub) {
        self.channels.switch_to(pubsub);
    }

    /// Subscribes to everything, or makes sure of it.
    pub(super) async fn renew(&mut self, client: &SubscriberClient) -> Result<Hearing, Error> {
        self.listen(client).await?;
        let shards = match self.channels.pubsub() {
            PubSub::Plain => Vec::new(),
            PubSub::Sharded => self.listen_to_buckets(client).await?,
        };
        let hearing = if shards == self.shards { Hearing::Whole } else { Hearing::Broken };
        self.shards = shards;
        Ok(hearing)
    }

    /// Asks every server whether it still tells us. A server that gave a slot away stops telling of its channels, and
    /// says so in a message that fred drops; but it counts the channels in its answer to SSUBSCRIBE.
    pub(super) async fn check(&mut self, client: &SubscriberClient) -> Result<Hearing, Error> {
        self.listen(client).await?;
        for shard in &self.shards {
            let node = Options { cluster_node: Some(shard.server.clone()), ..CALL.clone() };
            let client = client.to_client().with_options(&node);
            let command = ssubscribe(&shard.channel);
            let answer = client.custom(command, vec![shard.channel.as_str()]).await?;
            if count(&answer)? < shard.count {
                return Ok(Hearing::Broken);
            }
        }
        Ok(Hearing::Whole)
    }

    /// Whether a message is one of ours, and not one that is told twice.
    pub(super) fn is_news(&self, message: &Message) -> bool {
        if *message.channel == *self.channels.shared() {
            return self.teller.as_ref().is_none_or(|teller| *teller == message.server);
        }
        self.channels.is_of_bucket(&message.channel)
    }

    /// Subscribes to the shared channel at one server, and to expired keys at every one that holds keys.
    async fn listen(&mut self, client: &SubscriberClient) -> Result<(), Error> {
        let nodes = nodes(client);
        let shared = self.channels.shared();
        self.teller = nodes.first().and_then(|node| node.cluster_node.clone());
        for (place, node) in nodes.iter().enumerate() {
            let mut channels = vec![self.expired.as_str()];
            channels.extend((place == 0).then_some(shared.as_str()));
            // Fred waits for no answer to SUBSCRIBE. Answers come in order, so that of a PING behind it tells; and a
            // refusal, which fred expects as little, is taken for it. In one pipeline nothing gets between the two.
            let pipeline = client.to_client().pipeline();
            let queue = pipeline.with_options(node);
            queue.subscribe(channels).await?;
            queue.ping::<Value>(None).await?;
            pipeline.last::<Value>().await?;
        }
        Ok(())
    }

    /// Subscribes to the sharded channels of all buckets. A command may name channels of one slot only, so there are as
    /// many commands; in one pipeline they take as long as a few.
    async fn listen_to_buckets(&self, client: &SubscriberClient) -> Result<Vec<Shard>, Error> {
        let cluster = client.cached_cluster_state();
        let cluster = cluster.ok_or_else(|| Error::new(ErrorKind::Cluster, "no cluster"))?;
        let mut shards = Vec::<Shard>::new();
        let pipeline = client.to_client().pipeline();
        let queue = pipeline.with_options(&CALL);
        for channel in (0..BUCKETS).map(|bucket| self.channels.of_bucket(bucket)) {
            queue.custom::<Value, _>(ssubscribe(&channel), vec![channel.as_str()]).await?;
            let Some(server) = cluster.get_server(redis_keyslot(channel.as_bytes())) else {
                return Err(Error::new(ErrorKind::Cluster, "a slot that nobody serves"));
            };
            match shards.iter_mut().find(|shard| shard.server == *server) {
                Some(shard) => shard.count += 1,
                None => shards.push(Shard { server: server.clone(), channel, count: 1 }),
            }
        }
        pipeline.all::<Vec<Value>>().await?;
        Ok(shards)
    }
}

/// Not fred's own SSUBSCRIBE, of which it sends one at a time. As a command like any other it has an answer like any
/// other: with RESP2 answers and messages come in one order.
fn ssubscribe(channel: &str) -> CustomCommand {
    let slot = ClusterHash::Custom(redis_keyslot(channel.as_bytes()));
    CustomCommand::new_static("SSUBSCRIBE", slot, false)
}

/// `ssubscribe`, the channel, and how many sharded channels this connection listens to at that server.
fn count(answer: &Value) -> Result<i64, Error> {
    let count = match answer {
        Value::Array(parts) => parts.last().and_then(Value::as_i64),
        _ => None,
    };
    count.ok_or_else(|| Error::new(ErrorKind::Parse, "no answer to SSUBSCRIBE"))
}
