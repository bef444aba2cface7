//! What a worker knows before the run begins, and does not change: the scenario, its share of it,
//! and where its connections lead.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use http::Uri;
use http::uri::Authority;
use presence_protocol::{ClientMessage, Format, Hello, UserId, encode_client};
use socket2::Socket;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::contacts::Contacts;
use crate::failure::Failure;
use crate::fetch;
use crate::limits::Limits;
use crate::measures::micros;
use crate::scenario::Scenario;
use crate::sources::{Sources, begin_from_anywhere};
use crate::token;
use crate::wire::{Assignment, Origin};

/// The share of a run.
pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) format: Format,
    pub(super) worker: u32,
    pub(super) workers: u32,
    pub(super) users: Range<u32>,
    pub(super) contacts: Contacts,
    pub(super) connect_timeout_us: u64,
    /// What `Sec-WebSocket-Accept` must be.
    pub(super) accept: String,
    gateways: Vec<Gateway>,
    /// None when the system chooses.
    sources: Option<Sources>,
    secret: Option<String>,
}

struct Gateway {
    target: SocketAddr,
    request: Vec<u8>,
}

impl World {
    pub(super) fn new(assignment: Assignment, limits: &Limits) -> Result<Self> {
        let scenario = assignment.scenario;
        let format = scenario.format.into();
        // One for all, since nothing between here and the gateway could mistake one socket for
        // another; a new one each would cost a hash each.
        let key = generate_key();
        let gateways = assignment.urls.iter().map(|url| Gateway::new(url, format, &key));
        Ok(Self {
            format,
            worker: assignment.worker,
            workers: assignment.workers,
            users: assignment.users,
            contacts: Contacts::new(&scenario.contacts, assignment.world, scenario.seed),
            connect_timeout_us: assignment.connect_timeout_us,
            accept: derive_accept_key(key.as_bytes()),
            gateways: gateways.collect::<Result<_>>()?,
            sources: match assignment.origin {
                Origin::System => None,
                Origin::Loopback { addresses, start } => {
                    // Each worker begins elsewhere in the row of all ports, so that none is tried
                    // by two.
                    let apart = limits.ports.len() as u64 / u64::from(assignment.workers);
                    let start = start % u64::from(u16::MAX) + u64::from(assignment.worker) * apart;
                    Some(Sources::new(addresses, &limits.ports, start))
                }
            },
            secret: assignment.jwt_secret,
            scenario,
        })
    }

    /// How many connections this worker makes.
    pub(super) fn connections(&self) -> u32 {
        self.users.len() as u32 * self.scenario.devices
    }

    /// Whose the n-th connection is.
    pub(super) fn user_of(&self, index: u32) -> u32 {
        self.users.start + index / self.scenario.devices
    }

    /// The connections of the same user.
    pub(super) fn siblings(&self, index: u32) -> Range<usize> {
        let first = index - index % self.scenario.devices;
        first as usize..(first + self.scenario.devices) as usize
    }

    /// When the n-th connection is due for the first time: workers take turns.
    pub(super) fn first_due_us(&self, index: u32) -> u64 {
        let turn = u64::from(index) * u64::from(self.workers) + u64::from(self.worker);
        self.scenario.begin_us(turn)
    }

    /// A connection on its way to a gateway.
    pub(super) fn begin(&self, index: u32, turn: u8) -> io::Result<Socket> {
        let target = self.gateway(index, turn).target;
        match &self.sources {
            Some(sources) => sources.begin(target),
            None => begin_from_anywhere(target),
        }
    }

    pub(super) fn request(&self, index: u32, turn: u8) -> &[u8] {
        &self.gateway(index, turn).request
    }

    /// A turn that is another gateway's, of whom there are others: any of them, as a load balancer spreads those who come.
    pub(super) fn turn_after(&self, turn: u8, rng: &mut Rng) -> u8 {
        let others = (self.gateways.len() - 1).min(usize::from(u8::MAX) - 1) as u8;
        turn.wrapping_add(if others == 0 { 0 } else { rng.u8(1..=others) })
    }

    fn gateway(&self, index: u32, turn: u8) -> &Gateway {
        let first = (index as usize * self.workers as usize).wrapping_add(self.worker as usize);
        &self.gateways[(first + usize::from(turn)) % self.gateways.len()]
    }

    pub(super) fn user_id(&self, user: u32) -> UserId {
        UserId::new(&self.scenario.user_name(user)).expect("the length of the prefix was checked")
    }

    /// The message `hello` of a connection.
    pub(super) fn hello(&self, index: u32) -> Result<Vec<u8>, Failure> {
        let user = self.user_id(self.user_of(index));
        let hello = match &self.secret {
            None => Hello { user: Some(user), ..Hello::default() },
            Some(secret) => {
                let token = token::sign(secret, &user).map_err(|_| Failure::Token)?;
                Hello { token: Some(token), ..Hello::default() }
            }
        };
        Ok(encode_client(self.format, &ClientMessage::Hello(hello)).into())
    }
}

impl Gateway {
    fn new(url: &str, format: Format, key: &str) -> Result<Self> {
        let url: Uri = url.parse().with_context(|| format!("--url {url}"))?;
        let target = resolve(&url).with_context(|| format!("--url {url}"))?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let authority = url.authority().context("the URL names no host")?;
        let subprotocol = format.subprotocol();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\
             Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
        );
        Ok(Self { target, request: request.into_bytes() })
    }
}

/// The address of a gateway.
pub(crate) fn resolve(url: &Uri) -> Result<SocketAddr> {
    ensure!(
        url.scheme_str() == Some("ws"),
        "only ws:// is spoken here, as in ws://127.0.0.1:8080/ws"
    );
    let host = url.host().context("the URL names no host")?;
    // A proxy may have put something before it.
    ensure!(
        url.path().ends_with("/ws"),
        "sockets are at the path /ws: write ws://{}/ws",
        url.authority().map_or("", Authority::as_str)
    );
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, fetch::port(url, 80)?).to_socket_addrs()?;
    found.next().context("the host has no address")
}

/// The run's time: µs since its beginning, the same in every worker of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
}

impl Clock {
    /// The wall clock is looked at once, so that its jumps do no harm. Waits for the beginning.
    pub(super) fn begin(epoch_unix_us: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = Duration::from_micros(epoch_unix_us);
        std::thread::sleep(epoch.saturating_sub(now));
        let late = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        Self { began: now.checked_sub(late.saturating_sub(epoch)).unwrap_or(now) }
    }

    pub(super) fn now_us(self) -> u64 {
        micros(self.began.elapsed())
    }
}
