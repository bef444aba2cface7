//! What a connection with TLS costs in memory, counted by the allocator: one test alone in its binary, since the count is
//! of the whole process.
//!
//! The clients' own end of TLS lives on the heap of this process too. So the same clients first connect to a gateway that
//! is another process: what they cost then is theirs, and is taken off.

#[path = "budget/child.rs"]
mod child;
#[path = "budget/ledger.rs"]
mod ledger;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use presence_gateway::settings::Settings;
use presence_protocol::{ClientMessage, Format, Hello, UserId, encode_client};
use presence_testkit::Authority;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use ledger::{Budget, Live};

const CONNECTIONS: usize = 200;

const NAME: &str = "127.0.0.1";

/// Each connection that is signed in and says nothing. Measured: 9,181 in 19.
const IDLE: Budget = Budget { bytes: 10_000, allocations: 20 };

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    sec-websocket-protocol: presence.v1.msgpack\r\n\r\n";

#[test]
fn a_connection_with_tls_costs_no_more_than_its_budget() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("as it may");
    let authority = Authority::new();
    authority.certify("server", NAME);
    let flags = [
        format!("--tls-cert-file={}", authority.cert_file("server")),
        format!("--tls-key-file={}", authority.key_file("server")),
        // Nothing lapses while it is counted.
        "--heartbeat=5m".to_owned(),
        "--ttl=10m".to_owned(),
        "--log=info".to_owned(),
    ];
    let elsewhere = child::Gateway::start(&flags);
    let config = trusting(&authority);
    let theirs = cost_of_all(elsewhere.addr, &config);

    let args = ["presence-gateway", "--dev", "--listen=127.0.0.1:0"].map(str::to_owned);
    let settings = Settings::from_parts(args.into_iter().chain(flags), [], None).expect("valid");
    let runtime = Runtime::new().expect("a runtime");
    let gateway = runtime.block_on(presence_gateway::Gateway::start(settings)).expect("it starts");
    let both = cost_of_all(gateway.addr(), &config);

    let ours = both.since(theirs).each_of(CONNECTIONS);
    println!("idle: {ours}, at most {IDLE}; a client's end: {}", theirs.each_of(CONNECTIONS));
    assert!(IDLE.holds(ours), "{ours}, but at most {IDLE} are allowed");
}

/// What comes to live when so many sign in, those of one that came before not counted.
fn cost_of_all(addr: SocketAddr, config: &Arc<ClientConfig>) -> Live {
    let _first = Client::join(addr, config, CONNECTIONS);
    let before = Live::now();
    let clients: Vec<Client> =
        (0..CONNECTIONS).map(|number| Client::join(addr, config, number)).collect();
    let after = Live::now();
    drop(clients);
    after.since(before)
}

fn trusting(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(authority.ca_file()).expect("a certificate");
    roots.add(authority).expect("of an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// A client that is signed in.
struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Client {
    fn join(addr: SocketAddr, config: &Arc<ClientConfig>, number: usize) -> Self {
        let tcp = TcpStream::connect(addr).expect("accepted");
        tcp.set_read_timeout(Some(Duration::from_secs(30))).expect("it is a time");
        tcp.set_nodelay(true).expect("it is a socket");
        let name = NAME.try_into().expect("an address");
        let session = ClientConnection::new(config.clone(), name).expect("a session");
        let mut client = Self { stream: StreamOwned::new(session, tcp) };
        client.stream.write_all(UPGRADE.as_bytes()).expect("it is taken");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read::<1>()[0]);
        }
        client.say_hello(number);
        client
    }

    /// Masked with zeros, which change nothing.
    fn say_hello(&mut self, number: usize) {
        let user = UserId::new(&format!("user-{number:06}")).expect("a user id");
        let hello = ClientMessage::Hello(Hello { user: Some(user), ..Hello::default() });
        let hello = encode_client(Format::MsgPack, &hello);
        let head = [0x82, 0x80 + hello.len() as u8, 0, 0, 0, 0];
        self.stream.write_all(&[&head[..], &hello].concat()).expect("it is taken");
        let len = match self.read() {
            [0x82, 126] => usize::from(u16::from_be_bytes(self.read())),
            [0x82, len] => usize::from(len),
            other => panic!("a welcome was due, not {other:?}"),
        };
        self.stream.read_exact(&mut vec![0; len]).expect("a welcome");
    }

    fn read<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("an answer in time");
        bytes
    }
}
