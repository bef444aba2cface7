//! The keys that open the HTTP calls under `/v1` to the chat app's backend.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::settings::Secret;

/// Keys to compare with. All are, always: how long that takes tells nothing but their lengths.
#[derive(Clone, Debug, Default)]
pub struct ApiKeys(Vec<Secret>);

impl ApiKeys {
    /// Compares with these keys from now on.
    pub fn new(keys: Vec<Secret>) -> Self {
        Self(keys)
    }

    /// Whether there are none, so that nobody can be let in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which of the keys a caller's is, counted from 1.
    pub fn find(&self, given: &str) -> Option<u32> {
        let mut found = 0;
        for (number, key) in (1..).zip(&self.0) {
            let same: Choice = key.expose().as_bytes().ct_eq(given.as_bytes());
            found.conditional_assign(&number, same);
        }
        (found > 0).then_some(found)
    }
}
