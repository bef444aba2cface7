//! Child processes and directories that are gone when the test process is, however that ends.
//!
//! Each has a shell that waits for its standard input to close: that happens also when the test process was killed, and
//! for what is kept in a static, which is never dropped.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Runs a program in a directory of its own, prints its process id, and kills it and removes the directory in the end.
const RUN: &str = r#"
dir=$(mktemp -d) && cd "$dir" || exit 1
"$@" >redis.log 2>&1 </dev/null & pid=$!
echo $pid
cat >/dev/null
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
rm -rf "$dir"
"#;

/// Makes a directory, prints its name, and removes it in the end.
const KEEP: &str = r#"
dir=$(mktemp -d) || exit 1
echo "$dir"
cat >/dev/null
rm -rf "$dir"
"#;

/// A `redis-server` that runs, in a directory of its own. Dropping it kills it (SIGKILL), and waits until it is gone.
pub(crate) struct Running {
    pid: String,
    _keeper: Keeper,
}

impl Running {
    /// Starts `redis-server` with these arguments.
    pub(crate) fn start(arguments: &[String]) -> Self {
        let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        assert!(
            found.is_ok_and(|status| status.success()),
            "these tests start a redis-server of their own, and found none: \
             `apt-get install redis-server` or `brew install redis`"
        );
        let program = ["redis-server".to_owned()];
        let (keeper, pid) = Keeper::start(RUN, &[&program, arguments].concat());
        Self { pid, _keeper: keeper }
    }

    /// Sends it a signal, by name.
    pub(crate) fn signal(&self, signal: &str) {
        let kill = ["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &self.pid];
        let sent = Command::new("sh").args(kill).status();
        let pid = &self.pid;
        assert!(sent.is_ok_and(|status| status.success()), "signal {signal} to process {pid}");
    }
}

/// A directory for files that outlive one process.
pub(crate) struct Scratch {
    path: PathBuf,
    _keeper: Keeper,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let (keeper, path) = Keeper::start(KEEP, &[]);
        Self { path: path.into(), _keeper: keeper }
    }

    /// The whole name of a file in it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("a temporary directory with a plain name").to_owned()
    }
}

/// The shell. It cleans up when it is ended, or dropped.
struct Keeper(Child);

impl Keeper {
    /// Starts a script, and answers the first line that it prints.
    fn start(script: &str, arguments: &[String]) -> (Self, String) {
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the shell tells what it made");
        (Self(shell), line.trim().to_owned())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
