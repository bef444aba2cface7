//! Grants: signed words that a user may watch certain users, sent beside a request.
//!
//! A grant is told from a token to sign in with by the `typ` of its header, so that neither can be used as the other
//! (RFC 8725, 3.11). All else is as with tokens: the keys, `sub`, `exp`, and the claim `watch`.

use presence_protocol::{Grant, UserId};
use thiserror::Error;

use super::{AuthError, Authenticator, Identity, Permission};

/// The `typ` of a grant's header.
const TYPE: &str = "watch+jwt";

/// Why a grant counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GrantError {
    /// It breaks a rule that holds for all tokens.
    #[error(transparent)]
    Token(#[from] AuthError),
    /// Its `typ` is another.
    #[error("its typ is not watch+jwt")]
    NotAGrant,
    /// Its `sub` is another user.
    #[error("it is for another user")]
    OthersGrant,
    /// It lists nobody.
    #[error("it has no claim 'watch'")]
    NoList,
}

impl GrantError {
    /// The label of the metric.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::NotAGrant => "not_a_grant",
            Self::OthersGrant => "others_grant",
            Self::NoList => "no_list",
        }
    }
}

/// Whether it says of itself that it is a grant. Not verified.
pub(super) fn is_grant(token: &str) -> bool {
    let header = jsonwebtoken::decode_header(token);
    header.is_ok_and(|header| header.typ.is_some_and(|typ| names_a_grant(&typ)))
}

/// In any of the forms that mean the same (RFC 7515, 4.1.9).
fn names_a_grant(typ: &str) -> bool {
    let typ = typ.trim().to_ascii_lowercase();
    typ.strip_prefix("application/").unwrap_or(&typ) == TYPE
}

impl Authenticator {
    /// What a grant to this user says: whom it lets the user watch, and when it was issued.
    pub fn granted(&self, grant: &Grant, user: &UserId) -> Result<Identity, GrantError> {
        let token = grant.expose();
        let identity = self.verify(token)?;
        if !is_grant(token) {
            return Err(GrantError::NotAGrant);
        }
        if identity.user != *user {
            return Err(GrantError::OthersGrant);
        }
        match identity.may_watch {
            Permission::Everyone | Permission::Nobody => Err(GrantError::NoList),
            Permission::Only(_) => Ok(identity),
        }
    }
}
