//! Looks at the servers while a run goes on: their memory and CPU, and what they count themselves.
//!
//! In threads of its own, which block: nothing here is in the way of a connection. A server that
//! cannot be looked at when the run begins is a mistake on the command line; one that goes away
//! later is told, and the run goes on.

mod pages;
mod processes;
mod redis;
mod series;

pub(crate) use pages::counters;
pub(crate) use redis::info::Info;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use http::Uri;
use parking_lot::Mutex;

use crate::report::{Second, Server, names};
use pages::Pages;
use processes::Processes;
use redis::RedisServers;
use series::Series;

/// What to look at.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Targets {
    /// A gateway's process on this machine, to report its memory and CPU time; may be repeated.
    #[arg(long = "pid", value_name = "PID")]
    pub(crate) pids: Vec<u32>,
    /// A gateway's metrics, as http://host:port/metrics or https://, to report what it counts; may be
    /// repeated.
    #[arg(long, value_name = "URL")]
    pub(crate) metrics: Vec<Uri>,
    /// The Redis of the gateways, as redis://host:port, to report its memory, CPU time and
    /// commands; may be repeated, for the servers of a cluster.
    #[arg(long, value_name = "URL")]
    pub(crate) redis: Vec<Uri>,
    /// Which of the processes ended and go on as another.
    #[arg(skip)]
    pub(crate) restarts: Restarts,
}

/// Process ids, each with the one that came in its place.
pub(crate) type Restarts = Arc<Mutex<Vec<(u32, u32)>>>;

/// Looks until it is finished. Dropped before, it leaves its threads to find out by themselves.
pub(crate) struct Observer {
    processes: Watch<Processes>,
    pages: Watch<Pages>,
    redis: Watch<RedisServers>,
    notices: Receiver<String>,
}

/// Servers that were looked at once, which is what the run's growth is counted from.
pub(crate) struct Sights {
    processes: Processes,
    pages: Pages,
    redis: RedisServers,
}

impl Sights {
    /// Waits for the answers. `authorities` are those whose certificates are trusted (PEM), if not
    /// this machine's.
    pub(crate) fn first(targets: &Targets, authorities: Option<&str>) -> Result<Self> {
        Ok(Self {
            processes: Processes::new(&targets.pids, &targets.restarts).context("--pid")?,
            pages: Pages::new(&targets.metrics, authorities).context("--metrics")?,
            redis: RedisServers::new(&targets.redis).context("--redis")?,
        })
    }

    /// Looks on. `epoch` is when the run begins.
    pub(crate) fn observe(self, epoch: Instant) -> Result<Observer> {
        let (tell, notices) = channel();
        Ok(Observer {
            processes: Watch::start(self.processes, epoch, tell.clone())?,
            pages: Watch::start(self.pages, epoch, tell.clone())?,
            redis: Watch::start(self.redis, epoch, tell)?,
            notices,
        })
    }
}

impl Observer {
    /// What there was to tell since this was asked last: servers that went away, or came back.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.notices.try_iter().collect()
    }

    /// Takes a last look. The timeline says when how many connections were open.
    pub(crate) fn finish(self, timeline: &[Second]) -> Vec<Server> {
        // All end at once, so that the last looks are of one time.
        let (processes, pages, redis) =
            (self.processes.stop(), self.pages.stop(), self.redis.stop());
        let (processes, pages, redis) = (processes.join(), pages.join(), redis.join());
        let by_pages = pages.tell_use().then_some(&pages.series);
        let told = if processes.count() > 0 { Some(&processes.series) } else { by_pages };
        let gateways = processes.count().max(pages.count());
        let gateways = (gateways > 0).then(|| Server {
            kind: names::GATEWAYS.to_owned(),
            processes: gateways as u32,
            footprint: told.map(|series| series.footprint(timeline)),
            figures: processes.figures().into_iter().chain(pages.figures()).collect(),
            timeline: told.map(Series::seconds).unwrap_or_default(),
        });
        let redis = (redis.count() > 0).then(|| Server {
            kind: names::REDIS.to_owned(),
            processes: redis.count() as u32,
            footprint: Some(redis.series.footprint(timeline)),
            figures: redis.figures(),
            timeline: redis.series.seconds(),
        });
        gateways.into_iter().chain(redis).collect()
    }
}

/// Something that is looked at again and again.
trait Source: Send + 'static {
    /// How often.
    const EVERY: Duration;

    /// Looks, so many seconds after the run began, and says what there is to tell.
    fn look(&mut self, at_s: f64) -> Vec<String>;
}

