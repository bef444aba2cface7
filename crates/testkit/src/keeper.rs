//! Child processes and directories that are gone when the test process is, however that ends.
//!
//! Each has a shell that waits for its standard input to close: that happens also when the test process was killed, and
//! for what is kept in a static, which is never dropped.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
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

/// Runs a program whose output goes to the end of a file, prints its process id, and kills it in the end.
const RUN_LOGGED: &str = r#"
log=$1; shift
"$@" >>"$log" 2>&1 </dev/null & pid=$!
echo $pid
cat >/dev/null
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
"#;

/// Makes a directory, prints its name, and removes it in the end.
const KEEP: &str = r#"
dir=$(mktemp -d) || exit 1
echo "$dir"
cat >/dev/null
rm -rf "$dir"
"#;

/// Why no `redis-server` can be started, if that is so.
pub fn redis_is_missing() -> Option<&'static str> {
    let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    (!found.is_ok_and(|status| status.success())).then_some(
        "a redis-server is to be started here, and none was found: \
         `apt-get install redis-server` or `brew install redis`",
    )
}

/// A `redis-server` that runs, in a directory of its own. Dropping it kills it (SIGKILL), and waits until it is gone.
pub(crate) struct Running {
    pid: String,
    _keeper: Keeper,
}

impl Running {
    /// Starts `redis-server` with these arguments.
    pub(crate) fn start(arguments: &[String]) -> Self {
        if let Some(why) = redis_is_missing() {
            panic!("{why}");
        }
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

/// Any program that ends with this process, however that ends. Dropping it kills it (SIGKILL), and waits until it is gone.
///
/// It hears no Ctrl-C of the terminal: who started it decides when it ends.
pub struct KeptProcess {
    pid: u32,
    _keeper: Keeper,
}

impl KeptProcess {
    /// Runs a command with its arguments and its environment; what it prints goes to the end of `log`. A program that
    /// cannot be run is found out by looking whether it runs, and by the log.
    pub fn start(command: &Command, log: &Path) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", RUN_LOGGED, "sh"]).arg(log);
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let (keeper, pid) = Keeper::spawn(&mut shell)?;
        let pid = pid.parse().map_err(|_| io::Error::other("the shell started nothing"))?;
        Ok(Self { pid, _keeper: keeper })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has not ended by itself. Only on Linux.
    pub fn is_running(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // After the name, which is in parentheses and may hold anything, comes the state. The shell waits only in the
        // end, so until then what ended is a zombie.
        let state = stat.rsplit_once(") ").and_then(|(_, after)| after.chars().next());
        state.is_some_and(|state| state != 'Z')
    }
}

/// A directory for files that outlive one process. It is removed with this process, however that ends, and when it is
/// dropped.
pub struct Scratch {
    path: PathBuf,
    _keeper: Keeper,
}

impl Scratch {
    /// Makes one among the system's temporary files.
    #[expect(clippy::new_without_default, reason = "what is made is on disk")]
    pub fn new() -> Self {
        let (keeper, path) = Keeper::start(KEEP, &[]);
        Self { path: path.into(), _keeper: keeper }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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
        let mut shell = Command::new("sh");
        Self::spawn(shell.args(["-c", script, "sh"]).args(arguments)).expect("a shell")
    }

    /// Starts a shell, and answers the first line that it prints: it tells what it made.
    fn spawn(shell: &mut Command) -> io::Result<(Self, String)> {
        // In a group of its own: else Ctrl-C in a terminal would end what was started, and the shell that is to clean up.
        let shell = shell.process_group(0);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line)?;
        Ok((Self(shell), line.trim().to_owned()))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
