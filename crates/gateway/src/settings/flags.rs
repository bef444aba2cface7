//! The one definition of every setting: its name, its default, its parser and its help.
//!
//! A field `redis_url` is the flag `--redis-url`, the variable `PRESENCE_REDIS_URL` and the key
//! `redis_url` of the file. Two things must stay out of this struct: clap's own `env`, which would
//! read the process's environment even in tests, and parsers that refuse a secret, since clap
//! quotes what it refuses.

mod admission;
mod watching;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, CommandFactory, Parser, Subcommand, ValueEnum};
use presence_protocol::UserId;

use super::values::{self, Secret};
pub(super) use admission::AdmissionFlags;
pub(super) use watching::{Down, PolicyKind, WatchFlags};

const SOURCES: &str = "\
Every setting is also an environment variable and a key of the TOML file: --redis-url is
PRESENCE_REDIS_URL and redis_url. A flag beats the environment, which beats the file.
Durations are written 250ms, 30s, 5m or 30d; sizes 65536, 64KiB or 1MiB.

To try it:      presence-gateway --dev
One machine:    PRESENCE_JWT_SECRET=… presence-gateway --auth jwt --listen 0.0.0.0:8080
Many gateways:  the same, with --redis-url redis://redis:6379 on each";

/// A WebSocket gateway that knows who is online.
///
/// Each device holds one socket; its user's contacts see the dot change within milliseconds.
#[derive(Debug, Parser)]
#[command(name = "presence-gateway", version, args_override_self = true, after_help = SOURCES)]
pub(super) struct Flags {
    /// Read settings from this TOML file
    #[arg(long, value_name = "PATH", help_heading = "Start")]
    pub(super) config: Option<PathBuf>,

    /// Quick start: no authentication, on loopback, with a demo page
    #[arg(long, help_heading = "Start", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(action = ArgAction::Set, value_parser = values::truth)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(super) dev: bool,

    /// Accept sockets and HTTP here
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Start")]
    #[arg(default_value = "127.0.0.1:8080", value_parser = values::listen)]
    pub(super) listen: SocketAddr,

