//! Which rule a client's proof broke: for our log and our metrics. A peer is told [`PEER_MESSAGE`], and no more.

use presence_protocol::CloseReason;
use thiserror::Error;

/// All that a peer is told of a token that was refused, so that it learns nothing by trying.
pub const PEER_MESSAGE: &str = "token not valid\n";

/// Which rule a client's proof broke. None of these says what stood in the token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthError {
    /// Longer than 64 KiB.
    #[error("it is too long to be looked at")]
    TooLong,
    /// Not three parts of base64 with JSON in the first two, an algorithm that is `none` or
    /// unknown, a header that must be understood and is not, or a claim of the wrong kind.
    #[error(
        "it is not a JWT, or its algorithm is none or unknown, or a part of it is of the wrong kind"
    )]
    Malformed,
    /// There is no key of its algorithm.
    #[error("it is signed with an algorithm of which there is no key")]
    WrongAlgorithm,
    /// It names a key that is not published.
    #[error("it names a key that there is not")]
    UnknownKey,
    /// It may be signed with a key that cannot be fetched now: the client may try again.
    #[error("its key is not known, and the published keys are out of reach")]
    KeysOutOfReach,
    /// Signed with another key, or changed since.
    #[error("its signature does not match")]
    BadSignature,
    /// `exp` is further back than the leeway.
    #[error("it has expired")]
    Expired,
    /// `nbf` is further ahead than the leeway.
    #[error("it is not valid yet")]
    NotYetValid,
    /// `exp` or `sub` is absent, or `iss` or `aud` where one is configured.
    #[error("it has no claim '{0}'")]
    MissingClaim(String),
    /// `iss` is not the configured one.
    #[error("it is from another issuer")]
    WrongIssuer,
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
    /// There is neither a token nor a name, or an `Authorization` that is no `Bearer`.
    #[error("there is no token")]
    NoToken,
    /// A user gave a name where tokens are asked for.
    #[error("there is a name, but no token")]
    TokenRequired,
    /// A user gave a token where authentication is off, so that nothing could verify it.
    #[error("there is a token, but authentication is off")]
    TokenNotExpected,
}

impl AuthError {
    /// The label of the metric.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::WrongAlgorithm => "wrong_algorithm",
            Self::UnknownKey => "unknown_key",
            Self::KeysOutOfReach => "keys_out_of_reach",
            Self::BadSignature => "bad_signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::MissingClaim(_) => "missing_claim",
            Self::WrongIssuer => "wrong_issuer",
            Self::WrongAudience => "wrong_audience",
            Self::BadUser(_) => "bad_user",
            Self::Grant => "grant",
            Self::Revoked => "revoked",
            Self::NoToken => "no_token",
            Self::TokenRequired => "token_required",
            Self::TokenNotExpected => "token_not_expected",
        }
    }

    /// How the socket closes.
    pub fn close_reason(&self) -> CloseReason {
        match self {
            Self::Expired => CloseReason::TokenExpired,
            // The token may be good: the client is to come back with it, later.
            Self::KeysOutOfReach => CloseReason::Overloaded,
            _ => CloseReason::BadToken,
        }
    }

    /// Whether fresh keys may let the token in.
    pub(super) fn wants_fresh_keys(&self) -> bool {
        matches!(self, Self::UnknownKey | Self::KeysOutOfReach)
    }
}
