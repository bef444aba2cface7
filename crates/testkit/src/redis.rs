//! A real `redis-server`, started by the test on a free port of loopback; never the machine's own.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::iter::repeat_with;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::keeper::Running;
use crate::resp;

const START_LIMIT: Duration = Duration::from_secs(30);

pub(crate) const SAVE_NOTHING: [&str; 4] = ["--save", "", "--appendonly", "no"];

/// Below the kernel's range for outgoing connections, which starts at 32768 on Linux.
const PORTS: Range<u16> = 10_000..30_000;

/// A Redis of one's own, killed when it is dropped.
pub struct RedisServer {
    port: u16,
    arguments: Vec<String>,
    role: Role,
    running: Option<Running>,
}

/// What is made of a server when it has started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing more.
    Lone,
    /// A cluster of its own, with all slots.
    WholeCluster,
    /// Others make a cluster of it.
    Member,
}

impl RedisServer {
    /// Starts one that saves nothing, and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["--maxmemory", "1mb"]`.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::launch(Role::Lone, &[&SAVE_NOTHING, arguments].concat())
    }

    /// Starts a cluster of a single server, which holds all slots.
    pub fn start_cluster() -> Self {
        Self::launch(Role::WholeCluster, &SAVE_NOTHING)
    }

    pub(crate) fn launch(role: Role, arguments: &[&str]) -> Self {
        let port = free_port();
        let mut arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        if role != Role::Lone {
            let bus_port = free_port().to_string();
            // Until it meets another, it would not know the address to tell clients.
            let more = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
            arguments.extend(more.map(str::to_owned));
            arguments.extend(["--cluster-port".to_owned(), bus_port]);
        }
        let mut server = Self { port, arguments, role, running: None };
        server.restart();
        server
    }

    /// The URL that a store takes.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme(), self.port)
    }

    /// The URL for a user of its access control list.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@127.0.0.1:{}", self.scheme(), self.port)
    }

    fn scheme(&self) -> &'static str {
        if self.role == Role::Lone { "redis" } else { "redis-cluster" }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a command. Lists are answered one item a line, nil as nothing, and errors as text.
    pub fn cli(&self, words: &[&str]) -> String {
        resp::command(self.port, words).unwrap_or_else(|error| {
            panic!("redis-server on port {}: {words:?}: {error}", self.port)
        })
    }

    /// Sends a command whose answer may take for ever, and does not wait for it.
    pub fn send(&self, words: &[&str]) {
        resp::send(self.port, words).unwrap_or_else(|error| {
            panic!("redis-server on port {}: {words:?}: {error}", self.port)
        });
    }

    /// Kills it as a crash would (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts it again on the same port, with nothing in it.
    pub fn restart(&mut self) {
        self.kill();
        let address = ["--bind", "127.0.0.1", "--port", &self.port.to_string()].map(str::to_owned);
        self.running = Some(Running::start(&[&self.arguments, &address[..]].concat()));
        self.wait_until("it answers", &["PING"], "PONG");
        if self.role == Role::WholeCluster {
            self.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
            self.wait_until("the cluster is ok", &["CLUSTER", "INFO"], "cluster_state:ok");
        }
    }

    /// Makes it hang (SIGSTOP): connections stay open and nothing is answered.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        self.running.as_ref().expect("it was not killed").signal(signal);
    }

    /// Runs a command until its answer contains what is expected; panics with `what` when that takes too long.
    pub fn wait_until(&self, what: &str, words: &[&str], expected: &str) {
        wait_until(self.port, what, words, expected);
    }
}

/// The same for any process that answers like a Redis.
pub(crate) fn wait_until(port: u16, what: &str, words: &[&str], expected: &str) {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let answer = resp::command(port, words);
        if answer.as_ref().is_ok_and(|answer| answer.contains(expected)) {
            return;
        }
        let late = Instant::now() > deadline;
        assert!(!late, "port {port}: not after {START_LIMIT:?}: {what}: {answer:?}");
        sleep(Duration::from_millis(5));
    }
}

/// A port that nobody has, and that was not given to anybody in this process before. Not one of those that the kernel
/// gives to outgoing connections: any of these could take it while the server is restarted.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut is_free =
        |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok() && given.insert(*port);
    let random = || RandomState::new().hash_one(0) as usize % PORTS.len();
    let mut ports = repeat_with(|| PORTS.start + random() as u16).take(PORTS.len());
    ports.find(&mut is_free).expect("a free port")
}
