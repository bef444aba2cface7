//! Who a client is: from a signed token, or by its own word where authentication is off.
//!
//! Pure and synchronous: nothing here awaits, logs or keeps state per connection.
//! Which rule a token broke is for our log only; a peer is told [`PEER_MESSAGE`] and no more, so
//! that it learns nothing by trying.

mod api_key;
mod grant;
mod permission;
mod token;

#[cfg(test)]
mod tests;

use std::time::SystemTime;

use jsonwebtoken::{DecodingKey, Validation};
use presence_protocol::UserId;
use thiserror::Error;

use crate::settings::{Auth, Settings};

pub use api_key::ApiKeys;
pub use grant::GrantError;
pub use permission::Permission;
pub use token::{LEEWAY, SignError, sign};

/// All that a peer is told of a token that was refused.
pub const PEER_MESSAGE: &str = "token not valid";

/// Tells who a client is; made once at start and shared by all connections.
pub struct Authenticator(Mode);

/// Someone who may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who it is.
    pub user: UserId,
    /// From when on the token is no longer accepted: its `exp` and [`LEEWAY`], by the wall clock.
    /// `None` without a token, or where `exp` lies beyond what the clock can express.
    pub expires_at: Option<SystemTime>,
    /// Whom the user may watch.
    pub may_watch: Permission,
    /// When the token was issued, in seconds since the Unix epoch; 0 when it does not say.
    pub issued_at_s: u64,
}

/// The keys of the configuration cannot be used.
#[derive(Debug, Error)]
#[error("the configured key cannot verify tokens: {0}")]
pub struct KeyError(#[from] jsonwebtoken::errors::Error);

/// Which rule a client's proof broke.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthError {
    /// Not three parts of base64 with JSON in the first two, an algorithm that is `none` or
    /// unknown, or a claim of the wrong kind.
    #[error("it is not a JWT, or a part of it is of the wrong kind")]
    Malformed,
    /// Another algorithm than the one of the configured key.
    #[error("it is not signed with the algorithm of the configured key")]
    WrongAlgorithm,
    /// Signed with another key, or changed since.
    #[error("its signature does not match")]
    BadSignature,
    /// `exp` is further back than [`LEEWAY`].
    #[error("it has expired")]
    Expired,
    /// `nbf` is further ahead than [`LEEWAY`].
    #[error("it is not valid yet")]
    NotYetValid,
    /// `exp` or `sub` is absent, or `aud` where one is configured.
    #[error("it has no claim '{0}'")]
    MissingClaim(String),
    /// `aud` is not the configured one, or there is one and none is configured.
    #[error("it is meant for another audience")]
    WrongAudience,
    /// `sub` is not a user id.
    #[error("its 'sub' is no user id: {0}")]
    BadUser(String),
    /// It is a grant to watch users, and does not let anybody in.
    #[error("it is a grant, and not a token to sign in with")]
    Grant,
    /// The user's tokens that were issued before a moment were revoked.
    #[error("it was revoked")]
    Revoked,
    /// A user gave a name where tokens are asked for.
    #[error("there is a name, but no token")]
    TokenRequired,
    /// A user gave a token where authentication is off, so that nothing could verify it.
    #[error("there is a token, but authentication is off")]
    TokenNotExpected,
}

enum Mode {
    Open,
    Token(Box<Verifier>),
}

struct Verifier {
    key: DecodingKey,
    rules: Validation,
}

impl Authenticator {
    /// Prepares the configured keys.
    pub fn from_settings(settings: &Settings) -> Result<Self, KeyError> {
        match &settings.auth {
            Auth::None => Ok(Self(Mode::Open)),
            Auth::Jwt { keys, audience } => {
                let verifier = Verifier {
                    key: token::decoding_key(keys)?,
                    rules: token::rules(keys, audience.as_deref()),
                };
                Ok(Self(Mode::Token(Box::new(verifier))))
            }
        }
    }

    /// Whether a client must bring a token; without, it says who it is.
    pub fn wants_token(&self) -> bool {
        matches!(self.0, Mode::Token(_))
    }

    /// Verifies a token: its signature, `exp` (required), `nbf`, `aud` and `sub` (the user).
    pub fn authenticate(&self, token: &str) -> Result<Identity, AuthError> {
        let identity = self.verify(token)?;
        if grant::is_grant(token) { Err(AuthError::Grant) } else { Ok(identity) }
    }

    fn verify(&self, token: &str) -> Result<Identity, AuthError> {
        match &self.0 {
            Mode::Open => Err(AuthError::TokenNotExpected),
            Mode::Token(verifier) => token::verify(token, &verifier.key, &verifier.rules),
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
            Mode::Token(_) => Err(AuthError::TokenRequired),
        }
    }
}
