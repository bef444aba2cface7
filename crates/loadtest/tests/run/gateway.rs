//! A gateway of the test's own, as a process that ends with it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::workspace::GATEWAY;

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Gateway {
    process: Child,
    address: SocketAddr,
    /// `s` where it speaks TLS.
    secure: &'static str,
}

impl Gateway {
    /// Starts one with a TTL of 3 s and a grace of 1 s, and waits until it answers.
    pub(crate) fn start() -> Self {
        Self::start_with(&["--auth=none"], "")
    }

    /// The same, with these options; `secure` is `s` where they are for TLS.
    pub(crate) fn start_with(options: &[&str], secure: &'static str) -> Self {
        let address = free_address();
        let times = ["--heartbeat=1s", "--ttl=3s", "--grace=1s"];
        let process = Command::new(&*GATEWAY)
            .arg(format!("--listen={address}"))
            .args(options)
            .args(times)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        let gateway = Self { process, address, secure };
        let end = Instant::now() + LIMIT;
        // One that speaks TLS says so.
        let ready = if secure.is_empty() { " 200 " } else { " 400 " };
        while gateway.get("/readyz").is_none_or(|answer| !answer.contains(ready)) {
            assert!(Instant::now() < end, "the gateway is not ready after {LIMIT:?}");
            sleep(Duration::from_millis(10));
        }
        gateway
    }

    pub(crate) fn url(&self) -> String {
        format!("ws{}://{}/ws", self.secure, self.address)
    }

    /// How many sockets it has, by its metrics.
    pub(crate) fn connections(&self) -> u64 {
        let metrics = self.get("/metrics").expect("it answers");
        let line = metrics.lines().find_map(|line| line.strip_prefix("presence_connections "));
        line.map_or(0, |count| count.trim().parse().expect("a number"))
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

/// An address on which nobody listens, below the ports from which connections come.
pub(crate) fn free_address() -> SocketAddr {
    let random = || SocketAddr::from(([127, 0, 0, 1], fastrand::u16(10_000..30_000)));
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    std::iter::repeat_with(random).take(1_000).find(is_free).expect("a free port")
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has told by then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
