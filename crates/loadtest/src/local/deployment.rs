//! Redis and gateways as processes of this machine that end with this one. Everything here blocks.

use std::io::{IsTerminal, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use http::Uri;
use indicatif::{ProgressBar, ProgressStyle};
use presence_testkit::{KeptProcess, Scratch, free_port};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use crate::fetch;
use crate::local::args::LocalArgs;
use crate::local::plan::Plan;
use crate::observe::{Restarts, Targets};

/// How long a server may take to be ready; many start at once on few cores.
const PATIENCE: Duration = Duration::from_mins(2);

const LOOK: Duration = Duration::from_millis(20);

/// Redis serves all gateways from one thread and has a core of its own where it is deployed. Among a hundred busy processes
/// on few cores it would get as little as each of them, and its answers would come late just when all have much to ask: at a
/// nice value of -10 its share among 150 is a tenth of a core.
const REDIS_PRIORITY: i32 = -20;

/// Opens the gateways' calls for a backend, which only this machine can reach.
const API_KEY: &str = "local-0123456789abcdef";

/// What gateways take when nothing is set.
const MAX_WATCH_BY_DEFAULT: u32 = 1000;

/// A server, and where it can be reached.
struct Server {
    process: KeptProcess,
    addr: SocketAddr,
    log: PathBuf,
}

/// All servers, ready. Dropping it ends them.
pub(crate) struct Deployment {
    redis: Server,
    gateways: Vec<Server>,
    program: PathBuf,
    plan: Plan,
    /// Told to whoever looks at the gateways' processes.
    restarts: Restarts,
    /// Dropped last.
    _logs: Logs,
}

/// The folder of what the servers log.
pub(crate) enum Logs {
    /// Goes when the servers do.
    Passing(Scratch),
    Kept(PathBuf),
}

impl Deployment {
    /// Starts Redis, then all gateways at once, and waits until each wants clients.
    pub(crate) fn start(args: &LocalArgs, plan: &Plan, logs: Logs) -> Result<Self> {
        let redis = start_redis(&args.redis_server, logs.path()).context("redis-server")?;
        let program = gateway_program(args)?;
        let gateways = (0..plan.gateways).map(|number| {
            let log = logs.path().join(format!("gateway-{}.log", number + 1));
            Server::start(|addr| gateway_command(&program, plan, redis.addr, addr), log)
        });
        let gateways = gateways.collect::<Result<Vec<_>>>().context("starting gateways")?;
        let restarts = Restarts::default();
        let deployment = Self { redis, gateways, program, plan: *plan, restarts, _logs: logs };
        deployment.wait_until_ready()?;
        Ok(deployment)
    }

    fn wait_until_ready(&self) -> Result<()> {
        let bar = progress(self.gateways.len());
        for (place, gateway) in self.gateways.iter().enumerate() {
            let is_ready = || {
                let _ = gateway.get("/readyz", &[])?;
                // In the first moments of a store's life, who was never seen may be one whom it lost:
                // this is not answered before, and neither would the first snapshots be.
                gateway
                    .get("/v1/presence/load-0", &[("Authorization", &format!("Bearer {API_KEY}"))])
            };
            let waited = gateway.wait_until(is_ready);
            waited.with_context(|| format!("gateway {}", place + 1))?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Stops a gateway as an operator would, and starts it again at its address. Tells how long it was until it was there again.
    pub(crate) fn restart_gateway(&mut self, place: usize) -> Result<Duration> {
        let Self { redis, gateways, program, plan, restarts, .. } = self;
        let place = place % gateways.len();
        let gateway = &mut gateways[place];
        let began = Instant::now();
        let pid = Pid::from_raw(gateway.process.pid().cast_signed()).context("it has no id")?;
        kill_process(pid, Signal::TERM)?;
        let deadline = began + PATIENCE;
        while gateway.process.is_running() {
            ensure!(Instant::now() < deadline, "it still runs {PATIENCE:?} after SIGTERM");
            sleep(LOOK);
        }
        let command = gateway_command(program, plan, redis.addr, gateway.addr);
        let before = gateway.process.pid();
        gateway.process = KeptProcess::start(&command, &gateway.log)?;
        restarts.lock().push((before, gateway.process.pid()));
        gateway.wait_until(|| gateway.get("/readyz", &[]))?;
        Ok(began.elapsed())
    }

    /// Where clients connect.
    pub(crate) fn urls(&self) -> Vec<Uri> {
        self.gateways.iter().map(|gateway| uri("ws", gateway.addr, "/ws")).collect()
    }

    /// All servers, to be looked at.
    pub(crate) fn targets(&self) -> Targets {
        Targets {
            pids: self.gateways.iter().map(|gateway| gateway.process.pid()).collect(),
            metrics: self.gateways.iter().map(|gateway| gateway.url("/metrics")).collect(),
            redis: vec![uri("redis", self.redis.addr, "")],
            restarts: self.restarts.clone(),
        }
    }
}

impl Logs {
    pub(crate) fn kept() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("presence-local-").tempdir()?;
        Ok(Self::Kept(folder.keep()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Passing(scratch) => scratch.path(),
            Self::Kept(path) => path,
        }
    }
}

impl Server {
    /// Starts a command on a port that nobody has.
    fn start(command: impl FnOnce(SocketAddr) -> Command, log: PathBuf) -> Result<Self> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let process = KeptProcess::start(&command(addr), &log)?;
        Ok(Self { process, addr, log })
    }

    fn url(&self, path: &str) -> Uri {
        uri("http", self.addr, path)
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<String> {
        fetch::get(&self.url(path), headers)
    }

    /// Asks until it is answered; one that ended says why in its log.
    fn wait_until<T>(&self, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            ensure!(self.process.is_running(), "it ended at once: {}", last_line(&self.log));
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context(format!("not ready after {PATIENCE:?}")));
                }
                Err(_) => sleep(LOOK),
            }
        }
    }
}

