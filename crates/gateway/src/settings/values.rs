//! The types and parsers of single settings. What holds between two of them is in `rules.rs`.
//!
//! A parser's error is the end of a sentence that has already quoted the value.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use presence_protocol::UserId;
use tracing_subscriber::EnvFilter;

const PREFIX_BYTES_MAX: usize = 64;
/// Below this a `hello` with an ordinary token would not fit.
const FRAME_BYTES_MIN: usize = 1 << 10;
/// A connection's read buffer never shrinks, so a large limit is a promise of much memory.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// Ten years: every sum of two durations and a time stays far from overflow.
const DURATION_MAX: Duration = Duration::from_hours(10 * 365 * 24);
/// RFC 7519, 4.1.4: usually no more than a few minutes.
const LEEWAY_MAX: Duration = Duration::from_mins(5);
/// Fifty gateways ask for the keys five times a second then.
const JWKS_REFRESH_MIN: Duration = Duration::from_secs(10);
/// Gateways look for what they missed once a minute.
const REVOCATION_KEPT_MIN: Duration = Duration::from_mins(1);
/// Each also with `s`, for TLS, and as `valkey`.
const REDIS_SCHEMES: [&str; 3] = ["redis", "redis-cluster", "redis-sentinel"];
const HIDDEN: &str = "[secret]";

/// A text that no log, error or summary may show; only [`Secret::expose`] gives it out.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Where Redis is; shown without its passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that uses it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl RedisUrl {
    /// Checks the scheme and that there is a host. The error does not quote the URL.
    pub fn new(url: &str) -> Result<Self, String> {
        const RIGHT: &str = "redis://127.0.0.1:6379";
        let schemes = || {
            let quoted: Vec<_> = REDIS_SCHEMES.iter().map(|s| format!("{s}://")).collect();
            quoted.join(", ")
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!(
                "must be a URL that starts with one of {}; it would be right as {RIGHT}",
                schemes()
            ));
        };
        if !REDIS_SCHEMES.contains(&plain_scheme(scheme).as_str()) {
            return Err(format!(
                "has the scheme '{scheme}'; it must be one of {}, or rediss… for TLS",
                schemes()
            ));
        }
        let host = rest.rsplit('@').next().unwrap_or_default();
        if host.is_empty() || host.starts_with(['/', '?', ':']) {
            return Err(format!("has no host; it would be right as {scheme}://redis:6379"));
        }
        Ok(Self(url.to_owned()))
    }

    /// Whether it asks for TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.0.starts_with("rediss") || self.0.starts_with("valkeys")
    }

    /// The whole URL, with its passwords, for the client library.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", ""));
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A raw '?' in a password would put its second half into the query.
        if query.contains('@') {
            return write!(f, "{scheme}://{HIDDEN}");
        }
        write!(f, "{scheme}://")?;
        match base.rsplit_once('@') {
            None => f.write_str(base)?,
            Some((login, host)) => {
                let user = login.split_once(':').map_or("", |(user, _)| user);
                let colon = if user.is_empty() { "" } else { ":" };
                write!(f, "{user}{colon}{HIDDEN}@{host}")?;
            }
        }
        for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let secret = name.to_lowercase().contains("pass");
            let mark = if index == 0 { '?' } else { '&' };
            write!(f, "{mark}{name}={}", if secret { HIDDEN } else { value })?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `redis…`, for `rediss…`, `valkey…` and `valkeys…` as well.
fn plain_scheme(scheme: &str) -> String {
    let (base, kind) = scheme.split_at(scheme.find('-').unwrap_or(scheme.len()));
    let base = if matches!(base, "rediss" | "valkey" | "valkeys") { "redis" } else { base };
    format!("{base}{kind}")
}

/// What a switch is set to.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it must be an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080"
            .to_owned()
    })
}

pub(super) fn prefix(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
    // Braces would be a hash tag of their own and undo the spread over a cluster's slots.
    if text.is_empty() || text.len() > PREFIX_BYTES_MAX || !text.chars().all(allowed) {
        return Err(format!("it must be 1 to {PREFIX_BYTES_MAX} of A-Z a-z 0-9 _ : -"));
    }
    Ok(text.to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let example = "it must be a duration such as 250ms, 30s or 5m";
    let parsed = humantime::parse_duration(text).map_err(|_| example.to_owned())?;
    if parsed > DURATION_MAX {
        return Err("it must be at most ten years".to_owned());
    }
    Ok(parsed)
}

/// A duration as it is set: in the largest unit of which it is a whole number.
pub(super) fn written(duration: Duration) -> String {
    const UNITS_NS: [(&str, u128); 6] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    let ns = duration.as_nanos();
    if ns == 0 {
        return "0s".to_owned();
    }
    let unit = UNITS_NS.into_iter().find(|(_, unit_ns)| ns.is_multiple_of(*unit_ns));
    let (name, unit_ns) = unit.unwrap_or(("ns", 1));
    format!("{}{name}", ns / unit_ns)
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than zero".to_owned()),
        positive => Ok(positive),
    }
}

pub(super) fn jwks_refresh(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < JWKS_REFRESH_MIN => {
            Err("it must be at least 10s: an unknown key is looked for early anyway".to_owned())
        }
        enough => Ok(enough),
    }
}

pub(super) fn revocation_kept(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < REVOCATION_KEPT_MIN => Err("it must be at least 1m".to_owned()),
        enough => Ok(enough),
    }
}

pub(super) fn leeway(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        long if long > LEEWAY_MAX => {
            Err("it must be at most 5m: for so long an expired token lets its user in".to_owned())
        }
        // Tokens count in seconds.
        odd if odd.subsec_nanos() > 0 => Err("it must be whole seconds".to_owned()),
        leeway => Ok(leeway),
    }
}

/// A number of bytes, such as 65536, 64KiB, 1MiB or 2GiB.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let unit = units.iter().find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)));
    let (number, unit) = unit.unwrap_or((text, 1));
    number.trim_end().parse::<u64>().ok()?.checked_mul(unit)
}

pub(super) fn frame_bytes(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).map(|bytes| bytes as usize);
    bytes.filter(|bytes| (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(bytes)).ok_or_else(|| {
        "it must be a size from 1KiB to 16MiB, such as 65536, 64KiB or 1MiB".to_owned()
    })
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::builder().parse(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("it must be a level such as info, or a list such as warn,presence=debug".into()),
    }
}

pub(super) fn user(text: &str) -> Result<UserId, String> {
    UserId::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_shown_as_it_is_set() {
        for text in ["30d", "1d", "25h", "90m", "5m", "61s", "30s", "250ms", "7us", "3ns", "0s"] {
            assert_eq!(written(duration(text).unwrap()), text);
        }
        assert_eq!(written(duration("1m 30s").unwrap()), "90s");
    }

    #[test]
    fn a_switch_takes_the_usual_words() {
        for (yes, no) in [("true", "false"), ("Yes", "NO"), ("on", "off"), ("1", "0")] {
            assert_eq!((truth(yes), truth(no)), (Ok(true), Ok(false)));
        }
        assert!(truth("").is_err() && truth("maybe").is_err());
    }
}
