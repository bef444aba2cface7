//! What Redis tells, as the store's events: transitions that gateways publish, keys that expire, and whether anything
//! may have been missed. One task per store; it also owns both connections and subscribes again after each fault.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, SubscriberClient};
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, ClusterInterface, EventInterface};
use fred::types::config::Server;
use fred::types::{ClusterStateChange, KeyspaceEvent, Message};
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connect::{Link, replace_connection};
use super::keys::Keyspace;
use super::lease::Leases;
use super::outlet::{Outlet, Owed};
use super::reach::Reach;
use super::scripts::decode_event;
use super::startup::{pubsub_of, turn_on_events};
use super::subscription::{Hearing, Subscription};
use crate::store::Event;

/// How often a subscriber is asked whether it still hears: without a question, a dead peer is never noticed, nor, where
/// channels are sharded, that a slot was moved. With the time for an answer, within five seconds.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How often everything is subscribed to again, whatever the answers: a backstop. Each waits up to a fifth longer.
const RENEW_INTERVAL: Duration = Duration::from_mins(1);

/// How long a look at a cluster's servers may take. Fred itself would wait for as long as one of them is away.
const SYNC_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait before subscribing again when that failed, or before starting a router that gave up: the former twice
/// as long each time.
const RETRY_DELAY: Duration = Duration::from_millis(250);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// Without a subscription for so long, clients are to know.
const DEAF_AFTER: Duration = Duration::from_secs(3);

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
    /// It is time to ask whether the subscription lives, or to subscribe again.
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
    subscription: Subscription,
    reach: Arc<Reach>,
    leases: Arc<Leases>,
    outlet: Outlet,
    /// What to tell as soon as the subscription stands.
    after_subscribing: Option<Owed>,
    /// Since when it does not stand, and how long to wait before the next attempt.
    failing: Option<(Instant, Duration)>,
    due: Instant,
    renewal_due: Instant,
}

struct Receivers {
    messages: broadcast::Receiver<Message>,
    keys: broadcast::Receiver<KeyspaceEvent>,
    subscriber_back: broadcast::Receiver<Server>,
    subscriber_topology: broadcast::Receiver<Vec<ClusterStateChange>>,
    subscriber_errors: broadcast::Receiver<(Error, Option<Server>)>,
    commands_back: broadcast::Receiver<Server>,
    commands_topology: broadcast::Receiver<Vec<ClusterStateChange>>,
}

impl Receivers {
    /// Why the subscriber lost a connection last, or could not make one.
    fn latest_subscriber_error(&mut self) -> Option<String> {
        let errors = std::iter::from_fn(|| match self.subscriber_errors.try_recv() {
            Ok((error, _)) => Some(Some(error.to_string())),
            Err(TryRecvError::Lagged(_)) => Some(None),
            Err(_) => None,
        });
        errors.flatten().last()
    }
}

/// Why the subscription does not stand.
struct Unheard {
    reason: String,
    /// Whether that is since a server of a cluster does not answer.
    is_silent: bool,
}

impl From<String> for Unheard {
    fn from(reason: String) -> Self {
        Self { reason, is_silent: false }
    }
}

impl Feed {
    pub(super) fn new(
        commands: Link<Client>,
        subscriber: Link<SubscriberClient>,
        keys: Keyspace,
        subscription: Subscription,
        reach: Arc<Reach>,
        leases: Arc<Leases>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let heard = Receivers {
            messages: subscriber.client.message_rx(),
            keys: subscriber.client.keyspace_event_rx(),
            subscriber_back: subscriber.client.reconnect_rx(),
            subscriber_topology: subscriber.client.cluster_change_rx(),
            subscriber_errors: subscriber.client.error_rx(),
            commands_back: commands.client.reconnect_rx(),
            commands_topology: commands.client.cluster_change_rx(),
        };
        Self {
            commands,
            subscriber,
            heard,
            keys,
            subscription,
            reach,
            leases,
            outlet: Outlet::new(events),
            after_subscribing: None,
            failing: None,
            due: Instant::now() + CHECK_INTERVAL,
            renewal_due: Instant::now() + RENEW_INTERVAL,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let heard = self.next_event().await;
            self.handle(heard).await;
        }
    }

