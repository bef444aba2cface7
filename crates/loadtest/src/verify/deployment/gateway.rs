//! A gateway as a process: started, stopped, paused and killed at one address.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use presence_testkit::free_port;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::verify::args::VerifyArgs;
use crate::verify::deployment::{API_KEY, PREFIX, Pids};
use crate::verify::history::scenarios::DRAIN;
use crate::verify::http;

/// How long a gateway may take to be ready, and to be gone after its drain.
const PATIENCE: Duration = Duration::from_mins(1);

const LOOK: Duration = Duration::from_millis(20);

/// More than any session here sends.
const MESSAGE_RATE: &str = "1000";

/// The longest watch list, which random watching makes longer over time.
const MAX_WATCH: &str = "100000";

/// How a gateway is started, each time the same.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    bin: PathBuf,
    args: Vec<String>,
    addr: SocketAddr,
    log: PathBuf,
}

/// A gateway that runs or does not.
pub(crate) struct GatewayProcess {
    launch: Launch,
    place: usize,
    child: Option<Child>,
    pids: Pids,
}

impl Launch {
    pub(crate) fn new(
        bin: PathBuf,
        args: &VerifyArgs,
        redis_url: Option<&str>,
        log: PathBuf,
    ) -> Self {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let time = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
        let mut flags = vec![
            ("listen", addr.to_string()),
            ("auth", "none".to_owned()),
            ("heartbeat", time(args.heartbeat)),
            ("ttl", time(args.ttl)),
            ("grace", time(args.grace)),
            ("drain", time(DRAIN)),
            ("api-key", API_KEY.to_owned()),
            ("message-rate", MESSAGE_RATE.to_owned()),
            ("max-watch", MAX_WATCH.to_owned()),
            ("max-frame-bytes", "1MiB".to_owned()),
            ("log", "info,presence=trace".to_owned()),
            ("prefix", PREFIX.to_owned()),
        ];
        flags.extend(redis_url.map(|url| ("redis-url", url.to_owned())));
        let args = flags.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        Self { bin, args, addr, log }
    }
}

impl GatewayProcess {
    pub(crate) fn new(launch: Launch, place: usize, pids: Pids) -> Self {
        Self { launch, place, child: None, pids }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.launch.addr
    }

    /// Starts it, after what was killed is gone, and waits until it wants clients. One that ends at once, as the store is away, is
    /// started again, as a supervisor would.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        if let Some(mut killed) = self.child.take() {
            killed.wait().await?;
        }
        let mut child = self.spawn()?;
        while http::get_status(self.launch.addr, "/readyz").await.ok() != Some(200) {
            let late = Instant::now() > deadline;
            if let Some(status) = child.try_wait()? {
                ensure!(!late, "it ended at once ({status}): {}", last_line(&self.launch.log)?);
                child = self.spawn()?;
            }
            ensure!(!late, "not ready after {PATIENCE:?}");
            sleep(LOOK).await;
        }
        let pid = child.id().map(|pid| (self.place, pid));
        self.pids.lock().extend(pid);
        self.child = Some(child);
        Ok(())
    }

    fn spawn(&self) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.launch.log)?;
        Command::new(&self.launch.bin)
            .args(&self.launch.args)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", self.launch.bin.display()))
    }

    /// SIGKILL. That all of its sockets are closed may take the kernel seconds.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// SIGTERM; returns when it has drained.
    pub(crate) async fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let mut child = self.child.take().context("the gateway does not run")?;
        timeout(PATIENCE, child.wait()).await.context("it does not end after SIGTERM")??;
        Ok(())
    }

    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.as_ref().and_then(Child::id).context("the gateway does not run")?;
        let pid = Pid::from_raw(id.cast_signed()).context("a process id is positive")?;
        Ok(kill_process(pid, signal)?)
    }
}

fn last_line(log: &PathBuf) -> Result<String> {
    let text = std::io::read_to_string(File::open(log)?)?;
    Ok(text.lines().last().unwrap_or("it said nothing").to_owned())
}
