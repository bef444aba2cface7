//! TLS in the gateway's own process: who is let in, what is shown to whom, and how a certificate is renewed.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::Uri;
use presence_client::{Client as RustClient, Credential, DisconnectReason, Event, Options, Trust};
use presence_protocol::Availability;
use presence_testkit::{Authority, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, RootCertStore, SupportedProtocolVersion};

use crate::client::{PATIENCE, user};
use crate::house::{House, Kind, OPEN, SLOW, prefix, shared_redis};
use crate::process::Process;

const NAME: &str = "127.0.0.1";
/// When a certificate of these tests expires, in s since the Unix epoch: as the year 4096 begins.
const FAR_AWAY_S: u64 = 67_090_118_400;

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// An authority with a certificate for a gateway, and the flags that name it.
fn certified() -> (Authority, [String; 2]) {
    let authority = Authority::new();
    authority.certify("server", NAME);
    let cert = format!("--tls-cert-file={}", authority.cert_file("server"));
    let key = format!("--tls-key-file={}", authority.key_file("server"));
    (authority, [cert, key])
}

async fn gateway() -> (Authority, House) {
    let (authority, [cert, key]) = certified();
    let house = House::with(Kind::OneEmbedded, SLOW, &[OPEN, &cert, &key]).await;
    (authority, house)
}

/// A client that trusts this authority.
fn visitor(authority: &Authority, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(authority.ca_file()).expect("a certificate");
    roots.add(authority).expect("of an authority");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("known versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn shake_hands(visitor: &TlsConnector, addr: SocketAddr) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(addr).await.expect("accepted");
    let name = NAME.try_into().expect("an address");
    let agreed = timeout(PATIENCE, visitor.connect(name, stream)).await;
    agreed.expect("in time").expect("a handshake")
}

async fn get(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer, and an end that is no cut");
    answer
}

/// The value of a metric, by its name and labels as they are written.
async fn metric(visitor: &TlsConnector, addr: SocketAddr, name: &str) -> Option<u64> {
    let metrics = get(&mut shake_hands(visitor, addr).await, "/metrics").await;
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().expect("a whole number"))
}

/// Waits until who comes is shown the certificate that is in this file.
async fn until_shown(visitor: &TlsConnector, addr: SocketAddr, file: &str) {
    let wanted = CertificateDer::from_pem_file(file).expect("a certificate");
    let shown = async || {
        let stream = shake_hands(visitor, addr).await;
        let chain = stream.get_ref().1.peer_certificates().expect("a certificate");
        (chain[0] == wanted).then_some(())
    };
    eventually("the certificate is shown", PATIENCE, shown).await;
}

fn sign_in(addr: SocketAddr, trust: Trust, name: &str) -> RustClient {
    let url: Uri = format!("wss://{addr}/ws").parse().expect("a URL");
    let dial = presence_client::dial(url.clone(), trust);
    RustClient::connect(Options { dial, ..Options::new(url, Credential::User(user(name))) })
}

async fn until_seen(client: &RustClient, name: &str, wanted: Availability) {
    let seen = async || (client.state(&user(name))?.state.state == wanted).then_some(());
    eventually(&format!("{name} is seen {wanted:?}"), PATIENCE, seen).await;
}

#[tokio::test]
async fn the_rust_client_signs_in_over_tls_and_sees_who_comes_and_goes() {
    let (authority, gateway) = gateway().await;
    let trust = Trust::Only(authority.ca_file().into());
    let a = sign_in(gateway.here(), trust.clone(), "a");
    a.watch([user("b")]);
    until_seen(&a, "b", Availability::Offline).await;
    let b = sign_in(gateway.here(), trust, "b");
    until_seen(&a, "b", Availability::Online).await;
    b.bye().await;
    until_seen(&a, "b", Availability::Offline).await;
    a.bye().await;
}

#[tokio::test]
async fn a_client_that_does_not_trust_the_authority_sends_nothing() {
    let (authority, gateway) = gateway().await;
    let a = sign_in(gateway.here(), Trust::Machine, "a");
    let mut events = a.events();
    let event = timeout(PATIENCE, events.next()).await.expect("in time").expect("an event");
    let Event::Disconnected { reason: DisconnectReason::Unreachable(why), .. } = event else {
        panic!("no connection was due, not {event:?}");
    };
    // On a machine without authorities nobody is trusted either.
    assert!(why.contains("UnknownIssuer") || why.contains("authorities"), "{why}");
    let visitor = visitor(&authority, BOTH);
    let failed = "presence_tls_handshakes_total{result=\"failed\"}";
    if why.contains("UnknownIssuer") {
        let counted = async || metric(&visitor, gateway.here(), failed).await;
        assert!(eventually("the failure is counted", PATIENCE, counted).await >= 1);
    }
    assert_eq!(metric(&visitor, gateway.here(), "presence_sessions").await, Some(0));
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken_and_http_1_1_is_agreed_on() {
    let (authority, gateway) = gateway().await;
    for &version in BOTH {
        let mut stream = shake_hands(&visitor(&authority, &[version]), gateway.here()).await;
        let session = stream.get_ref().1;
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        let answer = get(&mut stream, "/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn who_comes_back_is_spared_the_long_handshake() {
    let (authority, gateway) = gateway().await;
    for &version in BOTH {
        let visitor = visitor(&authority, &[version]);
        for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut stream = shake_hands(&visitor, gateway.here()).await;
            // The ticket comes with the answer.
            get(&mut stream, "/healthz").await;
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expected), "{version:?}");
        }
    }
}

