//! The keys that verify tokens, by where they come from. Each source replaces its own keys while sockets are served.
//!
//! Reading never waits: whoever verifies a token sees the keys of before or of after a change.

mod freshness;
pub(super) mod jwks;
mod key;
pub(super) mod pem;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::{AlgorithmFamily, Header};

pub(super) use freshness::{Asked, Freshness, Reach};
pub(super) use key::Key;

/// The most keys of one source. A token without `kid` may have to be tried with each of its algorithm.
pub(super) const KEYS_MAX: usize = 64;

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `jwt_secret` or `jwt_secret_file`.
    Secret,
    /// `jwt_public_key_file`.
    File,
    /// `jwks_url`.
    Url,
}

/// All keys of a gateway.
#[derive(Debug, Default)]
pub(super) struct KeyRing {
    secrets: ArcSwap<Vec<Key>>,
    file: ArcSwap<Vec<Key>>,
    url: ArcSwap<Vec<Key>>,
    /// Where there is a URL: what is known of its keys.
    pub(super) freshness: Option<Arc<Freshness>>,
}

/// What trying the keys on a token came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried<T> {
    /// One of them fits.
    Fits(T),
    /// None fits, and none is missing.
    NoneFits,
    /// None is of the token's algorithm.
    NoneOfItsAlgorithm,
    /// None has the name that the token gives its key.
    NameUnknown,
    /// The same, and the URL has not told its keys, or cannot be reached now.
    OutOfReach,
}

impl KeyRing {
    /// Puts a source's keys in the place of those that it had.
    pub(super) fn replace(&self, source: Source, keys: Vec<Key>) {
        self.of(source).store(Arc::new(keys));
    }

    /// How many keys a source has.
    pub(super) fn count(&self, source: Source) -> usize {
        self.of(source).load().len()
    }

    /// A source's keys as a log line may show them: algorithms and names.
    pub(super) fn described(&self, source: Source) -> String {
        let keys = self.of(source).load();
        let keys: Vec<_> = keys.iter().map(Key::to_string).collect();
        keys.join(", ")
    }

    /// Tries the keys that may have signed a token with this header, until `fits` answers something for one.
    ///
    /// A key without a name may have signed any token, and a token without one may be of any key; the algorithm is always
    /// the key's, so that nobody makes a public key count as a secret.
    pub(super) fn try_each<T>(
        &self,
        header: &Header,
        fits: impl Fn(&Key) -> Option<T>,
    ) -> Tried<T> {
        let (mut any_of_algorithm, mut name_known) = (false, false);
        for slot in [&self.secrets, &self.file, &self.url] {
            let keys = slot.load();
            for key in keys.iter().filter(|key| key.algorithm() == header.alg) {
                any_of_algorithm = true;
                name_known |= key.is_named(header.kid.as_deref());
                if key.may_be_named(header.kid.as_deref())
                    && let Some(found) = fits(key)
                {
                    return Tried::Fits(found);
                }
            }
        }
        self.why_none(header, any_of_algorithm, name_known)
    }

    fn why_none<T>(&self, header: &Header, any_of_algorithm: bool, name_known: bool) -> Tried<T> {
        if let Some(freshness) = &self.freshness {
            let untold = self.url.load().is_empty();
            // A URL tells public keys only.
            let tellable = header.alg.family() != AlgorithmFamily::Hmac;
            let unknown = tellable && header.kid.is_some() && !name_known;
            match freshness.reach() {
                Reach::Lost if untold || unknown => return Tried::OutOfReach,
                Reach::Good if unknown => return Tried::NameUnknown,
                _ => {}
            }
        }
        if any_of_algorithm { Tried::NoneFits } else { Tried::NoneOfItsAlgorithm }
    }

    fn of(&self, source: Source) -> &ArcSwap<Vec<Key>> {
        match source {
            Source::Secret => &self.secrets,
            Source::File => &self.file,
            Source::Url => &self.url,
        }
    }
}

impl Source {
    /// All there are.
    pub(super) const ALL: [Self; 3] = [Self::Secret, Self::File, Self::Url];

    /// The label of metrics and of the start's summary.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::File => "file",
            Self::Url => "url",
        }
    }
}

impl fmt::Display for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for source in Source::ALL.into_iter().filter(|source| self.count(*source) > 0) {
            parts.push(format!("{}: {}", source.label(), self.described(source)));
        }
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}
