//! Who comes in, how many, and as whom: the values of those settings, and their parsers.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use axum::http::Uri;
use clap::ValueEnum;
use ipnet::IpNet;

use super::flags::AdmissionFlags;
use super::values;

/// Below this an answer to an ordinary `watch` would not fit.
const UNSENT_BYTES_MIN: u64 = 16 << 10;
const UNSENT_BYTES_MAX: u64 = 1 << 30;

/// Limits on connections, and what tells one peer from another.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The most sockets of one address, those of an IPv6 /64 together; 0 is any number.
    pub max_connections_per_address: u32,
    /// The most sessions of one user on this gateway; at least 1.
    pub max_sessions_per_user: u32,
    /// Which of them gives way when there is one too many.
    pub sessions_over: SessionsOver,
    /// Nothing more is accepted while this many connections have not said `hello`; at least 1.
    pub max_handshakes: u32,
    /// How many connections are accepted a second: 0 is any number, none is what the cores allow.
    pub handshake_rate: Option<u32>,
    /// How long a request's head may take, and all of a request under `/v1`.
    pub http_timeout: Duration,
    /// How many bytes of answers may wait for a client that does not read.
    pub max_unsent_bytes: usize,
    /// How much memory may be used before sockets are turned away.
    pub max_memory: MemoryLimit,
    /// From whose pages browsers may connect.
    pub allowed_origins: Origins,
    /// Whom to believe about the addresses of others.
    pub proxies: Proxies,
}

/// Which session of a user gives way when there is one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SessionsOver {
    /// The oldest is closed with 4008
    Oldest,
    /// The newest is refused with 4009
    Newest,
}

/// How much memory may be used before sockets are turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A share of what the machine, or the cgroup of this process, has.
    Share,
    /// So many bytes.
    Bytes(NonZeroU64),
    /// Any amount.
    Unlimited,
}

/// From whose pages browsers may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Those of the host that the request names.
    SameHost,
    /// Those of these origins, such as `https://chat.example.com`, in lower case.
    Listed(Vec<String>),
    /// Anybody's.
    Any,
}

/// Whom to believe about the addresses of others, and how they tell them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    /// The trusted ones.
    pub trusted: Networks,
    /// They begin each connection with a PROXY header.
    pub speak_proxy_protocol: bool,
    /// The header in which they tell a client's address.
    pub header: AddressHeader,
}

/// Addresses, as networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// The header in which trusted proxies tell a client's address. One of them only: a proxy hands the other on as the client
/// wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AddressHeader {
    /// The usual one
    XForwardedFor,
    /// The one of RFC 7239
    Forwarded,
}

impl Admission {
    pub(super) fn resolve(flags: AdmissionFlags) -> Result<Self, String> {
        let trusted = flags.trusted_proxies.unwrap_or_default();
        if flags.proxy_protocol && trusted.0.is_empty() {
            return Err(
                "proxy_protocol is on, but trusted_proxies is not set: name the addresses \
                of your proxies, such as 10.0.0.0/8"
                    .to_owned(),
            );
        }
        Ok(Self {
            max_connections_per_address: flags.max_connections_per_address,
            max_sessions_per_user: flags.max_sessions_per_user,
            sessions_over: flags.sessions_over,
            max_handshakes: flags.max_handshakes,
            handshake_rate: flags.handshake_rate,
            http_timeout: flags.http_timeout,
            max_unsent_bytes: flags.max_unsent_bytes,
            max_memory: flags.max_memory.unwrap_or(MemoryLimit::Share),
            allowed_origins: flags.allowed_origins.unwrap_or(Origins::SameHost),
            proxies: Proxies {
                trusted,
                speak_proxy_protocol: flags.proxy_protocol,
                header: flags.address_header,
            },
        })
    }

    pub(super) fn summary(&self) -> Vec<(&'static str, String)> {
        let rate =
            self.handshake_rate.map_or_else(|| "by cores".to_owned(), |rate| rate.to_string());
        vec![
            ("max_connections_per_address", self.max_connections_per_address.to_string()),
            ("max_sessions_per_user", self.max_sessions_per_user.to_string()),
            ("sessions_over", name_of(&self.sessions_over)),
            ("max_handshakes", self.max_handshakes.to_string()),
            ("handshake_rate", rate),
            ("http_timeout", values::written(self.http_timeout)),
            ("max_unsent_bytes", self.max_unsent_bytes.to_string()),
            ("max_memory", self.max_memory.to_string()),
            ("allowed_origins", self.allowed_origins.to_string()),
            ("trusted_proxies", self.proxies.trusted.to_string()),
            ("proxy_protocol", self.proxies.speak_proxy_protocol.to_string()),
            ("address_header", name_of(&self.proxies.header)),
        ]
    }
}

impl Networks {
    /// Whether an address is in one of them; an IPv4 address also in the form that IPv6 sockets give it.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&networks.join(","))
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share => f.write_str("80 %"),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Unlimited => f.write_str("0"),
        }
    }
}

impl fmt::Display for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameHost => f.write_str("same host"),
            Self::Listed(origins) => f.write_str(&origins.join(",")),
            Self::Any => f.write_str("*"),
        }
    }
}

pub(super) fn networks(text: &str) -> Result<Networks, String> {
    let network = |text: &str| {
        let alone = || IpAddr::from_str(text).map(IpNet::from);
        IpNet::from_str(text).ok().or_else(|| alone().ok())
    };
    let networks: Option<Vec<IpNet>> = text.split(',').map(str::trim).map(network).collect();
    networks.map(Networks).ok_or_else(|| {
        "it must be addresses or networks, such as 10.0.0.0/8,192.168.1.7,fd00::/8".to_owned()
    })
}

pub(super) fn origins(text: &str) -> Result<Origins, String> {
    if text == "*" {
        return Ok(Origins::Any);
    }
    let origin = |text: &str| {
        let uri = text.parse::<Uri>().ok()?;
        let is_origin = uri.scheme().is_some() && uri.path() == "/" && uri.query().is_none();
        (is_origin && !text.ends_with('/')).then(|| text.to_lowercase())
    };
    let origins: Option<Vec<String>> = text.split(',').map(str::trim).map(origin).collect();
    origins.map(Origins::Listed).ok_or_else(|| {
        "it must be * or origins, such as https://chat.example.com,http://localhost:3000".to_owned()
    })
}

pub(super) fn memory_limit(text: &str) -> Result<MemoryLimit, String> {
    let bytes = values::bytes(text);
    let limit = |bytes| NonZeroU64::new(bytes).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes);
    bytes.map(limit).ok_or_else(|| "it must be a size such as 512MiB or 2GiB, or 0".to_owned())
}

pub(super) fn unsent_bytes(text: &str) -> Result<usize, String> {
    let bytes = values::bytes(text);
    let allowed = bytes.filter(|bytes| (UNSENT_BYTES_MIN..=UNSENT_BYTES_MAX).contains(bytes));
    let allowed = allowed.map(|bytes| bytes as usize);
    allowed.ok_or_else(|| "it must be a size from 16KiB to 1GiB, such as 1MiB".to_owned())
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