    /// Subscribes for the first time.
    pub(super) async fn subscribe(&mut self) -> Result<(), Error> {
        self.subscription.renew(&self.subscriber.client).await.map(drop)
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
            // It may be back at once each time that it is hung up on for subscribing.
            Heard::SubscriberBack if self.failing.is_some() => {
                self.owe_after_subscribing(Owed::Gap);
            }
            Heard::SubscriberBack | Heard::TopologyChanged => self.heal(Some(Owed::Gap)).await,
            Heard::CommandsBack => {
                // In a cluster each server is one that is back.
                while is_more(&self.heard.commands_back.try_recv()) {}
                self.reach.reconnected();
                self.failing = self.failing.map(|(since, _)| (since, RETRY_DELAY));
                self.heal(Some(Owed::Reconnected)).await;
            }
            Heard::Recovered => self.heal(Some(Owed::Reconnected)).await,
            Heard::Due => self.heal(None).await,
            Heard::Paid => {}
            Heard::RouterEnded => self.restart().await,
        }
    }

    fn publish(&mut self, message: &Message) {
        if !self.subscription.is_news(message) {
            return;
        }
        match decode_event(message.value.as_bytes().unwrap_or_default(), self.leases.now_ms()) {
            Ok(event) => self.outlet.send(event),
            Err(error) => {
                tracing::warn!(%error, "a message about users is not understood; is another version at work?");
                self.outlet.owe(Owed::Gap);
            }
        }
    }

    /// Makes sure of the subscription, and tells what is owed once it stands; tries again soon when it does not.
    async fn heal(&mut self, owed: Option<Owed>) {
        self.after_subscribing = self.after_subscribing.max(owed);
        match self.restore().await {
            Ok(()) => {
                if let Some(owed) = self.after_subscribing.take() {
                    self.outlet.owe(owed);
                }
                self.failing = None;
                if self.reach.is_deaf() {
                    self.reach.set_deaf(false);
                    tracing::info!("Redis can be listened to again");
                }
                self.due = Instant::now() + CHECK_INTERVAL;
            }
            Err(unheard) => self.retry_later(unheard),
        }
    }

    fn retry_later(&mut self, Unheard { reason, is_silent }: Unheard) {
        // Whatever is published meanwhile is missed.
        self.owe_after_subscribing(Owed::Gap);
        let now = Instant::now();
        let (since, delay) = self.failing.unwrap_or((now, RETRY_DELAY));
        // While no calls are answered, that is what clients are told of.
        let is_told_anyhow = self.reach.is_down();
        let since = if is_told_anyhow { now } else { since };
        let is_deaf = since.elapsed() >= DEAF_AFTER || is_silent && !is_told_anyhow;
        self.failing = Some((since, RETRY_DELAY_MAX.min(delay * 2)));
        self.due = now + delay;
        tracing::debug!(reason, "Redis cannot be listened to");
        if is_deaf && !self.reach.is_deaf() {
            let reason = self.heard.latest_subscriber_error().unwrap_or(reason);
            tracing::warn!(
                reason,
                "Redis cannot be listened to: what changes is not heard until that is possible again"
            );
            self.reach.set_deaf(true);
            self.outlet.owe(Owed::Gap);
        }
    }

    fn owe_after_subscribing(&mut self, owed: Owed) {
        self.after_subscribing = self.after_subscribing.max(Some(owed));
    }

    /// In quiet times a question to each server; with any doubt, everything again.
    async fn restore(&mut self) -> Result<(), Unheard> {
        if self.after_subscribing.is_none() && Instant::now() < self.renewal_due {
            let asked = Instant::now();
            let hearing = self.subscription.check(&self.subscriber.client).await;
            if self.answered(hearing, asked).await? == Hearing::Whole {
                return Ok(());
            }
            self.after_subscribing = Some(Owed::Gap);
        }
        self.follow_cluster().await?;
        // A server that has restarted, or is new in a cluster, does not tell of expired keys by itself.
        turn_on_events(&self.commands.client).await?;
        self.subscription.switch_to(pubsub_of(&self.commands.client).await?);
        let asked = Instant::now();
        let hearing = self.subscription.renew(&self.subscriber.client).await;
        if self.answered(hearing, asked).await? == Hearing::Broken {
            self.after_subscribing = self.after_subscribing.max(Some(Owed::Gap));
        }
        self.renewal_due = Instant::now() + RENEW_INTERVAL.mul_f64(1.0 + 0.2 * fastrand::f64());
        Ok(())
    }

    /// A subscriber that is not answered gets another connection.
    async fn answered(
        &self,
        hearing: Result<Hearing, Error>,
        asked: Instant,
    ) -> Result<Hearing, Unheard> {
        let is_late = hearing.as_ref().is_err_and(|error| *error.kind() == ErrorKind::Timeout);
        if is_late {
            replace_connection(&self.subscriber.client).await;
        }
        // A lone server that hangs is told of by calls. Where these are answered it was the connection, and is mended now; or
        // it was this process that was stopped.
        let is_cluster = self.commands.client.is_clustered();
        let is_silent = is_late && is_cluster && !self.reach.was_stopped_since(asked);
        hearing.map_err(|error| Unheard { reason: error.to_string(), is_silent })
    }

    /// Makes both clients look at which servers a cluster has now.
    async fn follow_cluster(&mut self) -> Result<(), String> {
        if !self.commands.client.is_clustered() {
            return Ok(());
        }
        let looks = async {
            tokio::try_join!(
                self.commands.client.sync_cluster(),
                self.subscriber.client.sync_cluster()
            )
        };
        let looked = timeout(SYNC_TIMEOUT, looks).await;
        looked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.forget_own_looks();
        Ok(())
    }

    /// Fred announces each look as a change, and what comes next is in its light anyhow. A new connection of the
    /// subscriber is one of which messages may have been missed.
    fn forget_own_looks(&mut self) {
        let heard = &mut self.heard;
        while is_more(&heard.commands_topology.try_recv()) {}
        while is_more(&heard.subscriber_topology.try_recv()) {}
        while is_more(&heard.subscriber_back.try_recv()) {
            self.after_subscribing = self.after_subscribing.max(Some(Owed::Gap));
        }
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

fn is_more<T>(received: &Result<T, TryRecvError>) -> bool {
    matches!(received, Ok(_) | Err(TryRecvError::Lagged(_)))
}
