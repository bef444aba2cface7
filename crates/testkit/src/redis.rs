//! A real `redis-server`, started by the test on a free port of loopback; never the machine's own.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::iter::repeat_with;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::resp;

const START_LIMIT: Duration = Duration::from_secs(10);

/// Below the kernel's range for outgoing connections, which starts at 32768 on Linux.
const PORTS: Range<u16> = 10_000..30_000;

/// Runs Redis in a directory of its own, prints its process id, and kills it and removes the directory when standard
/// input closes: also when the test process was killed, and for servers kept in a static, which are never dropped.
const KEEPER: &str = r#"
dir=$(mktemp -d) && cd "$dir" || exit 1
"$@" >redis.log 2>&1 </dev/null & pid=$!
echo $pid
cat >/dev/null
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
rm -rf "$dir"
"#;

/// A Redis of one's own, killed when it is dropped.
pub struct RedisServer {
    port: u16,
    arguments: Vec<String>,
    scheme: &'static str,
    running: Option<Running>,
}

struct Running {
    keeper: Child,
    pid: String,
}

impl RedisServer {
    /// Starts one that saves nothing, and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["--maxmemory", "1mb"]`.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::launch("redis", arguments.iter().map(|&argument| argument.to_owned()).collect())
    }

    /// Starts a cluster of a single server, which holds all slots.
    pub fn start_cluster() -> Self {
        let bus_port = free_port().to_string();
        // Nobody ever met it, so it would not know the address to tell clients.
        let announce = ["--cluster-announce-ip", "127.0.0.1"];
        let arguments =
            [["--cluster-enabled", "yes"], ["--cluster-port", &bus_port], announce].concat();
        Self::launch("redis-cluster", arguments.into_iter().map(str::to_owned).collect())
    }

    fn launch(scheme: &'static str, arguments: Vec<String>) -> Self {
        let mut server = Self { port: free_port(), arguments, scheme, running: None };
        server.restart();
        server
    }

    /// The URL that a store takes.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// The URL for a user of its access control list.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@127.0.0.1:{}", self.scheme, self.port)
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

    /// Kills it as a crash would (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    /// Starts it again on the same port, with nothing in it.
    pub fn restart(&mut self) {
        self.kill();
        self.running = Some(Running::start(self.port, &self.arguments));
        self.wait_until("it answers", &["PING"], "PONG");
        if self.scheme == "redis-cluster" {
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
        let pid = &self.running.as_ref().expect("it was not killed").pid;
        send_signal(signal, pid);
    }

    fn wait_until(&self, what: &str, words: &[&str], expected: &str) {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let answer = resp::command(self.port, words);
            if answer.as_ref().is_ok_and(|answer| answer.contains(expected)) {
                return;
            }
            let late = Instant::now() > deadline;
            assert!(
                !late,
                "redis-server on port {}: not after {START_LIMIT:?}: {what}: {answer:?}",
                self.port
            );
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn start(port: u16, arguments: &[String]) -> Self {
        let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        assert!(
            found.is_ok_and(|status| status.success()),
            "these tests start a redis-server of their own, and found none: \
             `apt-get install redis-server` or `brew install redis`"
        );
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh", "redis-server", "--bind", "127.0.0.1"])
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut pid = String::new();
        let stdout = keeper.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut pid).expect("the shell tells the process id");
        Self { keeper, pid: pid.trim().to_owned() }
    }

    /// The keeper kills the server, if it still runs.
    fn end(mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn send_signal(signal: &str, pid: &str) {
    let sent = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, pid]).status();
    assert!(sent.is_ok_and(|status| status.success()), "signal {signal} to process {pid}");
}

/// A port that nobody has. Not one of those that the kernel gives to outgoing connections: any of these could take it
/// while the server is restarted.
fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let random = || RandomState::new().hash_one(0) as usize % PORTS.len();
    let mut ports = repeat_with(|| PORTS.start + random() as u16).take(PORTS.len());
    ports.find(is_free).expect("a free port")
}
