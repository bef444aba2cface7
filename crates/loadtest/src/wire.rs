//! What the coordinator and its workers say to each other over TCP: a length in four bytes, and so
//! many bytes of `MessagePack`.
//!
//! Messages carry what a run is and what was measured, never what a single connection did.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::measures::{Count, Growth, Timing};
use crate::process::Usage;
use crate::scenario::Scenario;

/// A second of a worker fits many times, and a stranger cannot ask for more.
const MESSAGE_LEN_MAX: usize = 64 << 20;

/// Both ends are the same program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What this build counts and times, in the order by whose places it is told.
pub(crate) fn measures() -> String {
    let counts = Count::ALL.iter().map(|count| count.name());
    let timings = Timing::ALL.iter().map(|timing| timing.name());
    counts.chain(timings).collect::<Vec<_>>().join(",")
}

/// What a worker is told.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Order {
    /// Its share. It gets ready, and answers [`News::Ready`].
    Assign(Box<Assignment>),
    /// The run begins.
    Begin(Begin),
    /// Do nothing more but compare the views with the truth, and answer [`News::Done`].
    Stop,
}

/// When the run begins, or began.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Begin {
    /// At this moment in µs since the Unix epoch: workers that share a ledger count alike.
    At { epoch_unix_us: u64 },
    /// So many µs after this is heard, since clocks of other hosts may differ.
    In { us: u64 },
}

impl Begin {
    /// In µs since the Unix epoch, where it is heard.
    pub(crate) fn epoch_unix_us(self, now_unix_us: u64) -> u64 {
        match self {
            Self::At { epoch_unix_us } => epoch_unix_us,
            Self::In { us } => now_unix_us + us,
        }
    }
}

/// A worker's share of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Assignment {
    pub(crate) scenario: Scenario,
    /// The how-manieth worker this is, of how many.
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    /// Whose connections it makes.
    pub(crate) users: Range<u32>,
    /// Whom these may watch: the users of the ledger.
    pub(crate) world: Range<u32>,
    pub(crate) ledger: LedgerPlace,
    pub(crate) urls: Vec<String>,
    pub(crate) origin: Origin,
    pub(crate) jwt_secret: Option<String>,
    /// Whose certificates are trusted (PEM); those that the host trusts when none are named.
    pub(crate) authorities: Option<String>,
    pub(crate) connect_timeout_us: u64,
}

/// Where the truth is kept.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum LedgerPlace {
    /// In this file of the host, with the other workers.
    Shared(PathBuf),
    /// The worker makes one, since the coordinator is on another host.
    Own,
}

/// Where connections come from.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Origin {
    /// From wherever the system chooses.
    System,
    /// From so many addresses of loopback; `start` differs between testers.
    Loopback { addresses: u32, start: u64 },
}

/// What a worker tells.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum News {
    Hello {
        version: String,
        /// Its [`measures`].
        #[serde(default)]
        measures: String,
        cores: u32,
        files: u64,
    },
    /// It can begin; what it used before.
    Ready {
        usage: Usage,
    },
    Second(Box<SecondOfWorker>),
    /// All is told; the sockets stay until the coordinator goes.
    Done,
    /// It cannot go on.
    Failed {
        why: String,
    },
}

/// What happened in one second, or the rest of one at the end.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SecondOfWorker {
    /// Seconds since the run began, at its end.
    pub(crate) at_s: u32,
    pub(crate) growth: Growth,
    pub(crate) usage: Usage,
    /// Connections that are open, on their way, or to come back.
    pub(crate) alive: u64,
    /// Signed in, and on their way.
    pub(crate) open: u64,
    pub(crate) connecting: u64,
    /// The gateway's times in ms, once one was heard of.
    pub(crate) ttl_ms: u64,
    pub(crate) grace_ms: u64,
}

/// Writes a message.
pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// A message as it is sent.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&len.to_be_bytes()[..], &body].concat())
}

/// Reads a message, and waits for it.
pub(crate) fn receive<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<M> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let mut body = vec![0; checked_len(len)?];
    from.read_exact(&mut body)?;
    decode(&body)
}

/// The same in a task. Not to be cancelled: half a message would be lost.
pub(crate) async fn next<M: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<M> {
    let mut len = [0; 4];
    from.read_exact(&mut len).await?;
    let mut body = vec![0; checked_len(len)?];
    from.read_exact(&mut body).await?;
    decode(&body)
}

fn checked_len(len: [u8; 4]) -> io::Result<usize> {
    let len = u32::from_be_bytes(len) as usize;
    if len > MESSAGE_LEN_MAX {
        return Err(io::Error::other(format!("{len} bytes are no message of a load test")));
    }
    Ok(len)
}

fn decode<M: DeserializeOwned>(body: &[u8]) -> io::Result<M> {
    rmp_serde::from_slice(body).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_one_another() {
        let mut bytes = Vec::new();
        send(&mut bytes, &Order::Begin(Begin::In { us: 7 })).unwrap();
        send(&mut bytes, &Order::Stop).unwrap();
        let mut bytes = bytes.as_slice();
        assert!(matches!(receive(&mut bytes).unwrap(), Order::Begin(Begin::In { us: 7 })));
        assert!(matches!(receive(&mut bytes).unwrap(), Order::Stop));
        assert!(receive::<Order>(&mut bytes).is_err());
    }

    #[test]
    fn a_host_whose_clock_is_wrong_begins_with_the_others() {
        assert_eq!(Begin::At { epoch_unix_us: 7 }.epoch_unix_us(1_000), 7);
        assert_eq!(Begin::In { us: 7 }.epoch_unix_us(1_000), 1_007);
    }

    #[test]
    fn what_is_too_long_or_no_message_is_an_error() {
        let huge = u32::MAX.to_be_bytes();
        assert!(receive::<Order>(&mut huge.as_slice()).is_err());
        let garbage = [0, 0, 0, 1, 0xc1];
        assert!(receive::<Order>(&mut garbage.as_slice()).is_err());
    }
}
