//! Opening a WebSocket: what a client offers in its upgrade request, and how large its receive buffer is.

use std::net::SocketAddr;

use presence_protocol::Format;
use tokio::net::TcpSocket;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

use crate::client::Client;

#[derive(Clone)]
pub(crate) struct Dial {
    addr: SocketAddr,
    format: Format,
    subprotocol: Option<String>,
    authorization: Option<String>,
    path: String,
    receive_buffer: Option<u32>,
}

impl Dial {
    /// JSON, offered by name.
    pub(crate) fn new(addr: SocketAddr) -> Self {
        let dial = Self {
            addr,
            format: Format::Json,
            subprotocol: None,
            authorization: None,
            path: "/ws".to_owned(),
            receive_buffer: None,
        };
        dial.format(Format::Json)
    }

    pub(crate) fn format(self, format: Format) -> Self {
        Self { format, subprotocol: Some(format.subprotocol().to_owned()), ..self }
    }

    /// Offers no sub-protocol.
    pub(crate) fn plain(self) -> Self {
        Self { subprotocol: None, ..self }
    }

    /// Sends `Authorization: Bearer` with the request.
    pub(crate) fn bearer(self, token: &str) -> Self {
        Self { authorization: Some(format!("Bearer {token}")), ..self }
    }

    /// Asks for this, instead of `/ws`.
    pub(crate) fn path(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    pub(crate) fn receive_buffer(self, bytes: u32) -> Self {
        Self { receive_buffer: Some(bytes), ..self }
    }

    pub(crate) async fn open(self) -> Client {
        self.open_and_look().await.0
    }

    /// Also answers the gateway's response.
    pub(crate) async fn open_and_look(self) -> (Client, Response) {
        let socket = TcpSocket::new_v4().expect("a socket");
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes).expect("a receive buffer");
        }
        let stream = socket.connect(self.addr).await.expect("the gateway accepts");
        stream.set_nodelay(true).expect("no delay");
        let mut request =
            format!("ws://{}{}", self.addr, self.path).into_client_request().expect("a request");
        for (name, value) in
            [(SEC_WEBSOCKET_PROTOCOL, &self.subprotocol), (AUTHORIZATION, &self.authorization)]
        {
            if let Some(value) = value {
                request.headers_mut().insert(name, HeaderValue::from_str(value).expect("a header"));
            }
        }
        let (socket, response) = client_async(request, stream).await.expect("an upgrade");
        (Client::on(socket, self.format), response)
    }
}
