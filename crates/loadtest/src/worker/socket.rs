//! The socket of a connection, with TLS where its gateway is at `wss://`.
//!
//! Nothing blocks: a handshake goes on with whatever is read or written next.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

pub(super) enum Socket {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    pub(super) fn new(stream: TcpStream, tls: Option<ClientConnection>) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(tls) => Self::Encrypted(Box::new(StreamOwned::new(tls, stream))),
        }
    }

    pub(super) fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => &mut stream.sock,
        }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted(_))
    }

    /// Whether it took bytes that TCP did not take yet.
    pub(super) fn is_full(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Encrypted(stream) => stream.conn.wants_write(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
