//! A client's connection, encrypted or not: what HTTP, and then a WebSocket, reads from and writes to.
//!
//! Without TLS every operation is that of the TCP stream, behind one comparison.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// The most that is encrypted before the socket has taken it: as much as one record of TLS holds.
const ENCRYPTED_AHEAD_MAX: usize = 16 * 1024;

/// A connection, as it was accepted.
pub(crate) enum Socket {
    Plain(TcpStream),
    /// In a box: it is some thirty times as large.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// After the handshake.
    pub(crate) fn encrypted(mut stream: TlsStream<TcpStream>) -> Self {
        stream.get_mut().1.set_buffer_limit(Some(ENCRYPTED_AHEAD_MAX));
        Self::Tls(Box::new(stream))
    }

    /// Writes what the socket takes, without waiting. What was taken has left only after [`Socket::try_flush`].
    pub(crate) fn try_write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.try_write_vectored(bytes),
            Self::Tls(stream) => {
                try_flush(stream)?;
                let taken = stream.get_mut().1.writer().write_vectored(bytes)?;
                match try_flush(stream) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(taken),
                }
            }
        }
    }

    /// Lets go what is encrypted, without waiting.
    pub(crate) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => try_flush(stream),
        }
    }

    /// Whether the socket takes more.
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_write_ready(cx),
            Self::Tls(stream) => stream.get_ref().0.poll_write_ready(cx),
        }
    }

    /// Ends the encryption, where there is one, so that a peer can tell an end from a cut. What is not encrypted needs no
    /// word: closing the socket says it.
    pub(crate) fn poll_end_encryption(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

fn try_flush(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    let (tcp, session) = stream.get_mut();
    while session.wants_write() {
        if session.write_tls(&mut WithoutWaiting(tcp))? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

struct WithoutWaiting<'a>(&'a TcpStream);

impl Write for WithoutWaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, read),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, read),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
