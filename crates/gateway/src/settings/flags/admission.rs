//! The settings that say who comes in, how many, and as whom. A part of [`super::Flags`].

use std::time::Duration;

use clap::{ArgAction, Args};

use crate::settings::admission::{
    self, AddressHeader, MemoryLimit, Networks, Origins, SessionsOver,
};
use crate::settings::values;

#[derive(Debug, Args)]
pub(in crate::settings) struct AdmissionFlags {
    /// Browsers may connect from pages of these origins, or of any with *; separated by commas
    /// [default: pages of the host that the request names]
    #[arg(long, value_name = "ORIGINS", help_heading = "Access")]
    #[arg(value_parser = admission::origins)]
    pub(in crate::settings) allowed_origins: Option<Origins>,

    /// Believe what proxies at these addresses say of their clients; networks such as 10.0.0.0/8,
    /// separated by commas
    #[arg(long, value_name = "NETWORKS", help_heading = "Proxies")]
    #[arg(value_parser = admission::networks)]
    pub(in crate::settings) trusted_proxies: Option<Networks>,

    /// Trusted proxies begin each connection with a PROXY header, of version 1 or 2
    #[arg(long, help_heading = "Proxies", value_name = "BOOL", default_value = "false")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(action = ArgAction::Set, value_parser = values::truth)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(in crate::settings) proxy_protocol: bool,

    /// The header in which trusted proxies tell a client's address
    #[arg(long, value_enum, value_name = "HEADER", help_heading = "Proxies")]
    #[arg(default_value = "x-forwarded-for")]
    pub(in crate::settings) address_header: AddressHeader,

    /// Turn sockets away beyond this many; each costs about 15 KB, most of it in the kernel
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "100000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(in crate::settings) max_connections: u32,

    /// Turn sockets of one address away beyond this many, those of an IPv6 /64 together; 0 is any number
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "10000", value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub(in crate::settings) max_connections_per_address: u32,

    /// Let a user have this many sessions on this gateway
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "100", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(in crate::settings) max_sessions_per_user: u32,

    /// Which of a user's sessions gives way when there is one too many
    #[arg(long, value_enum, value_name = "WHICH", help_heading = "Limits")]
    #[arg(default_value = "oldest")]
    pub(in crate::settings) sessions_over: SessionsOver,

    /// Accept no more while this many connections have not said hello yet
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::settings) max_handshakes: u32,

    /// Accept at most this many connections a second; 0 is any number [default: 2500 for each core]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(in crate::settings) handshake_rate: Option<u32>,

    /// Give a request this long to come, its head and its body, and the next one to begin
    #[arg(long, value_name = "DURATION", help_heading = "Limits")]
    #[arg(default_value = "10s", value_parser = values::positive_duration)]
    pub(in crate::settings) http_timeout: Duration,

    /// Turn sockets away while this much memory is used; 0 is any amount [default: 80 % of what
    /// the machine, or this process's cgroup, has]
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[arg(value_parser = admission::memory_limit)]
    pub(in crate::settings) max_memory: Option<MemoryLimit>,

    /// Drop answers to a client that does not read, beyond this size; states follow when it reads
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    #[arg(default_value = "1MiB", value_parser = admission::unsent_bytes)]
    pub(in crate::settings) max_unsent_bytes: usize,
}
