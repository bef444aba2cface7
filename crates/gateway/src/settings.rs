//! Everything an operator can set, from flags, `PRESENCE_…` variables and a TOML file.
//!
//! One clap struct (`settings/flags.rs`) is the only definition of names, defaults and parsers.
//! Values from the file and the environment are turned into flags that stand before the real ones
//! (`settings/sources.rs`), so one parser and "the last one wins" give all three their precedence.
//! What holds between settings is checked at the end (`settings/rules.rs`).
//! Nothing here binds, connects or logs, and only [`Settings::load`] reads the process's own state.

mod admission;
mod flags;
mod outbound_url;
mod rules;
mod sources;
mod values;
mod watching;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use admission::{
    AddressHeader, Admission, MemoryLimit, Networks, Origins, Proxies, SessionsOver,
};
pub use flags::{Command, LogFormat};
pub use outbound_url::OutboundUrl;
use presence::store::redis::TlsFiles;
pub use values::{RedisUrl, Secret};
pub use watching::{Callback, WatchPolicy, WhenDown};

/// What one gateway was told to do: checked, complete, and safe to print with `{:?}`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where sockets and HTTP are accepted; port 0 takes any free one.
    pub listen: SocketAddr,
    /// What encrypts connections; without it they are not encrypted here.
    pub tls: Option<CertificateFiles>,
    /// The most sockets at one time; more are turned away with HTTP 503.
    pub max_connections: u32,
    /// Where presence is kept.
    pub store: Store,
    /// What TLS to Redis takes, where the URL asks for it.
    pub redis_tls: TlsFiles,
    /// The start of every key and channel in Redis: 1 to 64 of `[A-Za-z0-9_:-]`.
    pub prefix: String,
    /// How often a client should show a sign of life; at least 100 ms.
    pub heartbeat: Duration,
    /// How long a session lives after its last heartbeat; at least twice `heartbeat`.
    pub ttl: Duration,
    /// How long an offline is held back so that a quick reconnect shows nothing; may be zero.
    pub grace: Duration,
    /// How long "last seen" is kept of a user who is offline; at least `ttl`.
    pub last_seen: Duration,
    /// How a client proves who it is.
    pub auth: Auth,
    /// How often the keys at `jwks_url` are fetched; at least 10 s.
    pub jwks_refresh: Duration,
    /// Who decides whom a user may watch.
    pub watch_policy: WatchPolicy,
    /// The certificate authorities that calls of our own over https trust; else those of this machine.
    pub outbound_ca_file: Option<PathBuf>,
    /// Each opens the HTTP calls under `/v1`; without any they answer 404.
    pub api_keys: Vec<Secret>,
    /// How long it is remembered whose tokens were revoked; at least 1 min.
    pub revocation_kept: Duration,
    /// How long a new socket may take to say `hello`.
    pub hello_timeout: Duration,
    /// How long a socket may take nothing that is written to it.
    pub write_timeout: Duration,
    /// The largest frame accepted from a client; a larger one closes with 1009.
    pub max_frame_bytes: usize,
    /// The most users that one session may watch.
    pub max_watch: u32,
    /// The most frames a second of one connection, Pings and fragments included; four seconds' worth may come at once.
    pub message_rate: u32,
    /// Who comes in, how many, and as whom.
    pub admission: Admission,
    /// How long SIGTERM takes to move clients elsewhere before the process ends; may be zero.
    pub drain: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which log lines appear, as a `tracing` filter such as `info,presence=debug`.
    pub log: String,
    /// Development mode: serve the demo page.
    pub dev: bool,
    /// What to do instead of serving.
    pub command: Option<Command>,
}

/// A certificate of this gateway's and its key, as PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and after it those that lead to its authority.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Where presence is kept.
#[derive(Clone, Debug)]
pub enum Store {
    /// In this process, for one gateway.
    Embedded,
    /// In Redis or Valkey, for many gateways.
    Redis(RedisUrl),
}

/// How a client proves who it is.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Everyone is who they say they are.
    None,
    /// By a signed token.
    Jwt {
        /// Where the keys that verify signatures come from.
        keys: KeySources,
        /// What else must be true of a token.
        rules: TokenRules,
    },
}

/// Where the keys that verify tokens come from: any of these, at the same time; at least one.
#[derive(Clone, Debug, Default)]
pub struct KeySources {
    /// For HS256: secrets of at least 32 bytes, shared with the backend that signs. Development tokens are signed with
    /// the first.
    pub secrets: Vec<Secret>,
    /// For RS256, ES256 and `EdDSA`: public keys as PEM, in a file that is read again when it changes.
    pub public_key_file: Option<PathBuf>,
    /// For the same: where a JWK set is published.
    pub jwks_url: Option<OutboundUrl>,
}

