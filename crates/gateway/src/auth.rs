//! Who a client is: from a signed token, or by its own word where authentication is off.
//!
//! Verifying is synchronous and does no I/O; only `keepers` reads files and calls URLs, in tasks of its own, to keep the
//! keys fresh. Nothing here keeps state per connection, and no log line or error shows a token or a key.

mod api_key;
mod error;
mod grant;
mod keepers;
mod keys;
mod metrics;
mod permission;
mod token;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jsonwebtoken::DecodingKey;
use presence_protocol::UserId;
use thiserror::Error;

use crate::settings::{Auth, KeySources, Settings, TokenRules};
use keys::{Asked, Freshness, Key, KeyRing, Source};
use token::Verifier;

pub use api_key::ApiKeys;
pub use error::{AuthError, PEER_MESSAGE};
pub use grant::GrantError;
pub(crate) use keepers::Keepers;
pub(crate) use metrics::AuthMetrics;
pub use permission::Permission;
pub use token::{SignError, sign};

/// What stands behind `Bearer` in a header `Authorization`; the scheme's case is of no matter (RFC 9110, 11.1).
pub(crate) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// The longest token to sign in with that is looked at, in bytes: as much as a frame may have by default. A grant may be as
/// long as the frame that brings it.
const TOKEN_LEN_MAX: usize = 64 << 10;

/// How long who comes with a token of an unknown key is kept waiting for fresh keys.
const FRESH_KEYS_WAIT: Duration = Duration::from_secs(2);

/// Tells who a client is; made once at start and shared by all connections.
pub struct Authenticator(Mode);

/// Someone who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who it is.
    pub user: UserId,
    /// From when on the token is no longer accepted: its `exp` and the leeway, by the wall clock.
    /// `None` without a token, or where `exp` lies beyond what the clock can express.
    pub expires_at: Option<SystemTime>,
    /// Whom the user may watch.
    pub may_watch: Permission,
    /// When the token was issued, in seconds since the Unix epoch; 0 when it does not say.
    pub issued_at_s: u64,
}

/// The keys of the configuration cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A secret that the library refuses.
    #[error("the configured secret cannot verify tokens: {0}")]
    Secret(String),
    /// The file with public keys is missing, or something else than that.
    #[error("jwt_public_key_file: {0}")]
    File(String),
}

enum Mode {
    Open,
    Token { keys: Arc<KeyRing>, verifier: Box<Verifier> },
}

impl Authenticator {
    /// Takes the configured secrets and reads the file with public keys. Those of a URL come by the keepers.
    pub fn from_settings(settings: &Settings) -> Result<Self, KeyError> {
        match &settings.auth {
            Auth::None => Ok(Self(Mode::Open)),
            Auth::Jwt { keys, rules } => Self::with_keys(keys, rules),
        }
    }

    fn with_keys(sources: &KeySources, rules: &TokenRules) -> Result<Self, KeyError> {
        let mut keys = KeyRing::default();
        keys.freshness = sources.jwks_url.is_some().then(Arc::default);
        let secrets = sources.secrets.iter().map(|secret| {
            let key = DecodingKey::from_secret(secret.expose().as_bytes());
            let key = key.map_err(|error| KeyError::Secret(error.to_string()))?;
            Key::new(key, None).map_err(|error| KeyError::Secret(error.to_string()))
        });
        keys.replace(Source::Secret, secrets.collect::<Result<_, _>>()?);
        if let Some(path) = &sources.public_key_file {
            let read = keepers::read_keys(path).map_err(KeyError::File)?;
            keys.replace(Source::File, read);
        }
        Ok(Self(Mode::Token { keys: Arc::new(keys), verifier: Box::new(Verifier::new(rules)) }))
    }

    /// Whether a client must bring a token; without, it says who it is.
    pub fn wants_token(&self) -> bool {
        matches!(self.0, Mode::Token { .. })
    }

    /// Verifies a token with the keys of now: its signature, `exp` and `sub` (the user), which it must have, `nbf`, `iss`
    /// and `aud`.
    pub fn authenticate(&self, token: &str) -> Result<Identity, AuthError> {
        if token.len() > TOKEN_LEN_MAX {
            return Err(AuthError::TooLong);
        }
        let identity = self.verify(token)?;
        if grant::is_grant(token) { Err(AuthError::Grant) } else { Ok(identity) }
    }

    fn verify(&self, token: &str) -> Result<Identity, AuthError> {
        match &self.0 {
            Mode::Open => Err(AuthError::TokenNotExpected),
            Mode::Token { keys, verifier } => verifier.verify(token, keys),
        }
    }

    /// The same; but where its key is not known, waits a little for fresh keys, so that nobody is refused who comes with
    /// a new key before we have seen it.
    pub async fn admit(&self, token: &str) -> Result<Identity, AuthError> {
        let verdict = self.authenticate(token);
        let wants = verdict.as_ref().is_err_and(AuthError::wants_fresh_keys);
        let Some(freshness) = self.freshness().filter(|_| wants) else { return verdict };
        match freshness.refreshed_within(FRESH_KEYS_WAIT).await {
            Asked::Answered => self.authenticate(token),
            Asked::TooSoon => verdict,
            Asked::Unanswered => Err(AuthError::KeysOutOfReach),
        }
    }

    /// Takes a client's own word, which only counts where authentication is off.
    pub fn believe(&self, user: UserId) -> Result<Identity, AuthError> {
        match &self.0 {
            Mode::Open => Ok(Identity {
                user,
                expires_at: None,
                may_watch: Permission::Everyone,
                issued_at_s: 0,
            }),
            Mode::Token { .. } => Err(AuthError::TokenRequired),
        }
    }

    /// What the start says of the keys: their algorithms and names, by where they come from.
    pub(crate) fn described_keys(&self) -> String {
        self.keys().map_or_else(|| "none".to_owned(), ToString::to_string)
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        match &self.0 {
            Mode::Open => None,
            Mode::Token { keys, .. } => Some(keys),
        }
    }

    fn freshness(&self) -> Option<&Freshness> {
        self.keys()?.freshness.as_deref()
    }
}
