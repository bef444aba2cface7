//! Who a client is where it comes by proxies, by what the limit of an address counts. All connect from this machine, which
//! is trusted here and is itself never counted.

use crate::house::{House, Kind, OPEN, SLOW};
use crate::http::metric;
use crate::raw::Raw;

const TRUSTED: &str = "--trusted-proxies=127.0.0.0/8,10.0.0.0/8";

async fn gateway(flags: &[&str]) -> House {
    let flags = [&[OPEN, "--max-connections-per-address=2"], flags].concat();
    House::with(Kind::OneEmbedded, SLOW, &flags).await
}

/// Sockets that stay.
struct Asked<'a> {
    gateway: &'a House,
    kept: Vec<Raw>,
}

impl<'a> Asked<'a> {
    fn of(gateway: &'a House) -> Self {
        Self { gateway, kept: Vec::new() }
    }

    /// Asks for one, with this before the request and this header.
    async fn ask(&mut self, before: &[u8], header: &str) -> u16 {
        let (status, raw) = Raw::ask(self.gateway.here(), before, &[header]).await;
        if status == 101 {
            self.kept.push(raw);
        }
        status
    }

    async fn assert_refused(&self, why: &str, times: u64) {
        let name = format!("presence_refused_connections_total{{why=\"{why}\"}}");
        assert_eq!(metric(self.gateway.here(), &name).await, Some(times), "{why}");
    }
}

#[tokio::test]
async fn an_address_that_a_trusted_proxy_tells_has_only_so_many_sockets() {
    let gateway = gateway(&[TRUSTED]).await;
    let mut asked = Asked::of(&gateway);
    for (address, status) in [
        ("203.0.113.7", 101),
        ("203.0.113.7", 101),
        ("203.0.113.7", 429),
        ("198.51.100.1, 203.0.113.7, 10.1.1.1", 429),
        ("203.0.113.8", 101),
        // All of a /64 is one address.
        ("2001:db8:1:2::1", 101),
        ("2001:db8:1:2:ffff::9", 101),
        ("2001:db8:1:2::3", 429),
        ("2001:db8:1:3::1", 101),
    ] {
        let header = format!("x-forwarded-for: {address}");
        assert_eq!(asked.ask(b"", &header).await, status, "{address}");
    }
    asked.assert_refused("address", 3).await;
    // One that leaves makes room.
    drop(asked.kept.remove(0));
    let again = async || {
        let status = Raw::ask(gateway.here(), b"", &["x-forwarded-for: 203.0.113.7"]).await.0;
        (status == 101).then_some(())
    };
    presence_testkit::eventually("there is room", crate::client::PATIENCE, again).await;
}

#[tokio::test]
async fn whoever_is_not_trusted_is_not_believed() {
    let gateway = gateway(&["--trusted-proxies=10.0.0.0/8"]).await;
    let mut asked = Asked::of(&gateway);
    for _ in 0..5 {
        assert_eq!(asked.ask(b"", "x-forwarded-for: 203.0.113.7").await, 101);
    }
}

#[tokio::test]
async fn the_header_of_rfc_7239_is_read_where_it_is_chosen() {
    let gateway = gateway(&[TRUSTED, "--address-header=forwarded"]).await;
    let mut asked = Asked::of(&gateway);
    for status in [101, 101, 429] {
        assert_eq!(asked.ask(b"", "forwarded: for=203.0.113.7;proto=https").await, status);
    }
    // The other one is whatever the client wrote.
    assert_eq!(asked.ask(b"", "x-forwarded-for: 203.0.113.7").await, 101);
}

#[tokio::test]
async fn a_proxy_header_of_either_version_tells_the_address() {
    let gateway = gateway(&[TRUSTED, "--proxy-protocol"]).await;
    let mut asked = Asked::of(&gateway);
    let line = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n".as_slice();
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\x0a\0\0\x01\x12\x67\x01\xbb";
    assert_eq!(asked.ask(line, "x-a: b").await, 101);
    assert_eq!(asked.ask(binary, "x-a: b").await, 101);
    assert_eq!(asked.ask(line, "x-a: b").await, 429);
    assert_eq!(asked.ask(binary, "x-a: b").await, 429);
    // The client is no proxy, whatever it says.
    assert_eq!(asked.ask(line, "x-forwarded-for: 198.51.100.9").await, 429);
    // Another proxy came before, and is trusted.
    let from_proxy = b"PROXY TCP4 10.7.7.7 10.0.0.1 4711 443\r\n";
    assert_eq!(asked.ask(from_proxy, "x-forwarded-for: 198.51.100.9").await, 101);
    // A health check of the proxy's own.
    assert_eq!(asked.ask(b"PROXY UNKNOWN\r\n", "x-a: b").await, 101);
}

#[tokio::test]
async fn a_connection_of_a_proxy_without_its_header_is_refused() {
    let gateway = gateway(&["--trusted-proxies=127.0.0.2", "--proxy-protocol"]).await;
    let mut asked = Asked::of(&gateway);
    assert_eq!(asked.ask(b"", "x-a: b").await, 101, "this one is not trusted, and needs none");
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.2:0".parse().expect("an address")).expect("an address of this machine");
    let mut raw = Raw { stream: socket.connect(gateway.here()).await.expect("accepted") };
    raw.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    raw.rest().await;
    asked.assert_refused("proxy_header", 1).await;
}

#[tokio::test]
async fn one_address_does_not_take_all_handshakes() {
    let flags = [TRUSTED, "--proxy-protocol", "--max-handshakes=16"];
    let gateway = gateway(&flags).await;
    let line = b"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\n";
    let mut idle = Vec::new();
    for _ in 0..4 {
        let mut raw = Raw::connect(gateway.here()).await;
        raw.write(line).await;
        idle.push(raw);
    }
    // All of them are known to be there.
    let busy = "presence_handshakes";
    let there = || async {
        let mut raw = Raw::connect(gateway.here()).await;
        raw.write(
            b"PROXY UNKNOWN\r\nGET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
        raw.rest().await
    };
    presence_testkit::eventually("they are there", crate::client::PATIENCE, async || {
        there().await.contains(&format!("{busy} 5")).then_some(())
    })
    .await;
    let mut one_more = Raw::connect(gateway.here()).await;
    one_more.write(line).await;
    let answer = one_more.rest().await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("not said hello"), "{answer}");
    let (status, _) =
        Raw::ask(gateway.here(), b"PROXY TCP4 203.0.113.8 10.0.0.1 1 443\r\n", &[]).await;
    assert_eq!(status, 101);
}