fn uri(scheme: &str, addr: SocketAddr, path: &str) -> Uri {
    format!("{scheme}://{addr}{path}").parse().expect("an address makes a URL")
}

fn start_redis(program: &Path, folder: &Path) -> Result<Server> {
    let command = |addr: SocketAddr| {
        let mut command = Command::new(program);
        let port = addr.port().to_string();
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
        command.arg("--dir").arg(folder);
        command
    };
    let server = Server::start(command, folder.join("redis.log"))?;
    let pid = Pid::from_raw(server.process.pid().cast_signed());
    // Where that is not allowed, Redis takes its turn like the others.
    let _ = setpriority_process(pid, REDIS_PRIORITY);
    server.wait_until(|| fetch::connect(&uri("redis", server.addr, ""), server.addr.port()))?;
    Ok(server)
}

fn gateway_program(args: &LocalArgs) -> Result<PathBuf> {
    let beside = || anyhow::Ok(env::current_exe()?.with_file_name("presence-gateway"));
    let program = args.gateway.clone().map_or_else(beside, Ok)?;
    ensure!(
        program.is_file(),
        "--gateway: there is no {}: build it with cargo build --release --package presence-gateway",
        program.display()
    );
    // Looked for where it was named, and not on the PATH.
    Ok(program.canonicalize()?)
}

/// Nothing of this process's environment is passed on: its settings might be another gateway's.
fn gateway_command(program: &Path, plan: &Plan, redis: SocketAddr, addr: SocketAddr) -> Command {
    let time = |duration| humantime::format_duration(duration).to_string().replace(' ', "");
    let cores = available_parallelism().map_or(1, |cores| cores.get() as u32);
    // With a gateway for each core, a second thread would only wake up more often.
    let threads = if plan.gateways >= cores { "1" } else { "2" };
    let mut command = Command::new("env");
    command.arg("-i").args([
        format!("TOKIO_WORKER_THREADS={threads}"),
        format!("PRESENCE_LISTEN={addr}"),
        "PRESENCE_AUTH=none".to_owned(),
        format!("PRESENCE_REDIS_URL={}", uri("redis", redis, "")),
        format!("PRESENCE_HEARTBEAT={}", time(plan.heartbeat)),
        format!("PRESENCE_TTL={}", time(plan.ttl)),
        format!("PRESENCE_API_KEY={API_KEY}"),
        format!("PRESENCE_MAX_CONNECTIONS={}", plan.connections),
        format!("PRESENCE_MAX_WATCH={}", plan.watch.max(MAX_WATCH_BY_DEFAULT)),
        format!("PRESENCE_DRAIN={}", time(plan.drain)),
    ]);
    command.arg(program);
    command
}

fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}

fn progress(gateways: usize) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{elapsed:>4} {bar:24} {pos} of {len} gateways are ready")
            .expect("the template is constant and valid");
    ProgressBar::new(gateways as u64).with_style(style)
}
