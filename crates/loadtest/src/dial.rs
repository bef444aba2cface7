//! From nothing to an open WebSocket, and messages in frames: the sockets of the promise check and of
//! the attacks. Those of a run are in `worker`.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderValue, Uri};
use presence_protocol::{ClientMessage, Format, GatewayMessage, decode_gateway, encode_client};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::failure::Failure;
use crate::sources::Sources;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Each connection keeps this buffer for life; most frames are smaller.
const READ_BUFFER_LEN: usize = 256;

/// A snapshot of the longest watch list there may be fits well.
const MESSAGE_LEN_MAX: usize = 1024 * 1024;

/// Where a socket leads, and how messages are written on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<'a> {
    pub(crate) url: &'a Uri,
    pub(crate) target: SocketAddr,
    /// None when the gateway is elsewhere, and the system chooses.
    pub(crate) sources: Option<&'a Sources>,
    pub(crate) format: Format,
}

/// Opens a WebSocket; nothing is said on it yet.
pub(crate) async fn upgrade(route: Route<'_>) -> Result<Socket, Failure> {
    let stream = connect(route).await?;
    let mut request = route.url.into_client_request()?;
    let format = HeaderValue::from_static(route.format.subprotocol());
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, format);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_LEN)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_LEN_MAX));
    let (upgraded, _) = client_async_with_config(request, stream, Some(config)).await?;
    // The buffer of the handshake, 4 KiB, would live on in the socket. It is empty: the gateway
    // says nothing before `hello`.
    let stream = upgraded.into_inner();
    Ok(Socket::from_raw_socket(stream, Role::Client, Some(config)).await)
}

/// Opens a TCP connection; nothing is asked on it yet.
pub(crate) async fn connect(route: Route<'_>) -> Result<TcpStream, Failure> {
    let stream = match route.sources {
        Some(sources) => sources.connect(route.target).await?,
        None => TcpStream::connect(route.target).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The message in a frame, if the frame is one.
pub(crate) fn read(format: Format, frame: Message) -> Result<Option<GatewayMessage>, Failure> {
    let bytes = match frame {
        Message::Text(text) => Bytes::from(text),
        Message::Binary(bytes) => bytes,
        Message::Close(close) => {
            return Err(Failure::Closed(close.map(|close| close.code.into())));
        }
        _ => return Ok(None),
    };
    let message = decode_gateway(format, &bytes);
    message.map(Some).map_err(|error| Failure::Garbage(error.message))
}

/// A message in a frame.
pub(crate) fn frame(format: Format, message: &ClientMessage) -> Message {
    let bytes = encode_client(format, message);
    match format {
        Format::Json => Message::Text(
            Utf8Bytes::try_from(bytes).expect("JSON is written as UTF-8 by the protocol crate"),
        ),
        Format::MsgPack => Message::Binary(bytes),
    }
}
