//! One key: the algorithm that it alone decides, and what must be true of it before it is taken.

use std::fmt;

use jsonwebtoken::crypto::{self, CryptoProvider};
use jsonwebtoken::errors::Result as LibraryResult;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use thiserror::Error;

/// Shorter ones can be factored; longer ones the library refuses.
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// An exponent that anybody uses has at most four bytes, nearly always 65,537.
const RSA_EXPONENT_LEN_MAX: usize = 4;

const ED25519_LEN: usize = 32;

/// A key that verifies tokens of one algorithm.
pub(in crate::auth) struct Key {
    algorithm: Algorithm,
    /// What tokens call it, `kid`.
    name: Option<Box<str>>,
    decoding: DecodingKey,
}

/// Why a key is not taken.
#[derive(Debug, Error, PartialEq, Eq)]
pub(in crate::auth) enum BadKey {
    /// Too short to be safe, or too long to be used.
    #[error("an RSA key of {0} bits: it must have {RSA_BITS_MIN} to {RSA_BITS_MAX}")]
    RsaBits(usize),
    /// With an exponent of 1, every message is its own signature.
    #[error("an RSA key whose public exponent is not an odd number from 3 to 4294967295")]
    RsaExponent,
    /// Another curve than P-256, or no point of it.
    #[error("an elliptic-curve key that is not a point of P-256, the curve of ES256")]
    NotP256,
    /// Another curve than Ed25519, or no point of it.
    #[error("no Ed25519 key")]
    NotEd25519,
    /// Not a key at all.
    #[error("no key that the library can read")]
    Unreadable,
}

impl Key {
    /// Checks a key. Its kind decides its algorithm: a secret HS256, RSA RS256, an elliptic curve ES256 on P-256, and an
    /// Edwards curve `EdDSA` on Ed25519.
    pub(in crate::auth) fn new(
        decoding: DecodingKey,
        name: Option<String>,
    ) -> Result<Self, BadKey> {
        let algorithm = match decoding.family() {
            AlgorithmFamily::Hmac => Algorithm::HS256,
            AlgorithmFamily::Rsa => check_rsa(&decoding)?,
            AlgorithmFamily::Ec => {
                // The library looks at the point when it verifies.
                match verify_nothing(&decoding, Algorithm::ES256) {
                    Ok(_) => Algorithm::ES256,
                    Err(_) => return Err(BadKey::NotP256),
                }
            }
            AlgorithmFamily::Ed => check_ed25519(&decoding)?,
        };
        Ok(Self { algorithm, name: name.map(String::into_boxed_str), decoding })
    }

    /// The only algorithm of tokens that it verifies.
    pub(in crate::auth) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// For the library.
    pub(in crate::auth) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }

    /// Whether it has the name that a token gives its key.
    pub(super) fn is_named(&self, name: Option<&str>) -> bool {
        name.is_some() && self.name.as_deref() == name
    }

    /// Whether it may be the key that a token names, or does not name.
    pub(super) fn may_be_named(&self, name: Option<&str>) -> bool {
        self.name.is_none() || name.is_none() || self.is_named(name)
    }
}

/// Never the key itself, not even a public one.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.algorithm)?;
        // A name may come from elsewhere, with whatever in it.
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " {name:?}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn check_rsa(key: &DecodingKey) -> Result<Algorithm, BadKey> {
    let (modulus, exponent) = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => (n.clone(), e.clone()),
        DecodingKeyKind::SecretOrDer(der) => {
            let library = CryptoProvider::try_get_default().ok_or(BadKey::Unreadable)?;
            let parts = (library.key_utils.rsa_pub_components_from_public_key)(der);
            parts.map_err(|_| BadKey::Unreadable)?
        }
    };
    let bits = bits(&modulus);
    if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Err(BadKey::RsaBits(bits));
    }
    let exponent = significant(&exponent);
    let is_odd = exponent.last().is_some_and(|last| last % 2 == 1);
    if !is_odd || exponent == [1] || exponent.len() > RSA_EXPONENT_LEN_MAX {
        return Err(BadKey::RsaExponent);
    }
    Ok(Algorithm::RS256)
}

fn check_ed25519(key: &DecodingKey) -> Result<Algorithm, BadKey> {
    // The library would take the first 32 of more bytes, and panic over fewer.
    let is_whole = key.try_get_as_bytes().is_ok_and(|bytes| bytes.len() == ED25519_LEN);
    if is_whole && verify_nothing(key, Algorithm::EdDSA).is_ok() {
        return Ok(Algorithm::EdDSA);
    }
    Err(BadKey::NotEd25519)
}

/// Fails where the key itself cannot be used.
fn verify_nothing(key: &DecodingKey, algorithm: Algorithm) -> LibraryResult<bool> {
    crypto::verify("", b"", key, algorithm)
}

fn significant(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

fn bits(number: &[u8]) -> usize {
    let number = significant(number);
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}
