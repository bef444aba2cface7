//! Where the connections come from: addresses and ports of this machine, chosen here.
//!
//! Left to itself, the kernel searches for a free port at each `bind`, and beyond some 7,000 taken
//! ones on an address (those that linger after an earlier run count) it searches for so long that
//! the search is what would be measured. So a port is named outright, and the next one is tried
//! when it is taken: a constant cost as long as most are free.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

/// Of some 28,000 ports an address has, so that a free one is found at the first try or the second.
pub(crate) const CONNECTIONS_PER_ADDRESS: u32 = 5_000;

/// Prime, so that ports are gone through in a scattered order: the ports of another tester, which
/// has its own start, are then met singly and not as one long row.
const STRIDE: u64 = 7919;

/// With half of all ports taken, fewer than one in a thousand million connections needs more.
const TRIES_MAX: u32 = 32;

/// What a connection that is on its way answers.
const IN_PROGRESS: i32 = Errno::INPROGRESS.raw_os_error();

/// Loopback addresses from 127.0.0.1 on, and the ports to use on each.
#[derive(Debug)]
pub(crate) struct Sources {
    addresses: u64,
    port_min: u64,
    ports: u64,
    next: AtomicU64,
}

impl Sources {
    /// `start` is anything that differs between testers.
    pub(crate) fn new(addresses: u32, ports: &RangeInclusive<u16>, start: u64) -> Self {
        let addresses = u64::from(addresses);
        let count = ports.len() as u64;
        let next = AtomicU64::new(start % count * addresses);
        Self { addresses, port_min: u64::from(*ports.start()), ports: count, next }
    }

    /// A connection that is on its way from the next free address and port; the socket tells when
    /// it is there, or why not.
    pub(crate) fn begin(&self, target: SocketAddr) -> io::Result<Socket> {
        let mut tries = 1;
        loop {
            match begin_from(Some(self.next()), target) {
                Err(error) if is_taken(&error) && tries < TRIES_MAX => tries += 1,
                begun => return begun,
            }
        }
    }

    /// A connection from the next free address and port.
    pub(crate) async fn connect(&self, target: SocketAddr) -> io::Result<TcpStream> {
        let mut tries = 1;
        loop {
            match connect_from(self.next(), target).await {
                Err(error) if is_taken(&error) && tries < TRIES_MAX => tries += 1,
                connected => return connected,
            }
        }
    }

    fn next(&self) -> SocketAddr {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let address = u32::from(Ipv4Addr::LOCALHOST) + (turn % self.addresses) as u32;
        let port = self.port_min + turn / self.addresses % self.ports * STRIDE % self.ports;
        SocketAddr::new(IpAddr::V4(Ipv4Addr::from(address)), port as u16)
    }
}

/// The same from wherever the system chooses.
pub(crate) fn begin_from_anywhere(target: SocketAddr) -> io::Result<Socket> {
    begin_from(None, target)
}

fn begin_from(source: Option<SocketAddr>, target: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        // Takes a port back that lingers after an earlier run.
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
    }
    match socket.connect(&target.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

async fn connect_from(source: SocketAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // Takes a port back that lingers after an earlier run.
    socket.set_reuseaddr(true)?;
    socket.bind(source)?;
    socket.connect(target).await
}

/// Two kinds: of the port, and of the pair of it and the target.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_address_and_port_comes_once_before_any_comes_again() {
        let sources = Sources::new(300, &(32_768..=33_767), 12_345);
        let all: HashSet<SocketAddr> = (0..300_000).map(|_| sources.next()).collect();
        assert_eq!(all.len(), 300_000);
        assert!(all.contains(&SocketAddr::from(([127, 0, 0, 1], 32_768))));
        assert!(all.contains(&SocketAddr::from(([127, 0, 1, 44], 33_767))));
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_passed_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = listener.local_addr().unwrap();
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = taken.local_addr().unwrap().port();
        // Any of the others may be taken as well, by whatever else runs on this machine.
        let ports = taken..=taken + 20;
        let connected = Sources::new(1, &ports, 0).connect(target).await.unwrap();
        let port = connected.local_addr().unwrap().port();
        assert!(port != taken && ports.contains(&port), "{port} of {ports:?}");
    }
}
