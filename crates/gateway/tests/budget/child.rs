//! A gateway as a process of its own, whose memory is not the test's.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

/// A running gateway, killed when it is dropped.
pub(crate) struct Gateway {
    pub(crate) child: Child,
    pub(crate) addr: SocketAddr,
}

impl Gateway {
    /// Starts one in development mode with these flags, and waits until it listens.
    pub(crate) fn start<S: AsRef<str>>(flags: &[S]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_presence-gateway"));
        command.args(["--dev", "--listen=127.0.0.1:0", "--log-format=json"]).env_clear();
        command.args(flags.iter().map(AsRef::as_ref)).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        let addr = loop {
            line.clear();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended");
            if let Some((_, rest)) = line.split_once("\"addr\":\"") {
                let (addr, _) = rest.split_once('"').expect("an address in quotes");
                break addr.parse().expect("an address");
            }
        };
        // Else it would wait for somebody to read what it logs.
        thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self { child, addr }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
