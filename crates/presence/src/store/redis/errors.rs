//! What can go wrong, in words: fred's errors as the store's, and why the store could not be opened.

use fred::error::{Error, ErrorKind};

use super::connect::Target;
use super::permissions::advice;
use crate::store::StoreError;

/// The first words of answers by which a server says that it cannot serve now, but may soon.
const SOON: [&str; 7] =
    ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN", "BUSY", "NOREPLICAS"];

impl From<&Error> for StoreError {
    fn from(error: &Error) -> Self {
        let details = plain(error.details());
        match error.kind() {
            ErrorKind::Timeout => Self::Unreachable("no answer in time".to_owned()),
            ErrorKind::Canceled => Self::Unreachable("not connected".to_owned()),
            ErrorKind::Backpressure => Self::Unreachable("too many calls wait for it".to_owned()),
            ErrorKind::IO | ErrorKind::Routing | ErrorKind::Cluster | ErrorKind::Sentinel => {
                Self::Unreachable(details)
            }
            ErrorKind::Protocol | ErrorKind::Parse | ErrorKind::NotFound => Self::Nonsense(details),
            ErrorKind::Unknown => unknown(details),
            _ => Self::Refused(details),
        }
    }
}

/// Fred knows few of a server's answers by kind. An answer starts with a word in capitals; fred's own errors do not.
fn unknown(details: String) -> StoreError {
    let word = details.split(' ').next().unwrap_or_default();
    let answered = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase());
    // Redis 6.2 wraps what a script was answered: `ERR Error running script …: -READONLY You can't write …`.
    let wrapped = SOON.iter().any(|soon| details.contains(&format!("-{soon} ")));
    if answered && !SOON.contains(&word) && !wrapped {
        StoreError::Refused(details)
    } else {
        StoreError::Unreachable(details)
    }
}

/// Why the store could not be opened: what was wrong, and what would be right. Never holds a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is none of a Redis.
    #[error(
        "the Redis URL is not understood ({0}): write it like redis://user:password@host:6379/0"
    )]
    Url(String),
    /// What is needed for TLS cannot be had.
    #[error("TLS to Redis cannot be set up: {0}")]
    Tls(String),
    /// The prefix cannot be part of a key.
    #[error("the prefix {0:?} cannot start a key: use letters, digits, '-', '_', '.' or ':'")]
    Prefix(String),
    /// The gateway's id cannot be part of a view.
    #[error("the gateway id {0:?} cannot be kept in Redis: use letters, digits, '-', '_' or ':'")]
    Gateway(String),
    /// Nobody answered.
    #[error(
        "Redis at {server} is out of reach ({reason}): check that it runs and that the URL is right"
    )]
    Unreachable {
        /// Host and port.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The server does not let us in, or not do what is needed.
    #[error("Redis at {server} refused: {reason}")]
    Refused {
        /// Host and port.
        server: String,
        /// Its answer.
        reason: String,
    },
    /// The server does not let this user do all that is needed.
    #[error(
        "Redis at {server} does not let this user do all that a gateway needs: \
         grant it {grants} (ACL SETUSER), or see \"Permissions\" in docs/operations.md"
    )]
    Forbidden {
        /// Host and port.
        server: String,
        /// What is missing, in the words of `ACL SETUSER`.
        grants: String,
    },
    /// The URL asks for a server that stands alone, and this one does not.
    #[error("Redis at {server} is {found}: let the URL start with {scheme}")]
    Arranged {
        /// Host and port.
        server: String,
        /// What it is instead.
        found: &'static str,
        /// What is right for that, `://` and what must follow included.
        scheme: String,
    },
    /// The server lacks commands that are needed.
    #[error("Redis at {server} is version {found}, but at least {needed} is needed: upgrade it")]
    TooOld {
        /// Host and port.
        server: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: String,
    },
}

/// What an operating system's error says, without the Rust around it.
fn plain(details: &str) -> String {
    let message = ["message: \"", "error: \""].iter().find_map(|start| {
        let (_, rest) = details.split_once(start)?;
        rest.split_once('"').map(|(message, _)| message)
    });
    message.unwrap_or(details).to_owned()
}

/// What would be right, where one side does not take the other's certificate.
fn certificate_advice(error: &Error) -> Option<&'static str> {
    let says = |word: &str| error.details().contains(word);
    if says("UnknownIssuer") || says("BadSignature") {
        Some(
            "its certificate is of an authority that is not trusted here: \
             name that one's own certificate with redis_ca_file",
        )
    } else if says("NotValidForName") || says("not valid for name") {
        Some("its certificate names others: use a host in the URL that is in it")
    } else if says("Expired") {
        Some("its certificate is out of date: renew it")
    } else if says("CertificateRequired") {
        Some("it wants a client certificate: set redis_cert_file and redis_key_file")
    } else {
        None
    }
}