/// A thread that looks at a source.
struct Watch<S> {
    thread: JoinHandle<S>,
    /// Dropped to stop it.
    go_on: Sender<()>,
}

/// One that takes its last look.
struct Stopping<S>(JoinHandle<S>);

impl<S: Source> Watch<S> {
    fn start(mut source: S, epoch: Instant, tell: Sender<String>) -> Result<Self> {
        let (go_on, stopped) = channel();
        let look = move || {
            let mut next = Instant::now() + S::EVERY;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                let going_on = stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
                let at = Instant::now().saturating_duration_since(epoch);
                for notice in source.look(at.as_secs_f64()) {
                    // Nobody reads them any more once the run is over.
                    let _ = tell.send(notice);
                }
                if !going_on {
                    return source;
                }
                // Looks that took too long are left out and not caught up with.
                next = (next + S::EVERY).max(Instant::now());
            }
        };
        let thread = thread::Builder::new().name("observe".to_owned()).spawn(look);
        Ok(Self { thread: thread.context("starting a thread")?, go_on })
    }

    fn stop(self) -> Stopping<S> {
        drop(self.go_on);
        Stopping(self.thread)
    }
}

impl<S> Stopping<S> {
    fn join(self) -> S {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Whether something answered the last time, so that a change is told once.
#[derive(Debug, Default)]
struct Answers {
    missing: bool,
}

impl Answers {
    /// The answer if there was one, and what to tell.
    fn note<T>(&mut self, whose: &str, answer: Result<T>, notices: &mut Vec<String>) -> Option<T> {
        let was_missing = std::mem::replace(&mut self.missing, answer.is_err());
        match answer {
            Ok(answer) => {
                if was_missing {
                    notices.push(format!("{whose} answers again"));
                }
                Some(answer)
            }
            Err(error) => {
                if !was_missing {
                    notices.push(format!("{whose} cannot be looked at any more: {error:#}"));
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    use presence_testkit::RedisServer;

    use super::*;

    /// A process that waits for ever, and has got as far as that.
    fn idle() -> Child {
        let cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut cat = cat.expect("it starts");
        cat.stdin.as_mut().unwrap().write_all(b".").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        cat
    }

    #[test]
    fn a_process_that_goes_away_is_told_and_not_fatal() {
        let (mut one, mut other) = (idle(), idle());
        let targets = Targets { pids: vec![one.id(), other.id()], ..Targets::default() };
        let observer = Sights::first(&targets, None).unwrap().observe(Instant::now()).unwrap();
        one.kill().unwrap();
        one.wait().unwrap();
        let mut notices = observer.notices.iter();
        let notice = notices.next().unwrap();
        assert!(notice.contains(&one.id().to_string()), "{notice}");
        let servers = observer.finish(&[]);
        assert_eq!((servers.len(), servers[0].processes), (1, 2));
        assert!(servers[0].figures.contains_key("processes that went away"));
        let footprint = servers[0].footprint.as_ref().unwrap();
        assert!(footprint.rss_before > footprint.rss_after);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn redis_tells_what_it_did() {
        let server = RedisServer::start();
        let url = server.url().parse().unwrap();
        let targets = Targets { redis: vec![url], ..Targets::default() };
        let observer = Sights::first(&targets, None).unwrap().observe(Instant::now()).unwrap();
        (0..10).for_each(|_| drop(server.cli(&["PING"])));
        let servers = observer.finish(&[]);
        assert_eq!(servers[0].kind, "redis");
        assert!(servers[0].figures["commands"] >= 10.0, "{:?}", servers[0].figures);
        assert!(servers[0].footprint.as_ref().unwrap().rss_before > 0);
    }

    #[test]
    fn what_cannot_be_looked_at_from_the_beginning_is_refused() {
        let url = |text: &str| vec![text.parse().unwrap()];
        let table = [
            (Targets { pids: vec![u32::MAX], ..Targets::default() }, "--pid"),
            (
                Targets { metrics: url("http://127.0.0.1:1/metrics"), ..Targets::default() },
                "--metrics",
            ),
            (Targets { metrics: url("ftp://127.0.0.1/metrics"), ..Targets::default() }, "https://"),
            (Targets { redis: url("redis://127.0.0.1:1"), ..Targets::default() }, "--redis"),
            (Targets { redis: url("rediss://127.0.0.1"), ..Targets::default() }, "redis://"),
        ];
        for (targets, named) in table {
            let refusal = Sights::first(&targets, None).err().unwrap();
            assert!(format!("{refusal:#}").contains(named), "{refusal:#}");
        }
    }
}
