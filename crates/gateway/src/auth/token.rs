//! JSON Web Tokens: what makes one valid, and how one is signed for development.

use std::time::{Duration, SystemTime};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use presence_protocol::UserId;
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

use super::keys::{KeyRing, Tried};
use super::{AuthError, Identity, Permission};
use crate::settings::{Auth, Settings, TokenRules};

/// Why a development token cannot be signed.
#[derive(Debug, ThisError)]
pub enum SignError {
    /// There is no secret.
    #[error("there is no secret to sign with: set jwt_secret or jwt_secret_file")]
    NoSecret,
    /// The library refused.
    #[error("the token cannot be signed: {0}")]
    Signing(#[from] Error),
}

/// What every token must say, whichever key signed it.
pub(super) struct Verifier {
    /// For the library, which takes the algorithm with the rules: the key's is put in its place.
    rules: Validation,
    leeway: Duration,
}

/// What is read of a token. Optional, so that a missing claim gets its own error.
#[derive(Deserialize)]
struct Claims {
    exp: Option<NumericDate>,
    sub: Option<String>,
    /// Read so that a list of issuers is refused, which the library would take.
    #[serde(rename = "iss")]
    _iss: Option<String>,
    iat: Option<NumericDate>,
    /// Whom the user may watch: ids, or starts of ids with a `*` after them.
    watch: Option<Vec<String>>,
}

/// Seconds since 1970, perhaps with a fraction (RFC 7519, 2).
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct NumericDate(f64);

impl TryFrom<f64> for NumericDate {
    type Error = &'static str;

    fn try_from(seconds: f64) -> Result<Self, Self::Error> {
        (seconds >= 0.0).then_some(Self(seconds)).ok_or("a time before 1970")
    }
}

#[derive(Serialize)]
struct SignedClaims<'a> {
    sub: &'a str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
}

/// Signs a token for `user` with the first configured secret, valid for `expires` from now on.
pub fn sign(settings: &Settings, user: &UserId, expires: Duration) -> Result<String, SignError> {
    let Auth::Jwt { keys, rules } = &settings.auth else { return Err(SignError::NoSecret) };
    let secret = keys.secrets.first().ok_or(SignError::NoSecret)?;
    let iat = jsonwebtoken::get_current_timestamp();
    // A part of a second counts as one, so that no token is born expired.
    let exp = iat + expires.as_millis().div_ceil(1000) as u64;
    let (iss, aud) = (rules.issuer.as_deref(), rules.audience.as_deref());
    let claims = SignedClaims { sub: user.as_str(), iat, exp, iss, aud };
    let key = EncodingKey::from_secret(secret.expose().as_bytes())?;
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}

impl Verifier {
    pub(super) fn new(token_rules: &TokenRules) -> Self {
        let mut rules = Validation::new(Algorithm::HS256);
        rules.leeway = token_rules.leeway.as_secs();
        rules.validate_nbf = true;
        rules.set_required_spec_claims(&["exp", "sub"]);
        if let Some(audience) = &token_rules.audience {
            rules.set_audience(&[audience]);
            rules.required_spec_claims.insert("aud".to_owned());
        }
        if let Some(issuer) = &token_rules.issuer {
            rules.set_issuer(&[issuer]);
            rules.required_spec_claims.insert("iss".to_owned());
        }
        Self { rules, leeway: token_rules.leeway }
    }

    /// Who a token is of, if one of the keys signed it and it keeps the rules.
    pub(super) fn verify(&self, token: &str, keys: &KeyRing) -> Result<Identity, AuthError> {
        let header = jsonwebtoken::decode_header(token).map_err(broken_rule)?;
        let tried = keys.try_each(&header, |key| {
            let rules = Validation { algorithms: vec![key.algorithm()], ..self.rules.clone() };
            match jsonwebtoken::decode::<Claims>(token, key.decoding(), &rules) {
                Ok(data) => Some(Ok(data.claims)),
                Err(error) if *error.kind() == ErrorKind::InvalidSignature => None,
                Err(error) => Some(Err(error)),
            }
        });
        match tried {
            Tried::Fits(Ok(claims)) => self.identity(claims),
            Tried::Fits(Err(error)) => Err(broken_rule(error)),
            Tried::NoneFits => Err(AuthError::BadSignature),
            Tried::NoneOfItsAlgorithm => Err(AuthError::WrongAlgorithm),
            Tried::NameUnknown => Err(AuthError::UnknownKey),
            Tried::OutOfReach => Err(AuthError::KeysOutOfReach),
        }
    }

    fn identity(&self, claims: Claims) -> Result<Identity, AuthError> {
        let missing = |claim: &str| AuthError::MissingClaim(claim.to_owned());
        let exp = claims.exp.ok_or_else(|| missing("exp"))?;
        let sub = claims.sub.ok_or_else(|| missing("sub"))?;
        let user = UserId::new(&sub).map_err(|error| AuthError::BadUser(error.to_string()))?;
        // `as` saturates: an absurd `exp` becomes one that the clock cannot express.
        let exp = Duration::from_secs(exp.0 as u64).checked_add(self.leeway);
        let expires_at = exp.and_then(|exp| SystemTime::UNIX_EPOCH.checked_add(exp));
        let may_watch = Permission::from_claim(claims.watch);
        let issued_at_s = claims.iat.map_or(0, |iat| iat.0 as u64);
        Ok(Identity { user, expires_at, may_watch, issued_at_s })
    }
}

fn broken_rule(error: Error) -> AuthError {
    match error.into_kind() {
        ErrorKind::InvalidAlgorithm
        | ErrorKind::InvalidAlgorithmName
        | ErrorKind::UnsupportedAlgorithm => AuthError::WrongAlgorithm,
        ErrorKind::InvalidSignature => AuthError::BadSignature,
        ErrorKind::ExpiredSignature => AuthError::Expired,
        ErrorKind::ImmatureSignature => AuthError::NotYetValid,
        ErrorKind::InvalidIssuer => AuthError::WrongIssuer,
        ErrorKind::InvalidAudience => AuthError::WrongAudience,
        ErrorKind::MissingRequiredClaim(claim) => AuthError::MissingClaim(claim),
        _ => AuthError::Malformed,
    }
}