/// What a token must say, whichever key signed it.
#[derive(Clone, Debug)]
pub struct TokenRules {
    /// The `iss` it must carry; without one, `iss` is not looked at.
    pub issuer: Option<String>,
    /// The `aud` it must carry; without one, tokens that carry any are refused (RFC 7519, 4.1.3).
    pub audience: Option<String>,
    /// How far the signer's clock and ours may be apart, for `exp` and `nbf` alike; whole seconds, at most 5 min.
    pub leeway: Duration,
}

/// Why there are no settings.
#[derive(Debug)]
pub enum SettingsError {
    /// `--help` or `--version` was asked for: this is the text, not a fault.
    Asked(String),
    /// One line that names what is wrong and says what would be right.
    Invalid(String),
}

/// The TOML file, read but not yet understood.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// What to call it in an error.
    pub path: &'a str,
    /// What it says.
    pub text: &'a str,
}

impl Settings {
    /// Reads the process's arguments, its environment and the file they name.
    pub fn load() -> Result<Settings, SettingsError> {
        let args: Vec<_> = std::env::args_os().collect();
        let env = sources::environment()?;
        let Some(path) = sources::config_path(&args, &env)? else {
            return Self::from_parts(args, env, None);
        };
        let text = sources::read(&path)?;
        let path = path.display().to_string();
        Self::from_parts(args, env, Some(File { path: &path, text: &text }))
    }

    /// The settings of these arguments (the first is the program), variables and file.
    ///
    /// Variables that do not start with `PRESENCE_` are passed over. The only thing read from
    /// outside is the file that `jwt_secret_file` names.
    pub fn from_parts<A, E>(args: A, env: E, file: Option<File>) -> Result<Settings, SettingsError>
    where
        A: IntoIterator,
        A::Item: Into<std::ffi::OsString>,
        E: IntoIterator<Item = (String, String)>,
    {
        let args: Vec<_> = args.into_iter().map(Into::into).collect();
        let flags = sources::merge(&args, env, file)?;
        rules::resolve(flags).map_err(SettingsError::Invalid)
    }

    /// Development mode on a free port of the loopback address, for tests.
    pub fn dev() -> Settings {
        let args = ["presence-gateway", "--dev", "--listen=127.0.0.1:0"];
        Self::from_parts(args, [], None).expect("these flags are valid together")
    }

    /// What a start-up message may show, in reading order; no secret is in it.
    pub fn summary(&self) -> Vec<(&'static str, String)> {
        let duration = values::written;
        let mut lines = vec![
            ("listen", self.listen.to_string()),
            ("tls", if self.tls.is_some() { "on" } else { "off" }.to_owned()),
            ("store", self.store.to_string()),
            ("prefix", self.prefix.clone()),
            ("auth", self.auth.to_string()),
            ("jwks_refresh", duration(self.jwks_refresh)),
            ("watch_policy", self.watch_policy.to_string()),
            ("api_keys", self.api_keys.len().to_string()),
            ("revocation_kept", duration(self.revocation_kept)),
            ("heartbeat", duration(self.heartbeat)),
            ("ttl", duration(self.ttl)),
            ("grace", duration(self.grace)),
            ("last_seen", duration(self.last_seen)),
            ("drain", duration(self.drain)),
            ("max_connections", self.max_connections.to_string()),
            ("max_watch", self.max_watch.to_string()),
            ("message_rate", self.message_rate.to_string()),
            ("hello_timeout", duration(self.hello_timeout)),
            ("write_timeout", duration(self.write_timeout)),
            ("max_frame_bytes", self.max_frame_bytes.to_string()),
            ("log", self.log.clone()),
            ("dev", self.dev.to_string()),
        ];
        lines.extend(self.admission.summary());
        lines
    }
}

impl SettingsError {
    /// Prints what is to be said and ends the process: 0 where help was asked for, else 2.
    pub fn exit(&self) -> ! {
        match self {
            Self::Asked(text) => {
                print!("{text}");
                std::process::exit(0)
            }
            Self::Invalid(line) => {
                eprintln!("presence-gateway: {line}");
                std::process::exit(2)
            }
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Jwt { keys, rules } => write!(f, "jwt ({keys}; {rules})"),
        }
    }
}

impl fmt::Display for KeySources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = match self.secrets.len() {
            0 => vec![],
            1 => vec!["a secret".to_owned()],
            many => vec![format!("{many} secrets")],
        };
        parts.extend(self.public_key_file.iter().map(|path| format!("keys in {}", path.display())));
        parts.extend(self.jwks_url.iter().map(|url| format!("keys at {url}")));
        f.write_str(&parts.join(", "))
    }
}

impl fmt::Display for TokenRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |rule: &Option<String>| rule.clone().unwrap_or_else(|| "any".to_owned());
        let none = |rule: &Option<String>| rule.clone().unwrap_or_else(|| "none".to_owned());
        write!(f, "iss {}, aud {}, ", any(&self.issuer), none(&self.audience))?;
        write!(f, "leeway {}", values::written(self.leeway))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Asked(text) | Self::Invalid(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for SettingsError {}
