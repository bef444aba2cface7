//! Gateways as real processes, where signals and exits matter.

use std::net::SocketAddr;
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use presence_testkit::RedisServer;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::client::PATIENCE;
use crate::house::{API_KEY, OPEN, Times};

/// A running gateway, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) addr: SocketAddr,
    /// The lines that it wrote before it listened.
    pub(crate) said: Vec<String>,
    /// Those that it wrote since.
    log: Arc<Mutex<Vec<String>>>,
}

/// The binary with nothing of this process's environment.
pub(crate) fn command<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_presence-gateway"));
    command.args(args.into_iter().map(|arg| arg.as_ref().to_owned())).env_clear();
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs the binary to its end.
pub(crate) async fn output_of(mut command: Command) -> Output {
    let output = timeout(PATIENCE, command.output()).await;
    output.expect("it ends").expect("it runs")
}

/// The two keys of a user, as the binary names them.
pub(crate) async fn keys_of(prefix: &str, user: &str) -> [String; 2] {
    let output = output_of(command([&format!("--prefix={prefix}"), "key", user])).await;
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let keys: Vec<String> = text.lines().map(str::to_owned).collect();
    keys.try_into().unwrap_or_else(|keys| panic!("two keys: {keys:?}"))
}

impl Process {
    /// Starts one on this Redis, and waits until it listens.
    pub(crate) async fn start(
        server: &RedisServer,
        prefix: &str,
        times: Times,
        flags: &[&str],
    ) -> Self {
        let redis = format!("--redis-url={}", server.url());
        let prefix = format!("--prefix={prefix}");
        Self::alone(times, &[&[redis.as_str(), &prefix], flags].concat()).await
    }

    /// Starts one that keeps presence itself, unless the flags say otherwise, and waits until it listens.
    pub(crate) async fn alone(times: Times, flags: &[&str]) -> Self {
        let mut args = times.flags();
        args.extend([OPEN.to_owned(), format!("--api-key={API_KEY}")]);
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        Self::launch(args).await
    }

    /// Starts one with these flags, and waits until it listens.
    pub(crate) async fn launch(flags: Vec<String>) -> Self {
        Self::listening(command(listening_flags(flags))).await
    }

    /// Starts one that may have so many files open, and waits until it listens.
    pub(crate) async fn launch_with_open_files(limit: u32, flags: Vec<String>) -> Self {
        let gateway = command(listening_flags(flags));
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit} && exec \"$@\""), "sh"]);
        shell.arg(gateway.as_std().get_program()).args(gateway.as_std().get_args());
        shell.stdin(Stdio::null()).kill_on_drop(true);
        Self::listening(shell).await
    }

    async fn listening(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let mut said = Vec::new();
        let addr = timeout(PATIENCE, async {
            loop {
                let line = lines.next_line().await.expect("a line").expect("it listens");
                if let Some(addr) = listening_at(&line) {
                    return addr;
                }
                said.push(line);
            }
        });
        let addr = addr.await.expect("it listens in time");
        let log = Arc::new(Mutex::new(Vec::new()));
        let written = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                written.lock().expect("no panic").push(line);
            }
        });
        Self { child, addr, said, log }
    }

    /// What it has logged since it listens, as lines of JSON.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("no panic").clone()
    }

    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().await;
        assert!(sent.is_ok_and(|status| status.success()), "signal {name}");
    }

    /// Waits for its end, at most this long.
    pub(crate) async fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        let ended = timeout(limit, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it runs on after {limit:?}")).expect("it is waited for")
    }
}

/// The last one of two wins.
fn listening_flags(flags: Vec<String>) -> impl Iterator<Item = String> {
    let args = ["--listen=127.0.0.1:0".to_owned(), "--log-format=json".to_owned()];
    args.into_iter().chain(flags)
}

fn listening_at(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    let listening = line["message"] == "listening";
    listening.then(|| line["addr"].as_str().expect("an address").parse().expect("an address"))
}