    /// Speak TLS only, with this certificate and those after it in the file (PEM)
    #[arg(long, value_name = "PATH", help_heading = "Start")]
    pub(super) tls_cert_file: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "PATH", help_heading = "Start")]
    pub(super) tls_key_file: Option<PathBuf>,

    /// Keep presence in this process, or in Redis for many gateways [default: redis when
    /// --redis-url is set, else embedded]
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Store")]
    pub(super) store: Option<StoreKind>,

    /// redis://, redis-cluster:// or redis-sentinel://, or rediss… for TLS
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(super) redis_url: Option<Secret>,

    /// Trust only the certificate authorities in this PEM file, not this machine's
    #[arg(long, value_name = "PATH", help_heading = "Store")]
    pub(super) redis_ca_file: Option<PathBuf>,

    /// Show Redis this client certificate (PEM)
    #[arg(long, value_name = "PATH", help_heading = "Store")]
    pub(super) redis_cert_file: Option<PathBuf>,

    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "PATH", help_heading = "Store")]
    pub(super) redis_key_file: Option<PathBuf>,

    /// Start every key and channel in Redis with this
    #[arg(long, value_name = "TEXT", help_heading = "Store")]
    #[arg(default_value = "presence", value_parser = values::prefix)]
    pub(super) prefix: String,

    /// Ask for a sign of life this often
    #[arg(long, value_name = "DURATION", help_heading = "Presence")]
    #[arg(default_value = "10s", value_parser = values::positive_duration)]
    pub(super) heartbeat: Duration,

    /// Count a session as alive for this long after its last sign of life
    #[arg(long, value_name = "DURATION", help_heading = "Presence")]
    #[arg(default_value = "30s", value_parser = values::positive_duration)]
    pub(super) ttl: Duration,

    /// Hold an offline back for this long, so that a quick reconnect shows nothing
    #[arg(long, value_name = "DURATION", help_heading = "Presence")]
    #[arg(default_value = "3s", value_parser = values::duration)]
    pub(super) grace: Duration,

    /// Remember when an offline user was last seen for this long
    #[arg(long, value_name = "DURATION", help_heading = "Presence")]
    #[arg(default_value = "30d", value_parser = values::positive_duration)]
    pub(super) last_seen: Duration,

    /// How clients prove who they are [default: jwt when a secret, a key file or a key URL is set;
    /// none with --dev; otherwise you must choose]
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Access")]
    pub(super) auth: Option<AuthKind>,

    /// Verify tokens (HS256) with this secret of at least 32 bytes; a process list shows flags,
    /// so prefer the environment or a file
    #[arg(long, value_name = "SECRET", help_heading = "Access")]
    pub(super) jwt_secret: Option<Secret>,

    /// Read such secrets from this file, one a line; tokens of any of them are accepted
    #[arg(long, value_name = "PATH", help_heading = "Access")]
    pub(super) jwt_secret_file: Option<PathBuf>,

    /// Verify tokens (RS256, ES256, Ed25519) with the public keys in this PEM file; read again when
    /// it changes
    #[arg(long, value_name = "PATH", help_heading = "Access")]
    pub(super) jwt_public_key_file: Option<PathBuf>,

    /// Verify tokens (RS256, ES256, Ed25519) with the keys published here (JWKS)
    #[arg(long, value_name = "URL", help_heading = "Access")]
    pub(super) jwks_url: Option<Secret>,

    /// Fetch those keys this often, and early when a token names an unknown one
    #[arg(long, value_name = "DURATION", help_heading = "Access")]
    #[arg(default_value = "5m", value_parser = values::jwks_refresh)]
    pub(super) jwks_refresh: Duration,

    /// Accept only tokens whose `iss` is this
    #[arg(long, value_name = "TEXT", help_heading = "Access")]
    pub(super) jwt_issuer: Option<String>,

    /// Accept only tokens whose `aud` is or contains this
    #[arg(long, value_name = "TEXT", help_heading = "Access")]
    pub(super) jwt_audience: Option<String>,

    /// Accept tokens so long before their `nbf` and after their `exp`, for clocks that differ
    #[arg(long, value_name = "DURATION", help_heading = "Access")]
    #[arg(default_value = "30s", value_parser = values::leeway)]
    pub(super) jwt_leeway: Duration,

    /// Trust only the certificate authorities in this PEM file where the gateway itself calls over
    /// https, not this machine's
    #[arg(long, value_name = "PATH", help_heading = "Access")]
    pub(super) outbound_ca_file: Option<PathBuf>,

    /// Open the HTTP calls under /v1 to whoever has this key of at least 16 bytes, or one of these,
    /// with commas between them
    #[arg(long, value_name = "SECRET", help_heading = "Access")]
    pub(super) api_key: Option<Secret>,

    /// Remember for this long whose tokens were revoked: at least as long as any token is valid
    #[arg(long, value_name = "DURATION", help_heading = "Access")]
    #[arg(default_value = "1d", value_parser = values::revocation_kept)]
    pub(super) revocation_kept: Duration,

    #[command(flatten)]
    pub(super) watching: WatchFlags,

    /// Allow --auth none or --dev on an address that others can reach
    #[arg(long, help_heading = "Access", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(action = ArgAction::Set, value_parser = values::truth)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(super) allow_insecure: bool,

    #[command(flatten)]
    pub(super) admission: AdmissionFlags,

    /// Let a session watch at most this many users
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) max_watch: u32,

    /// Handle at most this many frames a second of one connection
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) message_rate: u32,

    /// Accept frames of at most this size
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[arg(default_value = "64KiB", value_parser = values::frame_bytes)]
    pub(super) max_frame_bytes: usize,

    /// Close a socket that has not said hello by then
    #[arg(long, value_name = "DURATION", help_heading = "Limits")]
    #[arg(default_value = "5s", value_parser = values::positive_duration)]
    pub(super) hello_timeout: Duration,

    /// Close a socket that takes nothing for this long
    #[arg(long, value_name = "DURATION", help_heading = "Limits")]
    #[arg(default_value = "10s", value_parser = values::positive_duration)]
    pub(super) write_timeout: Duration,

    /// Take this long to move clients elsewhere on SIGTERM
    #[arg(long, value_name = "DURATION", help_heading = "Operation")]
    #[arg(default_value = "30s", value_parser = values::duration)]
    pub(super) drain: Duration,

    /// How log lines look; auto is human on a terminal and json elsewhere
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "auto",
        help_heading = "Operation"
    )]
    pub(super) log_format: LogFormat,

    /// Which log lines appear, such as info or warn,presence=debug
    #[arg(long, value_name = "FILTER", help_heading = "Operation")]
    #[arg(default_value = "info", value_parser = values::log_filter)]
    pub(super) log: String,

    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// What the program can do instead of serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Print the Redis keys of a user
    Key {
        /// The user's id
        #[arg(value_parser = values::user)]
        user: UserId,
    },
    /// Sign a token for a user with the configured secret, for development
    Token {
        /// The user's id
        #[arg(value_parser = values::user)]
        user: UserId,
        /// How long it is valid
        #[arg(long, value_name = "DURATION", default_value = "1h")]
        #[arg(value_parser = values::positive_duration)]
        expires: Duration,
    },
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human where stderr is a terminal, else JSON
    Auto,
    /// For eyes
    Human,
    /// One JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    Embedded,
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AuthKind {
    Jwt,
    None,
}

/// The parser; settings are accepted before and after a subcommand.
pub(super) fn command() -> clap::Command {
    Flags::command().mut_args(|arg| arg.global(true))
}

/// The name of every setting, in snake case.
pub(super) fn names() -> Vec<String> {
    command().get_arguments().map(|arg| arg.get_id().to_string()).collect()
}
