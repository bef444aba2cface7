//! What Redis tells, as the store's events: transitions that gateways publish, keys that expire, and whether anything
//! may have been missed. One task per store; it also owns both connections and subscribes again after each fault.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, SubscriberClient};
use fred::error::Error;
use fred::interfaces::{ClientLike, ClusterInterface, EventInterface, PubsubInterface};
use fred::types::config::Server;
use fred::types::{ClusterStateChange, KeyspaceEvent, Message, Value};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, sleep, sleep_until};

use super::RedisOptions;
use super::connect::{Link, nodes};
use super::keys::Keyspace;
use super::reach::Reach;
use super::scripts::decode_event;
use super::startup::turn_on_events;
use crate::store::Event;

/// How often a quiet subscriber is asked whether it still hears: without a question, a dead peer is never noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long to wait before subscribing again when that failed, or before starting a router that gave up.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// What the task hears.
enum Heard {
    /// Something was published.
    Message(Message),
    /// A key expired, any key.
    Key(KeyspaceEvent),
    /// More was told than could be read.
    Missed,
    /// The subscriber has a new connection, or a cluster's servers changed.
    SubscriberBack,
    /// Calls go through a new connection.
    CommandsBack,
    /// Calls are answered again, over the old connection.
    Recovered,
    /// The command client found a cluster's servers changed; the subscriber sees no such answers by itself.
    TopologyChanged,
    /// It is time to subscribe again, or to ask whether the subscription lives.
    Due,
    /// What was owed was sent.
    Paid,
    /// A client gave up.
    RouterEnded,
}

/// The source of a store's events.
pub(super) struct Feed {
    commands: Link<Client>,
    subscriber: Link<SubscriberClient>,
    heard: Receivers,
    keys: Keyspace,
    channel: String,
    expired_channel: String,
    /// In a cluster, every server tells of every message: the one that is listened to.
    teller: Option<Server>,
    reach: Arc<Reach>,
    outlet: Outlet,
    /// What to tell as soon as the subscription stands.
    after_subscribing: Option<Owed>,
    due: Instant,
}

struct Receivers {
    messages: broadcast::Receiver<Message>,
    keys: broadcast::Receiver<KeyspaceEvent>,
    subscriber_back: broadcast::Receiver<Server>,
    subscriber_topology: broadcast::Receiver<Vec<ClusterStateChange>>,
    commands_back: broadcast::Receiver<Server>,
    commands_topology: broadcast::Receiver<Vec<ClusterStateChange>>,
}

impl Feed {
    pub(super) fn new(
        commands: Link<Client>,
        subscriber: Link<SubscriberClient>,
        options: &RedisOptions,
        database: u8,
        reach: Arc<Reach>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let heard = Receivers {
            messages: subscriber.client.message_rx(),
            keys: subscriber.client.keyspace_event_rx(),
            subscriber_back: subscriber.client.reconnect_rx(),
            subscriber_topology: subscriber.client.cluster_change_rx(),
            commands_back: commands.client.reconnect_rx(),
            commands_topology: commands.client.cluster_change_rx(),
        };
        Self {
            commands,
            subscriber,
            heard,
            keys: Keyspace::new(&options.prefix),
            channel: options.channel(),
            expired_channel: format!("__keyevent@{database}__:expired"),
            teller: None,
            reach,
            outlet: Outlet { events, owed: None, dropped: 0 },
            after_subscribing: None,
            due: Instant::now() + CHECK_INTERVAL,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let heard = self.next_event().await;
            self.handle(heard).await;
        }
    }

    /// Subscribes, or makes sure of it: transitions at one server, expired keys at every one that holds keys.
    pub(super) async fn subscribe(&mut self) -> Result<(), Error> {
        let nodes = nodes(&self.subscriber.client);
        self.teller = nodes.first().and_then(|node| node.cluster_node.clone());
        for (place, node) in nodes.iter().enumerate() {
            let mut channels = vec![self.expired_channel.as_str()];
            channels.extend((place == 0).then_some(self.channel.as_str()));
            // Fred waits for no answer to SUBSCRIBE. Answers come in order, so that of a PING behind it tells; and a
            // refusal, which fred expects as little, is taken for it. In one pipeline nothing gets between the two.
            let pipeline = self.subscriber.client.to_client().pipeline();
            let queue = pipeline.with_options(node);
            queue.subscribe(channels).await?;
            queue.ping::<Value>(None).await?;
            pipeline.last::<Value>().await?;
        }
        Ok(())
    }

    async fn next_event(&mut self) -> Heard {
        let heard = &mut self.heard;
        tokio::select! {
            biased;
            () = self.commands.ended() => Heard::RouterEnded,
            () = self.subscriber.ended() => Heard::RouterEnded,
            // Faults before news: what follows them is to be read in their light.
            _ = told(&mut heard.commands_back) => Heard::CommandsBack,
            _ = told(&mut heard.commands_topology) => Heard::TopologyChanged,
            _ = told(&mut heard.subscriber_back) => Heard::SubscriberBack,
            _ = told(&mut heard.subscriber_topology) => Heard::SubscriberBack,
            () = self.reach.recovered() => Heard::Recovered,
            () = sleep_until(self.due) => Heard::Due,
            () = self.outlet.pay() => Heard::Paid,
            message = told(&mut heard.messages) => message.map_or(Heard::Missed, Heard::Message),
            key = told(&mut heard.keys) => key.map_or(Heard::Missed, Heard::Key),
        }
    }

