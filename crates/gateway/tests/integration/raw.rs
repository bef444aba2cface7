//! A peer that writes its bytes by hand: for what no library does, and where there are thousands.

use std::net::SocketAddr;

use presence_protocol::{ClientMessage, Format, Hello, encode_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{PATIENCE, user};

pub(crate) const BINARY: u8 = 0x82;

pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    /// Connects, and says nothing.
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(addr).await.expect("accepted") }
    }

    /// Asks for a WebSocket with these headers more, and something before the request. Answers the status.
    pub(crate) async fn ask(addr: SocketAddr, before: &[u8], headers: &[&str]) -> (u16, Self) {
        let mut raw = Self::connect(addr).await;
        let headers: String = headers.iter().flat_map(|header| [*header, "\r\n"]).collect();
        let upgrade = format!(
            "GET /ws HTTP/1.1\r\nhost: gateway.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             sec-websocket-protocol: presence.v1.msgpack\r\n{headers}\r\n"
        );
        raw.write(&[before, upgrade.as_bytes()].concat()).await;
        let head = raw.read_head().await;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {head:?}")), raw)
    }

    /// Has a WebSocket, and says nothing on it.
    pub(crate) async fn upgraded(addr: SocketAddr) -> Self {
        let (status, raw) = Self::ask(addr, b"", &[]).await;
        assert_eq!(status, 101);
        raw
    }

    /// Is signed in.
    pub(crate) async fn joined(addr: SocketAddr, name: &str) -> Self {
        let mut raw = Self::upgraded(addr).await;
        raw.hello(name).await;
        raw
    }

    pub(crate) async fn hello(&mut self, name: &str) {
        self.say(&ClientMessage::Hello(Hello { user: Some(user(name)), ..Hello::default() })).await;
        // The welcome, or why there is none.
        let mut head = [0; 2];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut head)).await;
        read.expect("in time").expect("an answer");
        assert_eq!(head[0], BINARY, "{head:?}");
    }

    pub(crate) async fn say(&mut self, message: &ClientMessage) {
        self.frame(BINARY, &encode_client(Format::MsgPack, message)).await;
    }

    /// Masked with zeros, which change nothing.
    pub(crate) async fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut frame = vec![first];
        match u16::try_from(payload.len()).expect("no longer than that") {
            len @ ..126 => frame.push(0x80 + len as u8),
            len => {
                frame.push(0x80 + 126);
                frame.extend(len.to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.write(&frame).await;
    }

    /// Where the socket is gone, reading tells.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let written = timeout(PATIENCE, self.stream.write_all(bytes)).await;
        drop(written.expect("it is taken in time"));
    }

    /// All that comes until the gateway closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let read = timeout(2 * PATIENCE, self.stream.read_to_end(&mut rest)).await;
        drop(read.expect("the gateway closes"));
        String::from_utf8_lossy(&rest).into_owned()
    }

    async fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        let read = async {
            while !head.ends_with(b"\r\n\r\n") {
                match self.stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_ended) => break,
                }
            }
        };
        timeout(2 * PATIENCE, read).await.expect("an answer in time");
        String::from_utf8_lossy(&head).into_owned()
    }
}
