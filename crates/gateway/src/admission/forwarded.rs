//! Who a request comes from, where it came by proxies: each appends the address of whom it speaks for, so that the list is
//! believed from its end, for as long as those who wrote it are trusted.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderValue, header};

use crate::settings::{AddressHeader, Proxies};

/// The address of the client: the first from the end that is no trusted proxy's, or the last that can be known.
pub(super) fn client(proxies: &Proxies, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    match proxies.header {
        AddressHeader::XForwardedFor => {
            let values = headers.get_all("x-forwarded-for").iter().rev().map(text);
            walk(proxies, peer, values.flat_map(|value| value.rsplit(',').map(plain)))
        }
        AddressHeader::Forwarded => {
            let values = headers.get_all(header::FORWARDED).iter().rev().map(text);
            let told = |element: Result<rfc7239::Forwarded, rfc7239::RfcError>| {
                element.ok()?.forwarded_for?.ip().copied()
            };
            walk(proxies, peer, values.flat_map(|value| rfc7239::parse(value).rev().map(told)))
        }
    }
}

/// `told` is what each proxy told, the nearest one first; none where it makes no sense.
fn walk(proxies: &Proxies, peer: IpAddr, told: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
    let mut client = peer;
    for address in told {
        match address {
            Some(address) if proxies.trusted.contain(client) => client = address,
            _ => break,
        }
    }
    client
}

fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default()
}

/// An element of `X-Forwarded-For`; some proxies add the port.
fn plain(element: &str) -> Option<IpAddr> {
    let element = element.trim();
    let with_port = || SocketAddr::from_str(element).ok().map(|address| address.ip());
    let bracketed = || element.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    IpAddr::from_str(element).ok().or_else(with_port).or_else(bracketed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;
    use crate::settings::Settings;

    fn client_of(header: &str, peer: &str, lines: &[(&str, &str)]) -> String {
        let flags = [
            "presence-gateway",
            "--dev",
            "--trusted-proxies=10.0.0.0/8,192.168.1.7,fd00::/8",
            &format!("--address-header={header}"),
        ];
        let settings = Settings::from_parts(flags, [], None).unwrap();
        let line = |(name, value): &(&str, &str)| {
            (HeaderName::from_str(name).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let headers: HeaderMap = lines.iter().map(line).collect();
        client(&settings.admission.proxies, peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn x_forwarded_for_is_believed_from_its_end_as_far_as_it_is_trusted() {
        let table: &[(&str, &[&str], &str)] = &[
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("192.168.1.7", &["2001:db8::5"], "2001:db8::5"),
            ("192.168.1.8", &["2001:db8::5"], "192.168.1.8"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.2.2.2,fd00::3"], "198.51.100.1"),
            ("10.0.0.1", &["1.1.1.1, 198.51.100.1", "10.2.2.2"], "198.51.100.1"),
            ("10.0.0.1", &["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
            ("10.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8::5]:4711"], "2001:db8::5"),
            ("10.0.0.1", &["[2001:db8::5]"], "2001:db8::5"),
            ("10.0.0.1", &["198.51.100.1, nonsense, 10.2.2.2"], "10.2.2.2"),
            ("10.0.0.1", &["198.51.100.1, "], "10.0.0.1"),
        ];
        for (peer, values, expected) in table {
            let lines: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            assert_eq!(client_of("x-forwarded-for", peer, &lines), *expected, "{peer} {values:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        let table = [
            ("for=198.51.100.1", "198.51.100.1"),
            ("For=\"[2001:db8::5]:4711\";proto=https;by=10.0.0.1", "2001:db8::5"),
            ("for=1.1.1.1, for=198.51.100.1;proto=http, for=10.2.2.2", "198.51.100.1"),
            ("for=198.51.100.1, for=unknown, for=10.2.2.2", "10.2.2.2"),
            ("for=198.51.100.1, for=_hidden", "10.0.0.1"),
            ("for=198.51.100.1, proto=https", "10.0.0.1"),
            ("for=198.51.100.1, nonsense", "10.0.0.1"),
            ("", "10.0.0.1"),
        ];
        for (value, expected) in table {
            let found = client_of("forwarded", "10.0.0.1", &[("forwarded", value)]);
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn the_header_that_proxies_do_not_write_is_the_clients_own_and_not_read() {
        let both = [("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "198.51.100.1")];
        assert_eq!(client_of("x-forwarded-for", "10.0.0.1", &both), "198.51.100.1");
        assert_eq!(client_of("forwarded", "10.0.0.1", &both), "1.1.1.1");
    }
}
