//! The channels on which gateways tell each other what changed: one for all users, or one for each bucket.
//!
//! In a cluster, `PUBLISH` goes to every server, so that one channel for all makes each of them carry what happens on
//! all. A sharded channel is served by the servers of its slot only, and its slot is that of its bucket's keys.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How transitions are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PubSub {
    /// All on one channel, `<prefix>:events`, which in a cluster goes through every server.
    Plain,
    /// Each bucket's on a sharded channel of its own, `<prefix>:{b}:events`: in a cluster of Redis 7.0 or later.
    Sharded,
}

/// The channels of one deployment. What is published where may change when a cluster is upgraded under us.
pub(super) struct Channels {
    prefix: String,
    sharded: AtomicBool,
}

/// Where to publish, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) pubsub: PubSub,
    pub(super) channel: String,
}

impl Address {
    pub(super) fn command(&self) -> &'static str {
        match self.pubsub {
            PubSub::Plain => "PUBLISH",
            PubSub::Sharded => "SPUBLISH",
        }
    }
}

impl Channels {
    pub(super) fn new(prefix: &str, pubsub: PubSub) -> Self {
        Self { prefix: prefix.to_owned(), sharded: AtomicBool::new(pubsub == PubSub::Sharded) }
    }

    /// The one that every gateway listens to, since some may have to publish there.
    pub(super) fn shared(&self) -> String {
        format!("{}:events", self.prefix)
    }

    /// The sharded one of a bucket.
    pub(super) fn of_bucket(&self, bucket: usize) -> String {
        format!("{}:{{{bucket}}}:events", self.prefix)
    }

    /// Whether a channel is the sharded one of a bucket.
    pub(super) fn is_of_bucket(&self, channel: &str) -> bool {
        let rest = channel.strip_prefix(&self.prefix).and_then(|rest| rest.strip_prefix(":{"));
        rest.and_then(|rest| rest.strip_suffix("}:events")).is_some()
    }

    pub(super) fn pubsub(&self) -> PubSub {
        if self.sharded.load(Relaxed) { PubSub::Sharded } else { PubSub::Plain }
    }

    pub(super) fn switch_to(&self, pubsub: PubSub) {
        self.sharded.store(pubsub == PubSub::Sharded, Relaxed);
    }

    /// Where news of users of a bucket are published.
    pub(super) fn address(&self, bucket: u16) -> Address {
        let pubsub = self.pubsub();
        let channel = match pubsub {
            PubSub::Plain => self.shared(),
            PubSub::Sharded => self.of_bucket(usize::from(bucket)),
        };
        Address { pubsub, channel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_go_to_the_channel_of_the_bucket_only_when_that_is_sharded() {
        let channels = Channels::new("p", PubSub::Plain);
        let address = |command, channel| (command, String::from(channel));
        let found = || {
            let address = channels.address(7);
            (address.command(), address.channel)
        };
        assert_eq!(found(), address("PUBLISH", "p:events"));
        channels.switch_to(PubSub::Sharded);
        assert_eq!(found(), address("SPUBLISH", "p:{7}:events"));
        assert!(channels.is_of_bucket("p:{7}:events"));
        for other in ["p:events", "q:{7}:events", "p:{7}:user:x", "pp:{7}:events"] {
            assert!(!channels.is_of_bucket(other), "{other}");
        }
    }
}
