//! The key that opens the HTTP calls under `/v1` to the chat app's backend.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::settings::Secret;

/// A key to compare with; how long a comparison takes tells nothing but the key's length.
#[derive(Clone)]
pub struct ApiKey(Secret);

impl ApiKey {
    /// Compares with this key from now on.
    pub fn new(key: Secret) -> Self {
        Self(key)
    }

    /// Whether a caller's key is this one.
    pub fn matches(&self, given: &str) -> bool {
        self.0.expose().as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
