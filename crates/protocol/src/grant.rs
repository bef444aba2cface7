//! A grant: a signed word of the app's backend that a user may watch certain users, sent beside a request.

use std::fmt;

use serde::Serialize;

/// A JWT, opaque here. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Grant(String);

impl Grant {
    /// Takes any text: whoever verifies it says whether it is one.
    pub fn new(token: String) -> Self {
        Self(token)
    }

    /// The token itself, for the one place that verifies it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}
