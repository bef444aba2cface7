//! A JSON Web Key Set (RFC 7517), as a URL publishes it. Pure.
//!
//! A set may hold keys for other purposes and of kinds that we do not know: these are passed over, and never spoil the
//! rest.

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use serde::Deserialize;
use serde_json::Value;

use super::KEYS_MAX;
use super::key::Key;

/// The longest name of a key, `kid`, in bytes: it stands in log lines.
const NAME_LEN_MAX: usize = 256;

/// What a set came to.
#[derive(Debug)]
pub(in crate::auth) struct Found {
    /// Those that are used; at least one.
    pub(in crate::auth) keys: Vec<Key>,
    /// How many were passed over.
    pub(in crate::auth) passed_over: usize,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// The keys of a set that verify tokens, or why there are none.
pub(in crate::auth) fn keys_in(body: &[u8]) -> Result<Found, String> {
    let set: KeySet = serde_json::from_slice(body)
        .map_err(|error| format!("it is no JWK set, {{\"keys\":[…]}}: {error}"))?;
    let all = set.keys.len();
    let keys: Vec<Key> = set.keys.into_iter().filter_map(key).take(KEYS_MAX).collect();
    if keys.is_empty() {
        return Err(format!("none of its {all} keys is for signatures with RS256, ES256 or EdDSA"));
    }
    let passed_over = all - keys.len();
    Ok(Found { keys, passed_over })
}

fn key(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if !signs(&jwk) || !is_of_our_kinds(&jwk) {
        return None;
    }
    let name = jwk.common.key_id.clone();
    if name.as_ref().is_some_and(|name| name.len() > NAME_LEN_MAX) {
        return None;
    }
    Key::new(DecodingKey::from_jwk(&jwk).ok()?, name).ok()
}

fn signs(jwk: &Jwk) -> bool {
    let for_signatures = jwk.common.public_key_use.as_ref();
    let verifies = jwk.common.key_operations.as_ref();
    for_signatures.is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
        && verifies.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}

/// A secret is never taken from a URL: whoever can read it there could sign.
fn is_of_our_kinds(jwk: &Jwk) -> bool {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => KeyAlgorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            KeyAlgorithm::ES256
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            KeyAlgorithm::EdDSA
        }
        _ => return false,
    };
    jwk.common.key_algorithm.is_none_or(|named| named == algorithm)
}
