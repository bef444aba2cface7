//! Who connects to the coordinator: workers, that say hello, and strangers.

use std::io;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::wire::{self, News, VERSION};

/// How long whoever connects may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(5);

/// How many are waited for to say hello; then others wait to be let in.
const NEWCOMERS_MAX: usize = 100;

/// A worker that said hello.
pub(super) struct Candidate {
    pub(super) stream: TcpStream,
    /// Whether it is on this host.
    pub(super) is_here: bool,
    pub(super) connections_max: u64,
}

/// So many workers that said hello. Whoever else connects is told of, and not waited for.
pub(super) async fn hellos(listener: &TcpListener, count: usize) -> Result<Vec<Candidate>> {
    let mut candidates = Vec::new();
    let mut newcomers = JoinSet::new();
    while candidates.len() < count {
        select! {
            accepted = listener.accept(), if newcomers.len() < NEWCOMERS_MAX => {
                let (stream, from) = accepted.context("waiting for workers")?;
                newcomers.spawn(async move { (from, timeout(HELLO_LIMIT, hello(stream)).await) });
            }
            Some(heard) = newcomers.join_next() => {
                let (from, heard) = heard.context("hearing a hello")?;
                match heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok((stream, News::Hello { version, measures, files, .. })) => {
                        check_build(&version, &measures)
                            .with_context(|| format!("the worker at {from}"))?;
                        let is_here = from.ip() == stream.local_addr()?.ip();
                        candidates.push(Candidate { stream, is_here, connections_max: files });
                    }
                    Ok(_) => eprintln!("{from} is no worker: it began with other news than a hello"),
                    Err(error) => eprintln!("{from} is no worker: {error}"),
                }
            }
        }
    }
    Ok(candidates)
}

async fn hello(mut stream: TcpStream) -> io::Result<(TcpStream, News)> {
    stream.set_nodelay(true)?;
    let news = wire::next(&mut stream).await?;
    Ok((stream, news))
}

/// Refuses a worker whose counts would be taken for others.
fn check_build(version: &str, measures: &str) -> Result<()> {
    ensure!(version == VERSION, "it is of version {version}, and this is {VERSION}: use the same");
    ensure!(
        measures == wire::measures(),
        "it is of another build of version {VERSION}, which counts other things: use the same build"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn say(stream: &mut TcpStream, news: &News) {
        stream.write_all(&wire::encode(news).unwrap()).await.unwrap();
    }

    fn hello_of(version: &str, measures: &str) -> News {
        let (version, measures) = (version.to_owned(), measures.to_owned());
        News::Hello { version, measures, cores: 1, files: 7 }
    }

    #[tokio::test]
    async fn strangers_are_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut browser = TcpStream::connect(address).await.unwrap();
        browser.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut hasty = TcpStream::connect(address).await.unwrap();
        say(&mut hasty, &News::Done).await;
        let mut worker = TcpStream::connect(address).await.unwrap();
        say(&mut worker, &hello_of(VERSION, &wire::measures())).await;
        let found =
            timeout(HELLO_LIMIT / 2, hellos(&listener, 1)).await.expect("nobody is in the way");
        let found = found.unwrap();
        assert_eq!(found[0].connections_max, 7);
        assert_eq!(found[0].stream.peer_addr().unwrap(), worker.local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_worker_of_another_build_is_refused() {
        let fewer = wire::measures().replacen("connected,", "", 1);
        for (version, measures, told) in
            [("0.0.0", wire::measures(), "version 0.0.0"), (VERSION, fewer, "another build")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut worker = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            say(&mut worker, &hello_of(version, &measures)).await;
            let refusal = hellos(&listener, 1).await.err().expect("it is refused");
            assert!(format!("{refusal:#}").contains(told), "{refusal:#}");
        }
    }
}
