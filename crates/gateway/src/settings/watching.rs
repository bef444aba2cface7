//! Who may watch whom: the policy, and what it takes to ask the app's backend.

use std::fmt;
use std::time::Duration;

use super::flags::{Down, PolicyKind, WatchFlags};
use super::{Auth, OutboundUrl, Secret, values};

/// Who asks for something must show so much: it is a key like those of the backend.
const SECRET_BYTES_MIN: usize = 16;

const RIGHT_URL: &str = "it would be right as https://app.example.com/watch";

/// Who decides whom a user may watch. A claim `watch` restricts it under each policy.
#[derive(Clone, Debug)]
pub enum WatchPolicy {
    /// Everyone may be watched.
    Open,
    /// Those that the token or a grant lists.
    Token,
    /// Those that the app's backend allows when it is asked.
    Callback(Callback),
}

/// How the app's backend is asked.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Where.
    pub url: OutboundUrl,
    /// Proves to it who asks: `Authorization: Bearer`.
    pub secret: Secret,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long an answer counts.
    pub ttl: Duration,
    /// The most answers that are kept: pairs of users.
    pub cache_len: usize,
    /// What counts while it does not answer.
    pub down: WhenDown,
}

/// What counts while the app's backend does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenDown {
    /// Nobody new may be watched; clients are told to ask again.
    Refuse,
    /// Everyone may be watched.
    Allow,
}

pub(super) fn policy(flags: &WatchFlags, auth: &Auth) -> Result<WatchPolicy, String> {
    let callback = callback(flags)?;
    match (flags.watch_policy, callback) {
        (PolicyKind::Callback, Some(callback)) => Ok(WatchPolicy::Callback(callback)),
        (PolicyKind::Callback, None) => {
            Err("watch_policy is 'callback', but watch_callback_url is \
            not set: set it to where your backend answers"
                .to_owned())
        }
        (other, Some(_)) => Err(format!(
            "watch_callback_url is set, but watch_policy is '{other}': unset it, or set \
             watch_policy to 'callback'"
        )),
        (PolicyKind::Token, None) if matches!(auth, Auth::None) => Err("watch_policy is 'token', \
            but auth is 'none', so there are no tokens: set auth to 'jwt'"
            .to_owned()),
        (PolicyKind::Token, None) => Ok(WatchPolicy::Token),
        (PolicyKind::Open, None) => Ok(WatchPolicy::Open),
    }
}

fn callback(flags: &WatchFlags) -> Result<Option<Callback>, String> {
    let Some(url) = &flags.watch_callback_url else {
        return match &flags.watch_callback_secret {
            Some(_) => {
                Err("watch_callback_secret is set, but watch_callback_url is not: set both"
                    .to_owned())
            }
            None => Ok(None),
        };
    };
    let url = OutboundUrl::new(url.expose());
    let url = url.map_err(|error| format!("watch_callback_url {error}; {RIGHT_URL}"))?;
    let Some(secret) = &flags.watch_callback_secret else {
        return Err("watch_callback_url is set, but watch_callback_secret is not: set it to what \
            your backend knows the gateway by"
            .to_owned());
    };
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "watch_callback_secret has {} bytes: it needs at least {SECRET_BYTES_MIN}",
            secret.len()
        ));
    }
    if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "watch_callback_secret holds a blank, or what is not ASCII: no header can carry it; \
            it would be right as `openssl rand -base64 24` prints it"
                .to_owned(),
        );
    }
    Ok(Some(Callback {
        url,
        secret: secret.clone(),
        timeout: flags.watch_callback_timeout,
        ttl: flags.watch_callback_ttl,
        cache_len: flags.watch_callback_cache as usize,
        down: match flags.watch_callback_down {
            Down::Refuse => WhenDown::Refuse,
            Down::Allow => WhenDown::Allow,
        },
    }))
}

impl fmt::Display for WatchPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => PolicyKind::Open.fmt(f),
            Self::Token => PolicyKind::Token.fmt(f),
            Self::Callback(callback) => {
                let show = values::written;
                let Callback { url, timeout, ttl, cache_len, down, .. } = callback;
                let (timeout, ttl) = (show(*timeout), show(*ttl));
                let down = match down {
                    WhenDown::Refuse => "refuse",
                    WhenDown::Allow => "allow",
                };
                write!(f, "callback ({url}, timeout {timeout}, ttl {ttl}, ")?;
                write!(f, "at most {cache_len} answers, down {down})")
            }
        }
    }
}