/// An end without a word of TLS would be an error to who reads.
#[tokio::test]
async fn whoever_closes_first_is_told_the_end_and_is_not_cut_off() {
    let (authority, gateway) = gateway().await;
    let mut stream = shake_hands(&visitor(&authority, BOTH), gateway.here()).await;
    let upgrade = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let close = b"\x88\x82\0\0\0\0\x03\xe8";
    stream.write_all(&[upgrade.as_bytes(), close].concat()).await.expect("it is taken");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.expect("in time").expect("an end that is no cut");
    assert!(answer.ends_with(b"\x88\x02\x03\xe8"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn whoever_speaks_http_without_tls_is_told_so() {
    let (authority, gateway) = gateway().await;
    let mut stream = TcpStream::connect(gateway.here()).await.expect("accepted");
    stream.write_all(b"GET /ws HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is taken");
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("in time").expect("no reset");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
    assert!(body.contains("wss://"), "{answer}");
    let visitor = visitor(&authority, BOTH);
    let refused = "presence_tls_handshakes_total{result=\"not_encrypted\"}";
    assert_eq!(metric(&visitor, gateway.here(), refused).await, Some(1));
}

/// A certificate is renewed file by file; until both belong together the one before goes on.
#[tokio::test]
async fn a_renewed_certificate_is_shown_to_who_comes_and_nobody_else_is_touched() {
    let (authority, gateway) = gateway().await;
    authority.certify("newer", NAME);
    let visitor = visitor(&authority, BOTH);
    let a = sign_in(gateway.here(), Trust::Only(authority.ca_file().into()), "a");
    let mut events = a.events();
    let first = timeout(PATIENCE, events.next()).await.expect("in time");
    assert!(matches!(first, Some(Event::Connected(_))), "{first:?}");
    let before = authority.cert_file("before");
    fs::copy(authority.cert_file("server"), &before).expect("a copy");

    fs::copy(authority.cert_file("newer"), authority.cert_file("server")).expect("a copy");
    let failed = "presence_tls_renewals_total{result=\"failed\"}";
    let told = async || metric(&visitor, gateway.here(), failed).await;
    assert_eq!(eventually("the trouble is told", PATIENCE, told).await, 1);
    until_shown(&visitor, gateway.here(), &before).await;

    fs::copy(authority.key_file("newer"), authority.key_file("server")).expect("a copy");
    until_shown(&visitor, gateway.here(), &authority.cert_file("newer")).await;
    let done = "presence_tls_renewals_total{result=\"done\"}";
    assert_eq!(metric(&visitor, gateway.here(), done).await, Some(1));
    assert!(a.query([user("a")]).await.is_ok());
    a.bye().await;
    let last = timeout(PATIENCE, events.next()).await.expect("in time");
    assert!(matches!(last, Some(Event::Ended(_))), "no connection was lost meanwhile: {last:?}");
}

#[tokio::test]
async fn a_hang_up_reads_the_certificate_again_and_the_start_tells_of_it() {
    let (authority, flags) = certified();
    authority.certify_until("server", NAME, 2020);
    let flags = flags.each_ref().map(String::as_str);
    let gateway = Process::start(shared_redis(), &prefix(), SLOW, &flags).await;
    let said = gateway.said.join("\n");
    assert!(said.contains("for 127.0.0.1, until 2020-01-01T00:00:00Z"), "{said}");
    assert!(said.contains("expires soon"), "{said}");

    authority.certify("server", NAME);
    gateway.signal("HUP").await;
    let visitor = visitor(&authority, BOTH);
    let comes = async || {
        let stream = TcpStream::connect(gateway.addr).await.ok()?;
        visitor.connect(NAME.try_into().ok()?, stream).await.ok()
    };
    eventually("it is valid again", PATIENCE, comes).await;
    let expiry = metric(&visitor, gateway.addr, "presence_tls_certificate_expiry_seconds").await;
    assert_eq!(expiry, Some(FAR_AWAY_S));
}
