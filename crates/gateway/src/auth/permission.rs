//! Whom a user may watch.

use presence_protocol::UserId;

/// Whom a user may watch and query, as far as the token says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permission {
    /// No claim `watch` restricts it.
    #[default]
    Everyone,
    /// There is no claim `watch`, and without one nobody may be watched.
    Nobody,
    /// Those that the claim `watch` lists: a user's id, or the start of ids with a `*` after it.
    Only(Box<[Box<str>]>),
}

impl Permission {
    /// The permission that a claim gives.
    pub(super) fn from_claim(claim: Option<Vec<String>>) -> Self {
        claim.map_or(Self::Everyone, |patterns| {
            Self::Only(patterns.into_iter().map(String::into_boxed_str).collect())
        })
    }

    /// The same where only those may be watched whom the token or a grant lists.
    pub(crate) fn or_nobody(self) -> Self {
        if self == Self::Everyone { Self::Nobody } else { self }
    }

    /// Whether this user may be watched.
    pub fn allows(&self, user: &UserId) -> bool {
        match self {
            Self::Everyone => true,
            Self::Nobody => false,
            Self::Only(patterns) => patterns.iter().any(|pattern| matches(pattern, user.as_str())),
        }
    }
}

fn matches(pattern: &str, user: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => user.starts_with(start),
        None => user == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_lists_ids_and_starts_of_ids() {
        let claim = vec!["bo".to_owned(), "team1:*".to_owned()];
        let permission = Permission::from_claim(Some(claim));
        let table = [("bo", true), ("bob", false), ("team1:ana", true), ("team2:ana", false)];
        for (user, allowed) in table {
            assert_eq!(permission.allows(&UserId::new(user).unwrap()), allowed, "{user}");
        }
        assert!(Permission::from_claim(None).allows(&UserId::new("anyone").unwrap()));
        assert!(!Permission::from_claim(Some(vec![])).allows(&UserId::new("anyone").unwrap()));
        let unlisted = Permission::from_claim(None).or_nobody();
        assert!(!unlisted.allows(&UserId::new("anyone").unwrap()));
        assert_eq!(permission.clone().or_nobody(), permission);
    }
}
