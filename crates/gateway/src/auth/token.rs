//! JSON Web Tokens: what makes one valid, and how one is signed for development.

use std::time::{Duration, SystemTime};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use presence_protocol::UserId;
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use super::{AuthError, Identity, Permission};
use crate::settings::{Auth, KeySource, Settings};

/// How far the signer's clock and ours may be apart, for `exp` and `nbf` alike.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// Why a development token cannot be signed.
#[derive(Debug, ThisError)]
pub enum SignError {
    /// Authentication is off.
    #[error("auth is 'none', so no token is needed: set jwt_secret to sign tokens")]
    NoKey,
    /// The library refused.
    #[error("the token cannot be signed: {0}")]
    Signing(#[from] Error),
}

/// What is read of a token. Optional, so that a missing claim gets its own error.
#[derive(Deserialize)]
struct Claims {
    /// Seconds, perhaps with a fraction (RFC 7519, 2).
    exp: Option<f64>,
    sub: Option<String>,
    iat: Option<f64>,
    /// Whom the user may watch: ids, or starts of ids with a `*` after them.
    watch: Option<Vec<String>>,
}

#[derive(Serialize)]
struct SignedClaims<'a> {
    sub: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Signs a token for `user` with the configured secret, valid for `expires` from now on.
pub fn sign(settings: &Settings, user: &UserId, expires: Duration) -> Result<String, SignError> {
    let Auth::Jwt { keys: KeySource::Hs256(secret), audience } = &settings.auth else {
        return Err(SignError::NoKey);
    };
    let iat = jsonwebtoken::get_current_timestamp();
    // A part of a second counts as one, so that no token is born expired.
    let exp = iat + expires.as_millis().div_ceil(1000) as u64;
    let claims = SignedClaims { sub: user.as_str(), iat, exp, aud: audience.as_deref() };
    let key = EncodingKey::from_secret(secret.expose().as_bytes())?;
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}

pub(super) fn decoding_key(keys: &KeySource) -> Result<DecodingKey, Error> {
    match keys {
        KeySource::Hs256(secret) => DecodingKey::from_secret(secret.expose().as_bytes()),
    }
}

/// One key means one algorithm: a public key must never be taken for an HMAC secret.
pub(super) fn rules(keys: &KeySource, audience: Option<&str>) -> Validation {
    let mut rules = Validation::new(match keys {
        KeySource::Hs256(_) => Algorithm::HS256,
    });
    rules.leeway = LEEWAY.as_secs();
    rules.validate_nbf = true;
    rules.set_required_spec_claims(&["exp", "sub"]);
    if let Some(audience) = audience {
        rules.set_audience(&[audience]);
        rules.required_spec_claims.insert("aud".to_owned());
    }
    rules
}

pub(super) fn verify(
    token: &str,
    key: &DecodingKey,
    rules: &Validation,
) -> Result<Identity, AuthError> {
    let claims = jsonwebtoken::decode::<Claims>(token, key, rules).map_err(broken_rule)?.claims;
    let missing = |claim: &str| AuthError::MissingClaim(claim.to_owned());
    let exp = claims.exp.ok_or_else(|| missing("exp"))?;
    let sub = claims.sub.ok_or_else(|| missing("sub"))?;
    let user = UserId::new(&sub).map_err(|error| AuthError::BadUser(error.to_string()))?;
    // `as` saturates: an absurd `exp` becomes one that the clock cannot express.
    let exp = Duration::from_secs(exp as u64).checked_add(LEEWAY);
    let expires_at = exp.and_then(|exp| SystemTime::UNIX_EPOCH.checked_add(exp));
    let may_watch = Permission::from_claim(claims.watch);
    Ok(Identity { user, expires_at, may_watch, issued_at_s: claims.iat.unwrap_or(0.0) as u64 })
}

fn broken_rule(error: Error) -> AuthError {
    match error.into_kind() {
        ErrorKind::InvalidAlgorithm
        | ErrorKind::InvalidAlgorithmName
        | ErrorKind::UnsupportedAlgorithm => AuthError::WrongAlgorithm,
        ErrorKind::InvalidSignature => AuthError::BadSignature,
        ErrorKind::ExpiredSignature => AuthError::Expired,
        ErrorKind::ImmatureSignature => AuthError::NotYetValid,
        ErrorKind::InvalidAudience => AuthError::WrongAudience,
        ErrorKind::MissingRequiredClaim(claim) => AuthError::MissingClaim(claim),
        _ => AuthError::Malformed,
    }
}
