//! Which pages may connect. A browser says from whose page a socket is opened, and a script cannot change that; who is no
//! browser says nothing, and is let through to prove itself by its token.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use crate::settings::Origins;

/// Whether a request comes from no page, or from one that may connect.
pub(super) fn is_allowed(allowed: &Origins, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    match allowed {
        Origins::Any => true,
        Origins::Listed(origins) => origins.iter().any(|one| one.eq_ignore_ascii_case(origin)),
        Origins::SameHost => is_same_host(origin, headers),
    }
}

/// Whatever the ports are: a page that is served beside the gateway has its own. The names of this machine are one host.
fn is_same_host(origin: &str, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let origin = origin.parse::<Uri>().ok().filter(|origin| origin.scheme().is_some());
    let Some((origin, host)) = origin.as_ref().and_then(Uri::host).zip(host.as_ref()) else {
        return false;
    };
    let host = host.host();
    origin.eq_ignore_ascii_case(host) || (is_this_machine(origin) && is_this_machine(host))
}

fn is_this_machine(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allows(allowed: &Origins, host: &'static str, origin: &'static str) -> bool {
        let host = (header::HOST, HeaderValue::from_static(host));
        let origin = (header::ORIGIN, HeaderValue::from_static(origin));
        is_allowed(allowed, &HeaderMap::from_iter([host, origin]))
    }

    #[test]
    fn a_page_of_the_same_host_may_connect_and_no_other() {
        let allows = |host, origin| allows(&Origins::SameHost, host, origin);
        for (host, origin) in [
            ("chat.example.com", "https://chat.example.com"),
            ("chat.example.com:443", "https://Chat.Example.com"),
            ("chat.example.com:8080", "http://chat.example.com:3000"),
            ("[2001:db8::1]:8080", "http://[2001:db8::1]"),
            ("127.0.0.1:8080", "http://localhost:5173"),
            ("localhost:8080", "http://[::1]:5173"),
        ] {
            assert!(allows(host, origin), "{origin} to {host}");
        }
        for (host, origin) in [
            ("chat.example.com", "https://example.com"),
            ("chat.example.com", "https://chat.example.com.evil.test"),
            ("chat.example.com", "https://evil.test/chat.example.com"),
            ("chat.example.com", "https://chat.example.com@evil.test"),
            ("chat.example.com", "chat.example.com"),
            ("chat.example.com", "null"),
            ("null", "null"),
            ("", ""),
            ("127.0.0.1:8080", "http://127.0.0.1.evil.test"),
        ] {
            assert!(!allows(host, origin), "{origin} to {host}");
        }
    }

    #[test]
    fn who_is_no_browser_is_let_through() {
        let listed = Origins::Listed(vec!["https://a.test".to_owned()]);
        for allowed in [Origins::SameHost, listed, Origins::Any] {
            assert!(is_allowed(&allowed, &HeaderMap::new()), "{allowed}");
        }
    }

    #[test]
    fn a_list_is_all_that_may_connect_and_a_star_is_everybody() {
        let listed = Origins::Listed(vec!["https://a.test".to_owned()]);
        assert!(allows(&listed, "gateway.test", "https://A.test"));
        assert!(!allows(&listed, "gateway.test", "https://gateway.test"));
        assert!(!allows(&listed, "gateway.test", "http://a.test"));
        assert!(allows(&Origins::Any, "gateway.test", "null"));
    }
}
