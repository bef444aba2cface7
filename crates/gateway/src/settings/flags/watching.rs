//! The settings of who may watch whom.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::super::values::{self, Secret};

#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "a field has the name of its setting")]
pub(in super::super) struct WatchFlags {
    /// Who decides whom a user may watch: nobody (open), the token or a grant (token), or your
    /// backend when it is asked (callback). A claim `watch` restricts it under each
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Access")]
    #[arg(default_value = "open")]
    pub(in super::super) watch_policy: PolicyKind,

    /// Ask here whom users may watch (POST)
    #[arg(long, value_name = "URL", help_heading = "Access")]
    pub(in super::super) watch_callback_url: Option<Secret>,

    /// Show this key of at least 16 bytes there, as `Authorization: Bearer`
    #[arg(long, value_name = "SECRET", help_heading = "Access")]
    pub(in super::super) watch_callback_secret: Option<Secret>,

    /// Give one call there up after this
    #[arg(long, value_name = "DURATION", help_heading = "Access")]
    #[arg(default_value = "2s", value_parser = values::positive_duration)]
    pub(in super::super) watch_callback_timeout: Duration,

    /// Use an answer for this long
    #[arg(long, value_name = "DURATION", help_heading = "Access")]
    #[arg(default_value = "1m", value_parser = values::duration)]
    pub(in super::super) watch_callback_ttl: Duration,

    /// Keep at most this many answers, each about one user and another; 100,000 take about 15 MB
    #[arg(long, value_name = "COUNT", help_heading = "Access")]
    #[arg(default_value = "500000", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(in super::super) watch_callback_cache: u32,

    /// While it does not answer, let users watch nobody new, or everyone
    #[arg(long, value_enum, value_name = "KIND", help_heading = "Access")]
    #[arg(default_value = "refuse")]
    pub(in super::super) watch_callback_down: Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum PolicyKind {
    Open,
    Token,
    Callback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum Down {
    Refuse,
    Allow,
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Token => "token",
            Self::Callback => "callback",
        })
    }
}