/// What may be right, where it may be that only one side speaks TLS: a server waits for the rest of a greeting that makes
/// no sense to it, or hangs up.
fn silence_advice(encrypted: bool, error: &Error) -> Option<&'static str> {
    let says = |word: &str| error.details().contains(word);
    let silent = *error.kind() == ErrorKind::Timeout || says("closed") || says("reset");
    if encrypted {
        let plain = silent || says("InvalidContentType");
        plain.then_some("if this port does not speak TLS, the URL must start with redis://")
    } else {
        silent.then_some("if this port speaks TLS, the URL must start with rediss://")
    }
}

/// What may be right, where a name was not found: a cluster's node tells its address as others see it, and one that never
/// met another has none to tell.
fn name_advice(target: &Target, error: &Error) -> Option<&'static str> {
    let unknown = target.is_clustered() && error.details().contains("lookup address");
    unknown.then_some("in a cluster, each node must know its own: see cluster-announce-ip")
}

impl OpenError {
    pub(super) fn from_fred(target: &Target, error: &Error) -> Self {
        if let Some(advice) = certificate_advice(error) {
            return Self::Refused { server: target.name(), reason: advice.to_owned() };
        }
        let silence = || silence_advice(target.is_encrypted(), error);
        let advice = name_advice(target, error).or_else(silence);
        match (StoreError::from(error), advice) {
            (StoreError::Unreachable(reason), Some(advice)) => {
                Self::Unreachable { server: target.name(), reason: format!("{reason}; {advice}") }
            }
            (error, _) => Self::from_store(&target.name(), error),
        }
    }

    pub(super) fn from_store(server: &str, error: StoreError) -> Self {
        let server = server.to_owned();
        match error {
            StoreError::Unreachable(reason) => Self::Unreachable { server, reason },
            StoreError::Refused(reason) if reason.contains("cluster support disabled") => {
                let advice = "it is no part of a cluster: let the URL start with redis://, or rediss:// for TLS";
                Self::Refused { server, reason: format!("{reason}; {advice}") }
            }
            StoreError::Refused(reason) | StoreError::Nonsense(reason) => {
                let advice = advice(&reason).map(|advice| format!("; {advice}"));
                Self::Refused { server, reason: reason + &advice.unwrap_or_default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::TlsFiles;

    fn kind(kind: ErrorKind, details: &'static str) -> &'static str {
        match StoreError::from(&Error::new(kind, details)) {
            StoreError::Unreachable(_) => "unreachable",
            StoreError::Refused(_) => "refused",
            StoreError::Nonsense(_) => "nonsense",
        }
    }

    #[test]
    fn what_may_pass_is_unreachable_and_what_will_not_is_refused() {
        for (expected, error_kind, details) in [
            ("unreachable", ErrorKind::Timeout, "Request timed out."),
            ("unreachable", ErrorKind::IO, "Connection closed."),
            ("unreachable", ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
            ("unreachable", ErrorKind::Unknown, "LOADING Redis is loading the dataset in memory"),
            (
                "unreachable",
                ErrorKind::Unknown,
                "READONLY You can't write against a read only replica.",
            ),
            (
                "unreachable",
                ErrorKind::Unknown,
                "ERR Error running script (call to f_1): @x: 1: -READONLY You can't",
            ),
            ("unreachable", ErrorKind::Unknown, "Failed to route command."),
            (
                "refused",
                ErrorKind::Unknown,
                "OOM command not allowed when used memory > 'maxmemory'.",
            ),
            ("refused", ErrorKind::Unknown, "NOPERM this user has no permissions"),
            ("refused", ErrorKind::Unknown, "ERR user_script:3: attempt to index a nil value"),
            ("refused", ErrorKind::Auth, "NOAUTH Authentication required."),
            ("nonsense", ErrorKind::Parse, "Invalid integer string."),
        ] {
            assert_eq!(kind(error_kind, details), expected, "{details}");
        }
    }
    #[test]
    fn of_addresses_that_a_cluster_tells_only_the_users_of_one_are_told() {
        let unknown = Error::new(ErrorKind::IO, "failed to lookup address information");
        for (url, advised) in [
            ("redis://nowhere:6379", false),
            ("redis-sentinel://nowhere:26379?sentinelServiceName=main", false),
            ("redis-cluster://nowhere:6379", true),
        ] {
            let target = Target::parse(url, &TlsFiles::default()).expect("a URL");
            let said = OpenError::from_fred(&target, &unknown).to_string();
            assert!(said.contains("lookup address"), "{said}");
            assert_eq!(said.contains("cluster-announce-ip"), advised, "{said}");
        }
    }
}
