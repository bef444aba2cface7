//! A client that is a socket and nothing else: what it sends and reads lives on the heap only meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use presence_protocol::{
    ClientMessage, Format, GatewayMessage, Hello, RequestId, UserId, UserState, decode_gateway,
    encode_client,
};

const FORMAT: Format = Format::MsgPack;

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    sec-websocket-protocol: presence.v1.msgpack\r\n\r\n";

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;

pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    /// Opens a socket and signs in.
    pub(crate) fn join(addr: SocketAddr, user: UserId) -> Self {
        let client = Self { stream: connect(addr) };
        (&client.stream).write_all(UPGRADE.as_bytes()).expect("it is taken");
        client.skip_head();
        client.send(&ClientMessage::Hello(Hello { user: Some(user), ..Hello::default() }));
        let welcome = client.next();
        assert!(matches!(welcome, GatewayMessage::Welcome(_)), "{welcome:?}");
        client
    }

    /// Reads the answer to the upgrade, byte by byte, since what follows it is a frame.
    fn skip_head(&self) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            (&self.stream).read_exact(&mut byte).expect("an answer");
            head.extend(byte);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    }

    /// Masked with zeros, which change nothing.
    pub(crate) fn send(&self, message: &ClientMessage) {
        let payload = encode_client(FORMAT, message);
        let mut frame = vec![BINARY];
        match payload.len() {
            len @ ..126 => frame.push(0x80 + len as u8),
            len => {
                frame.push(0x80 + 126);
                frame.extend(u16::try_from(len).expect("no longer than that").to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend_from_slice(&payload);
        (&self.stream).write_all(&frame).expect("it is taken");
    }

    /// The next message of the gateway.
    pub(crate) fn next(&self) -> GatewayMessage {
        let (opcode, payload) = self.frame();
        assert_eq!(opcode, BINARY, "{payload:?}");
        decode_gateway(FORMAT, &payload).expect("a message")
    }

    /// Asks, and passes over all that comes before the answer.
    pub(crate) fn ask(
        &self,
        request: impl FnOnce(Option<RequestId>) -> ClientMessage,
    ) -> Vec<UserState> {
        self.send(&request(Some(RequestId::Number(1))));
        loop {
            match self.next() {
                GatewayMessage::Snapshot { id: Some(_), users } => return users,
                GatewayMessage::Presence { .. } => {}
                other => panic!("a snapshot was due, not {other:?}"),
            }
        }
    }

    /// Comes back when all that was sent before is handled.
    pub(crate) fn fence(&self) {
        self.ask(|id| ClientMessage::Query { users: Vec::new(), id, grant: None });
    }

    /// The gateway says that it closes, and does.
    pub(crate) fn expect_end(&self) {
        while self.frame().0 != CLOSE {}
        let rest = (&self.stream).read(&mut [0]).expect("no reset");
        assert_eq!(rest, 0, "nothing follows a close frame");
    }

    fn frame(&self) -> (u8, Vec<u8>) {
        let [opcode, len] = self.read();
        let len = match len {
            126 => usize::from(u16::from_be_bytes(self.read())),
            127 => u64::from_be_bytes(self.read()) as usize,
            len => usize::from(len),
        };
        let mut payload = vec![0; len];
        (&self.stream).read_exact(&mut payload).expect("a whole frame");
        (opcode, payload)
    }

    fn read<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (&self.stream).read_exact(&mut bytes).expect("a frame comes in time");
        bytes
    }
}

/// The answer to a request for `path`.
pub(crate) fn get(addr: SocketAddr, path: &str) -> String {
    let mut stream = connect(addr);
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("accepted");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a time");
    stream.set_nodelay(true).expect("it is a socket");
    stream
}
