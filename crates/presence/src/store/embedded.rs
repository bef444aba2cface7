//! The store inside this process: nothing to install, for one machine. Every gateway that is opened on one hub shares
//! its users, as gateways share a Redis; a deployment with the embedded store has just one.

mod orders;
mod record;

use std::collections::HashMap;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use presence_protocol::UserId;
use tokio::sync::mpsc;
use tokio::time::Instant;

use orders::Orders;
use record::Record;

use super::bucket::{BUCKETS, bucket_of};
use super::notice::{Dated, Notice, Order};
use super::{
    Claim, EVENT_QUEUE_LEN, Event, Lease, LeaseState, Opened, Pulse, Standing, Store, StoreError,
};
use crate::config::Config;

/// Presence in this process's memory.
pub struct EmbeddedHub(Arc<Hub>);

impl EmbeddedHub {
    /// An empty store.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Hub {
            config,
            started: Instant::now(),
            started_at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            next_swept: AtomicUsize::new(0),
            listeners: Mutex::default(),
            orders: Orders::default(),
        }))
    }

    /// Opens the store for one gateway.
    pub fn open(&self, gateway: &str) -> Opened {
        let (sender, events) = mpsc::channel(EVENT_QUEUE_LEN);
        self.0.listeners.lock().push(Listener { sender, missed: false });
        let store = EmbeddedStore { hub: self.0.clone(), gateway: gateway.into() };
        Opened { store: Arc::new(store), events }
    }
}

/// A moment by the store's clock, in µs since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64);

impl Moment {
    fn as_us(self) -> u64 {
        self.0
    }

