//! Buckets: users are spread over a fixed number of them, each one hash slot of a Redis Cluster.
//! A bucket's keys can be touched by one script, and its users are vouched for together.

use fred::util::redis_keyslot;
use presence_protocol::UserId;

/// How many buckets there are. All gateways of a deployment must agree, since it is part of every key's name.
pub const BUCKETS: usize = 1024;

/// The bucket of a user: `CLUSTER KEYSLOT <user>` modulo [`BUCKETS`], so that anyone with a Redis at hand can tell it.
pub fn bucket_of(user: &UserId) -> u16 {
    redis_keyslot(user.as_str().as_bytes()) % BUCKETS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_the_redis_key_slot_modulo_their_number() {
        // redis-cli: CLUSTER KEYSLOT foo is 12182.
        assert_eq!(bucket_of(&UserId::new("foo").unwrap()), 12182 % 1024);
    }
}