    async fn handle(&mut self, heard: Heard) {
        match heard {
            Heard::Message(message) => self.publish(&message),
            Heard::Key(event) => {
                if let Some(user) = self.keys.user_of(event.key.as_bytes()) {
                    self.outlet.send(Event::Expired(user));
                }
            }
            Heard::Missed => self.outlet.owe(Owed::Gap),
            Heard::SubscriberBack => self.heal(Some(Owed::Gap)).await,
            Heard::CommandsBack => {
                self.reach.reconnected();
                self.heal(Some(Owed::Reconnected)).await;
            }
            Heard::Recovered => self.heal(Some(Owed::Reconnected)).await,
            Heard::TopologyChanged => {
                // Its success is announced on the subscriber's own channel, which subscribes again.
                if let Err(error) = self.subscriber.client.sync_cluster().await {
                    tracing::debug!(%error, "the subscriber could not follow the cluster");
                }
            }
            Heard::Due => self.heal(None).await,
            Heard::Paid => {}
            Heard::RouterEnded => self.restart().await,
        }
    }

    fn publish(&mut self, message: &Message) {
        let elsewhere = self.teller.as_ref().is_some_and(|teller| *teller != message.server);
        if elsewhere || *message.channel != *self.channel {
            return;
        }
        match decode_event(message.value.as_bytes().unwrap_or_default()) {
            Ok(event) => self.outlet.send(event),
            Err(error) => {
                tracing::warn!(%error, "a message about users is not understood; is another version at work?");
                self.outlet.owe(Owed::Gap);
            }
        }
    }

    /// Subscribes again, and tells what is owed once that stands; tries again soon when it does not.
    async fn heal(&mut self, owed: Option<Owed>) {
        self.after_subscribing = self.after_subscribing.max(owed);
        match self.restore().await {
            Ok(()) => {
                if let Some(owed) = self.after_subscribing.take() {
                    self.outlet.owe(owed);
                }
                self.due = Instant::now() + CHECK_INTERVAL;
            }
            Err(reason) => {
                tracing::debug!(reason, "Redis cannot be listened to");
                // Whatever is published meanwhile is missed.
                self.after_subscribing = self.after_subscribing.max(Some(Owed::Gap));
                self.due = Instant::now() + RETRY_DELAY;
            }
        }
    }

    async fn restore(&mut self) -> Result<(), String> {
        if self.after_subscribing.is_some() {
            // A server that has restarted, or is new in a cluster, does not tell of expired keys by itself.
            turn_on_events(&self.commands.client).await?;
        }
        self.subscribe().await.map_err(|error| error.to_string())
    }

    async fn restart(&mut self) {
        tracing::warn!("the Redis client gave up, and is started again");
        sleep(RETRY_DELAY).await;
        self.commands.restart_if_ended();
        self.subscriber.restart_if_ended();
    }
}

/// The next of a kind of news; none when some were lost.
async fn told<T: Clone>(receiver: &mut broadcast::Receiver<T>) -> Option<T> {
    match receiver.recv().await {
        Ok(news) => Some(news),
        Err(RecvError::Lagged(_)) => None,
        // Fred closes them only when it was told to quit, and nobody does.
        Err(RecvError::Closed) => pending().await,
    }
}

/// What must be told sooner or later; the later one includes the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Gap,
    Reconnected,
}

/// The store's event queue. What does not fit is dropped and made good by a gap, as soon as there is room.
struct Outlet {
    events: mpsc::Sender<Event>,
    owed: Option<Owed>,
    dropped: u64,
}

impl Outlet {
    fn send(&mut self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            self.dropped += 1;
            self.owe(Owed::Gap);
        }
    }

    fn owe(&mut self, owed: Owed) {
        self.owed = self.owed.max(Some(owed));
    }

    /// Waits for room and sends what is owed; for ever when nothing is.
    async fn pay(&mut self) {
        let Some(owed) = self.owed else { return pending().await };
        // When nobody listens any more, nothing is owed.
        if let Ok(room) = self.events.reserve().await {
            room.send(match owed {
                Owed::Gap => Event::Gap,
                Owed::Reconnected => Event::Reconnected,
            });
        }
        self.owed = None;
        if self.dropped > 0 {
            tracing::warn!(dropped = self.dropped, "events were dropped since the queue was full");
            self.dropped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_made_good_by_one_gap_as_soon_as_there_is_room() {
        let (events, mut received) = mpsc::channel(2);
        let mut outlet = Outlet { events, owed: None, dropped: 0 };
        for _ in 0..5 {
            outlet.send(Event::Transitions(Vec::new()));
        }
        assert_eq!(outlet.dropped, 3);
        assert!(matches!(received.recv().await, Some(Event::Transitions(_))));
        outlet.pay().await;
        assert!(matches!(received.recv().await, Some(Event::Transitions(_))));
        assert!(matches!(received.recv().await, Some(Event::Gap)));
        assert!(outlet.owed.is_none());
    }
}