    fn as_ms(self) -> u64 {
        self.0 / 1000
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, rest: Duration) -> Self {
        Self(self.0 + rest.as_micros() as u64)
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, rest: Duration) -> Self {
        Self(self.0.saturating_sub(rest.as_micros() as u64))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The moment of a call, and the times that its rules need.
struct Times {
    now: Moment,
    ttl: Duration,
    grace: Duration,
}

/// The users of one bucket. Boxed, since a table that has just grown is half empty, and a record is large.
type Bucket = HashMap<UserId, Box<Record>>;

struct Hub {
    config: Config,
    started: Instant,
    started_at: Duration,
    buckets: Box<[Mutex<Bucket>]>,
    /// The bucket that is looked through next for users to forget.
    next_swept: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
    orders: Orders,
}

/// A gateway's event queue. When it was full, the gateway is told of the gap as soon as there is room.
struct Listener {
    sender: mpsc::Sender<Event>,
    missed: bool,
}

impl Hub {
    fn times(&self) -> Times {
        let now = self.started_at + self.started.elapsed();
        let Config { ttl, grace, .. } = self.config;
        Times { now: Moment(now.as_micros() as u64), ttl, grace }
    }

    /// Since when this store remembers.
    fn born(&self) -> Moment {
        Moment(self.started_at.as_micros() as u64)
    }

    fn bucket(&self, user: &UserId) -> &Mutex<Bucket> {
        &self.buckets[usize::from(bucket_of(user))]
    }

    /// The same, with a fresh record of the user if it was last seen too long ago: who is here and invisible since is kept.
    fn remembered(&self, user: &UserId) -> MutexGuard<'_, Bucket> {
        let mut bucket = self.bucket(user).lock();
        if let Some(record) = bucket.get_mut(user)
            && record.is_forgotten(self.oldest())
        {
            record.forget(self.born());
        }
        bucket
    }

    fn publish(&self, news: &[Standing]) {
        if news.is_empty() {
            return;
        }
        let news = || Event::Transitions(news.to_vec());
        self.listeners.lock().retain_mut(|listener| listener.tell(news()));
    }

    /// Tells listeners of a gap who could not be told when it arose.
    fn tell_of_gaps(&self) {
        for listener in self.listeners.lock().iter_mut().filter(|listener| listener.missed) {
            listener.missed = listener.sender.try_send(Event::Gap).is_err();
        }
    }

    /// Whom the store remembers who have changed since then, or live.
    fn oldest(&self) -> Moment {
        self.times().now - self.config.last_seen
    }

    /// Makes room that users of one bucket take who are not remembered any more; of each, once in so many calls.
    fn sweep(&self) {
        let bucket = self.next_swept.fetch_add(1, Relaxed) % BUCKETS;
        let oldest = self.oldest();
        self.buckets[bucket]
            .lock()
            .retain(|_, record| !record.is_left() || !record.is_forgotten(oldest));
    }
}

impl Listener {
    /// False when the gateway is gone.
    fn tell(&mut self, event: Event) -> bool {
        match self.sender.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.missed = true;
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// One gateway's access to the hub.
struct EmbeddedStore {
    hub: Arc<Hub>,
    gateway: Arc<str>,
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn apply(&self, claims: Vec<Claim>) -> Result<(), StoreError> {
        let mut news = Vec::new();
        for claim in &claims {
            let mut bucket = self.hub.remembered(&claim.user);
            let new = || Box::new(Record::new(self.hub.born()));
            let record = bucket.entry(claim.user.clone()).or_insert_with(new);
            news.extend(record.apply(&self.gateway, claim, &self.hub.times()));
        }
        self.hub.publish(&news);
        Ok(())
    }

    async fn refresh(&self, users: Vec<UserId>) -> Result<Vec<UserId>, StoreError> {
        let times = self.hub.times();
        let known = |user: &UserId| {
            let mut bucket = self.hub.bucket(user).lock();
            bucket.get_mut(user).is_some_and(|record| record.refresh(&self.gateway, &times))
        };
        Ok(users.into_iter().filter(|user| !known(user)).collect())
    }

    async fn snapshot(&self, users: Vec<UserId>) -> Result<Vec<Standing>, StoreError> {
        let times = self.hub.times();
        let mut news = Vec::new();
        let mut stand = |user: UserId| {
            let mut bucket = self.hub.remembered(&user);
            let Some(record) = bucket.get_mut(&user) else {
                return Record::new(self.hub.born()).standing(user, times.now);
            };
            let settled = record.settle(&user, &times);
            news.extend(settled.clone());
            settled.unwrap_or_else(|| record.standing(user, times.now))
        };
        let standings = users.into_iter().map(&mut stand).collect();
        self.hub.publish(&news);
        Ok(standings)
    }

    async fn outdo(&self, shown: Vec<(UserId, u64)>) -> Result<(), StoreError> {
        let now = self.hub.times().now;
        let mut news = Vec::new();
        for (user, version) in shown {
            let mut bucket = self.hub.bucket(&user).lock();
            news.extend(bucket.get_mut(&user).and_then(|record| record.outdo(&user, version, now)));
        }
        self.hub.publish(&news);
        Ok(())
    }

    async fn tell(&self, notice: Notice) -> Result<(), StoreError> {
        for listener in self.hub.listeners.lock().iter_mut() {
            listener.tell(Event::Notice(notice.clone()));
        }
        Ok(())
    }

    async fn record(&self, orders: Vec<(Order, Option<u64>)>) -> Result<u64, StoreError> {
        let now = self.hub.times().now;
        let oldest = now - self.hub.config.orders_kept;
        Ok(self.hub.orders.record(orders, now.as_ms() / 1000, oldest.as_ms() / 1000))
    }

    async fn orders(&self, from_s: u64, skip: usize) -> Result<Vec<Dated>, StoreError> {
        Ok(self.hub.orders.since(from_s, skip))
    }

    async fn release(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn renew(&self) -> Result<Pulse, StoreError> {
        self.hub.tell_of_gaps();
        self.hub.sweep();
        Ok(Pulse::default())
    }

    /// Nobody needs one who lives and dies with the store.
    fn leases(&self) -> Vec<Lease> {
        vec![Lease {
            gateway: self.gateway.to_string(),
            age: Duration::ZERO,
            held_for: self.hub.started.elapsed(),
            state: LeaseState::Good,
        }]
    }

    fn gateway(&self) -> &str {
        &self.gateway
    }

    fn now_ms(&self) -> u64 {
        self.hub.times().now.as_ms()
    }
}
