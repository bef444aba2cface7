//! The names of users' keys, and whose key one is.

use presence_protocol::UserId;

use crate::store::bucket::bucket_of;

/// The keys that hold a user's presence, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserKeys {
    /// Exists, with a TTL, while the user is online: a hash from gateway to what it contributes.
    pub user: String,
    /// What was last known of the user, and when it was last seen.
    pub seen: String,
}

/// The names of a user's keys.
pub fn keys_of(prefix: &str, user: &UserId) -> UserKeys {
    let bucket = bucket_of(user);
    UserKeys {
        user: format!("{prefix}:{{{bucket}}}:user:{user}"),
        seen: format!("{prefix}:{{{bucket}}}:seen:{user}"),
    }
}

/// The keys of users below one prefix: `<prefix>:{b}:user:<user>`.
#[derive(Clone)]
pub(super) struct Keyspace {
    /// Up to the bucket.
    start: Box<str>,
}

impl Keyspace {
    pub(super) fn new(prefix: &str) -> Self {
        Self { start: format!("{prefix}:{{").into() }
    }

    /// The key that exists while the user is online.
    pub(super) fn of(&self, user: &UserId) -> String {
        format!("{}{}}}:user:{user}", self.start, bucket_of(user))
    }

    /// Whose key this is; none for any other key.
    pub(super) fn user_of(&self, key: &[u8]) -> Option<UserId> {
        let rest = std::str::from_utf8(key.strip_prefix(self.start.as_bytes())?).ok()?;
        let (bucket, user) = rest.split_once("}:user:")?;
        let user = UserId::new(user).ok()?;
        (bucket.parse() == Ok(bucket_of(&user))).then_some(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_keys_are_those_that_the_documentation_names() {
        let user = UserId::new("foo").unwrap();
        let expected = UserKeys {
            user: "presence:{918}:user:foo".to_owned(),
            seen: "presence:{918}:seen:foo".to_owned(),
        };
        assert_eq!(keys_of("presence", &user), expected);
    }

    #[test]
    fn only_the_keys_of_users_are_told_from_others() {
        let keys = Keyspace::new("p");
        for user in ["foo", "}:user:{", "a b\nc", "å"] {
            let user = UserId::new(user).unwrap();
            let named = keys_of("p", &user);
            assert_eq!(keys.of(&user), named.user);
            assert_eq!(keys.user_of(named.user.as_bytes()), Some(user), "{}", named.user);
            assert_eq!(keys.user_of(named.seen.as_bytes()), None);
        }
        for other in
            ["foo", "q:{918}:user:foo", "p:{917}:user:foo", "p:{918}:gateways", "p:{918}:user:"]
        {
            assert_eq!(keys.user_of(other.as_bytes()), None, "{other}");
        }
    }
}
