//! What a worker knows before the run begins, and does not change: the scenario, its share of it,
//! and where its connections lead.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use http::Uri;
use http::uri::Authority;
use presence_protocol::{ClientMessage, Format, Hello, UserId, encode_client};
use socket2::Socket;
use tokio_rustls::rustls::ClientConnection;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::contacts::Contacts;
use crate::failure::Failure;
use crate::fetch;
use crate::limits::Limits;
use crate::measures::micros;
use crate::people::People;
use crate::scenario::{Model, Scenario};
use crate::sources::{Sources, begin_from_anywhere};
use crate::tls::{self, Tls};
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
    /// None where no gateway speaks it.
    tls: Option<Tls>,
    /// Where a file names the users.
    people: Option<People>,
}

struct Gateway {
    /// One at least; they share the connections.
    targets: Vec<SocketAddr>,
    request: Vec<u8>,
    /// Whom its certificate names, where it speaks TLS.
    name: Option<ServerName<'static>>,
}

impl World {
    pub(super) fn new(assignment: Assignment, limits: &Limits) -> Result<Self> {
        let scenario = assignment.scenario;
        let format = scenario.format.into();
        // One for all, since nothing between here and the gateway could mistake one socket for
        // another; a new one each would cost a hash each.
        let key = generate_key();
        let gateways = assignment.urls.iter().map(|url| Gateway::new(url, format, &key));
        let gateways = gateways.collect::<Result<Vec<_>>>()?;
        let speaks_tls = gateways.iter().any(|gateway| gateway.name.is_some());
        let tls = speaks_tls.then(|| Tls::new(assignment.authorities.as_deref()));
        let mut people = read_people(&scenario, &assignment.users)?;
        let contacts = match (&mut people, &scenario.contacts) {
            (Some(people), Model::Listed { .. }) => {
                let lists = people.take_contacts();
                Contacts::listed(assignment.world, assignment.users.start, lists)
            }
            (_, model) => Contacts::new(model, assignment.world, scenario.seed),
        };
        Ok(Self {
            format,
            worker: assignment.worker,
            workers: assignment.workers,
            users: assignment.users,
            contacts,
            people,
            connect_timeout_us: assignment.connect_timeout_us,
            accept: derive_accept_key(key.as_bytes()),
            gateways,
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
            tls: tls.transpose()?,
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
        let targets = &self.gateway(index, turn).targets;
        let round = self.place(index) / self.gateways.len();
        let target = targets[round.wrapping_add(usize::from(turn)) % targets.len()];
        match &self.sources {
            Some(sources) if target.is_ipv4() => sources.begin(target),
            _ => begin_from_anywhere(target),
        }
    }

    /// The client's end of TLS, where that gateway speaks it.
    pub(super) fn begin_tls(
        &self,
        index: u32,
        turn: u8,
    ) -> Result<Option<ClientConnection>, Failure> {
        let begin = |(tls, name): (&Tls, &ServerName<'static>)| tls.begin(name.clone());
        let both = self.tls.as_ref().zip(self.gateway(index, turn).name.as_ref());
        both.map(begin).transpose().map_err(|error| Failure::Tls(error.to_string()))
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
        &self.gateways[(self.place(index) + usize::from(turn)) % self.gateways.len()]
    }

    /// The place of a connection among those of all workers.
    fn place(&self, index: u32) -> usize {
        (index as usize * self.workers as usize).wrapping_add(self.worker as usize)
    }

    pub(super) fn user_id(&self, user: u32) -> UserId {
        if let Some(people) = &self.people {
            return people.name(user).clone();
        }
        UserId::new(&self.scenario.user_name(user)).expect("the length of the prefix was checked")
    }

    /// Whether a connection is this user's; with tokens of others than us that is not said.
    pub(super) fn is_user(&self, index: u32, user: &UserId) -> bool {
        self.people.as_ref().is_none_or(|people| people.name(self.user_of(index)) == user)
    }

    /// The inverse of [`World::user_id`]; none for somebody else's user.
    pub(super) fn user_named(&self, name: &str) -> Option<u32> {
        match &self.people {
            Some(people) => people.user_of(name),
            None => self.scenario.user_of(name),
        }
    }

    /// The message `hello` of a connection.
    pub(super) fn hello(&self, index: u32) -> Result<Vec<u8>, Failure> {
        let number = self.user_of(index);
        let user = self.user_id(number);
        let own_token = self.people.as_ref().and_then(|people| people.token(number));
        let token = match (own_token, &self.secret) {
            (Some(token), _) => Some(token.to_owned()),
            (None, Some(secret)) => Some(token::sign(secret, &user).map_err(|_| Failure::Token)?),
            (None, None) => None,
        };
        let user = token.is_none().then_some(user);
        let hello = Hello { token, user, ..Hello::default() };
        Ok(encode_client(self.format, &ClientMessage::Hello(hello)).into())
    }
}

/// The file of users, as it was when the run was planned.
fn read_people(scenario: &Scenario, share: &Range<u32>) -> Result<Option<People>> {
    let Some(path) = &scenario.people else { return Ok(None) };
    let people = People::read(path, share.clone())?;
    ensure!(
        people.count() == scenario.users,
        "{}: {} users, and there are {} where the run was started: every host needs the same file",
        path.display(),
        people.count(),
        scenario.users
    );
    Ok(Some(people))
}

impl Gateway {
    fn new(url: &str, format: Format, key: &str) -> Result<Self> {
        let url: Uri = url.parse().with_context(|| format!("--url {url}"))?;
        let targets = resolve(&url).with_context(|| format!("--url {url}"))?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let authority = url.authority().context("the URL names no host")?;
        let subprotocol = format.subprotocol();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\
             Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
        );
        Ok(Self { targets, request: request.into_bytes(), name: tls::server_name(&url)? })
    }
}

/// The addresses of a gateway, one at least: of several, those that answer.
pub(crate) fn resolve(url: &Uri) -> Result<Vec<SocketAddr>> {
    let port_by_default = match url.scheme_str() {
        Some("ws") => 80,
        Some("wss") => 443,
        _ => bail!("a gateway is at ws:// or wss://, as in ws://127.0.0.1:8080/ws"),
    };
    // A proxy may have put something before it.
    ensure!(
        url.path().ends_with("/ws"),
        "sockets are at the path /ws: write {}://{}/ws",
        url.scheme_str().unwrap_or_default(),
        url.authority().map_or("", Authority::as_str)
    );
    Ok(fetch::that_answer(fetch::addresses(url, port_by_default)?))
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
