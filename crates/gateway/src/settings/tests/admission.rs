//! The settings that say who comes in, how many, and as whom.

use std::num::NonZeroU64;
use std::time::Duration;

use super::super::{AddressHeader, MemoryLimit, Origins, SessionsOver, Settings};
use super::dev;
use super::refusals::refusal;

fn admission(flags: &[&str]) -> super::super::Admission {
    dev(flags).unwrap().admission
}

#[test]
fn every_limit_has_a_safe_default() {
    let limits = admission(&[]);
    assert_eq!(limits.max_connections_per_address, 10_000);
    assert_eq!((limits.max_sessions_per_user, limits.sessions_over), (100, SessionsOver::Oldest));
    assert_eq!((limits.max_handshakes, limits.handshake_rate), (4096, None));
    assert_eq!(limits.http_timeout, Duration::from_secs(10));
    assert_eq!((limits.max_unsent_bytes, limits.max_memory), (1 << 20, MemoryLimit::Share));
    assert_eq!(limits.allowed_origins, Origins::SameHost);
    let proxies = limits.proxies;
    assert!(!proxies.speak_proxy_protocol && proxies.header == AddressHeader::XForwardedFor);
    assert!(!proxies.trusted.contain("127.0.0.1".parse().unwrap()));
}

#[test]
fn nothing_is_any_number_or_amount() {
    let limits = admission(&[
        "--max-connections-per-address=0",
        "--handshake-rate=0",
        "--max-memory=0",
        "--sessions-over=newest",
    ]);
    assert_eq!((limits.max_connections_per_address, limits.handshake_rate), (0, Some(0)));
    assert_eq!(limits.max_memory, MemoryLimit::Unlimited);
    assert_eq!(limits.sessions_over, SessionsOver::Newest);
}

#[test]
fn sizes_and_lists_are_read() {
    let bytes = |bytes| MemoryLimit::Bytes(NonZeroU64::new(bytes).unwrap());
    assert_eq!(admission(&["--max-memory=2GiB"]).max_memory, bytes(2 << 30));
    assert_eq!(admission(&["--max-memory=512 MiB"]).max_memory, bytes(512 << 20));
    assert_eq!(admission(&["--max-unsent-bytes=16KiB"]).max_unsent_bytes, 16 << 10);
    assert_eq!(admission(&["--allowed-origins=*"]).allowed_origins, Origins::Any);
    let listed = ["https://chat.example.com", "http://localhost:3000"].map(str::to_owned);
    let given = "--allowed-origins=https://Chat.example.com, http://localhost:3000";
    assert_eq!(admission(&[given]).allowed_origins, Origins::Listed(listed.to_vec()));
    let trusted =
        admission(&["--trusted-proxies=10.0.0.0/8, 192.168.1.7,fd00::/8"]).proxies.trusted;
    for (address, expected) in [
        ("10.9.9.9", true),
        ("::ffff:10.9.9.9", true),
        ("11.0.0.1", false),
        ("192.168.1.7", true),
        ("192.168.1.8", false),
        ("fd12::1", true),
        ("2001:db8::1", false),
    ] {
        assert_eq!(trusted.contain(address.parse().unwrap()), expected, "{address}");
    }
}

#[test]
fn what_makes_no_sense_is_named_with_what_would_be_right() {
    let table: &[(&str, &[&str])] = &[
        ("--max-sessions-per-user=0", &["--max-sessions-per-user", "1..=10000"]),
        ("--sessions-over=both", &["--sessions-over", "oldest, newest"]),
        ("--max-handshakes=0", &["--max-handshakes", "1..=1000000"]),
        ("--handshake-rate=fast", &["--handshake-rate", "'fast'"]),
        ("--http-timeout=0s", &["--http-timeout", "longer than zero"]),
        ("--max-unsent-bytes=1KiB", &["--max-unsent-bytes", "16KiB to 1GiB"]),
        ("--max-memory=half", &["--max-memory", "512MiB"]),
        ("--max-memory=99999999999GiB", &["--max-memory", "2GiB"]),
        ("--trusted-proxies=10.0.0.0/33", &["--trusted-proxies", "10.0.0.0/8"]),
        ("--trusted-proxies=", &["--trusted-proxies", "192.168.1.7"]),
        ("--trusted-proxies=proxy.internal", &["--trusted-proxies", "fd00::/8"]),
        ("--address-header=via", &["--address-header", "x-forwarded-for, forwarded"]),
        ("--allowed-origins=chat.example.com", &["--allowed-origins", "https://chat.example.com"]),
        ("--allowed-origins=https://a.test/", &["--allowed-origins", "http://localhost:3000"]),
        ("--allowed-origins=https://a.test/chat", &["--allowed-origins", "must be * or origins"]),
        ("--proxy-protocol", &["proxy_protocol is on", "trusted_proxies", "10.0.0.0/8"]),
    ];
    for (flag, named) in table {
        let line = refusal(dev(&[flag]));
        for name in *named {
            assert!(line.contains(name), "{flag}: no {name} in: {line}");
        }
    }
}

#[test]
fn the_start_tells_each_of_them() {
    let settings = dev(&["--trusted-proxies=10.0.0.0/8", "--proxy-protocol"]).unwrap();
    let summary = settings.summary();
    for (name, value) in [
        ("max_connections_per_address", "10000"),
        ("sessions_over", "oldest"),
        ("handshake_rate", "by cores"),
        ("max_memory", "80 %"),
        ("allowed_origins", "same host"),
        ("trusted_proxies", "10.0.0.0/8"),
        ("proxy_protocol", "true"),
        ("address_header", "x-forwarded-for"),
    ] {
        assert!(summary.contains(&(name, value.to_owned())), "{name}: {summary:?}");
    }
    assert!(Settings::dev().summary().contains(&("trusted_proxies", String::new())));
}
