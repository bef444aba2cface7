//! One WebSocket that speaks the contract. It neither retries nor keeps time, but for one thing: a
//! write that takes too long is a lost connection.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::{RETRY_AFTER, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderValue, Uri};
use presence_protocol::{
    ClientMessage, CloseReason, Format, GatewayMessage, decode_gateway, encode_client,
};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tracing::debug;

use crate::event::DisconnectReason;
use crate::options::Transport;

/// Most frames are far smaller; the default of 128 KiB would be most of a client's memory.
const BUFFER_LEN: usize = 4 * 1024;

/// A snapshot of as many users as one request asks for, each with the longest id, text and some
/// devices, takes about 200 KiB.
const MESSAGE_LEN_MAX: usize = 1024 * 1024;

/// A gateway that takes nothing for this long is lost. It must be well below any sensible TTL.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a gateway may take to answer `bye` by closing.
const BYE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Socket {
    stream: WebSocketStream<Box<dyn Transport>>,
    format: Format,
}

/// What arrived.
#[derive(Debug)]
pub(crate) enum Incoming {
    Message(GatewayMessage),
    /// A Ping, a Pong, or a message of a kind that this version does not know.
    SignOfLife,
}

impl Socket {
    /// The WebSocket handshake over a fresh transport.
    pub(crate) async fn upgrade(
        transport: Box<dyn Transport>,
        url: &Uri,
        format: Format,
    ) -> Result<Self, DisconnectReason> {
        let mut request = url.into_client_request().map_err(not_upgraded)?;
        let offer = HeaderValue::from_static(format.subprotocol());
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, offer);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_LEN)
            .write_buffer_size(BUFFER_LEN)
            .max_message_size(Some(MESSAGE_LEN_MAX))
            .max_frame_size(Some(MESSAGE_LEN_MAX));
        let upgraded = client_async_with_config(request, transport, Some(config)).await;
        let (stream, _response) = upgraded.map_err(not_upgraded)?;
        Ok(Self { stream, format })
    }

    /// Says `bye`, and waits until the gateway closes.
    pub(crate) async fn sign_out(&mut self) {
        let goodbye = async {
            self.send(&[ClientMessage::Bye]).await?;
            while self.receive().await.is_ok() {}
            Ok::<(), DisconnectReason>(())
        };
        let _ = timeout(BYE_TIMEOUT, goodbye).await;
    }

    /// The next thing to arrive. Loses nothing when it is cancelled.
    pub(crate) async fn receive(&mut self) -> Result<Incoming, DisconnectReason> {
        let frame = match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Bytes::from(text),
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Close(frame))) => {
                let code = frame.map_or(NO_CODE, |frame| u16::from(frame.code));
                self.finish_close().await;
                return Err(closed_with(code));
            }
            Some(Ok(_)) => return Ok(Incoming::SignOfLife),
            Some(Err(error)) => return Err(DisconnectReason::Lost(error.to_string())),
            None => return Err(DisconnectReason::Lost("the stream ended".to_owned())),
        };
        match decode_gateway(self.format, &frame) {
            Ok(message) => Ok(Incoming::Message(message)),
            Err(error) => {
                debug!(%error, "a message from the gateway was not understood");
                Ok(Incoming::SignOfLife)
            }
        }
    }

    /// Sends all of them, with one flush.
    pub(crate) async fn send(
        &mut self,
        messages: &[ClientMessage],
    ) -> Result<(), DisconnectReason> {
        let format = self.format;
        let frames = messages.iter().map(|message| frame(format, message)).collect();
        self.write(frames).await
    }

    pub(crate) async fn ping(&mut self) -> Result<(), DisconnectReason> {
        self.write(vec![Message::Ping(Bytes::new())]).await
    }

    async fn write(&mut self, frames: Vec<Message>) -> Result<(), DisconnectReason> {
        let write = async {
            for frame in frames {
                self.stream.feed(frame).await?;
            }
            self.stream.flush().await
        };
        match timeout(WRITE_TIMEOUT, write).await {
            Ok(written) => written.map_err(|error| DisconnectReason::Lost(error.to_string())),
            Err(_) => Err(DisconnectReason::Lost("the gateway takes no more".to_owned())),
        }
    }

    /// The gateway waits for the answer to its close frame, which goes out with the next read.
    async fn finish_close(&mut self) {
        let _ = timeout(Duration::from_secs(1), self.stream.next()).await;
    }
}

/// A refusal says more than that there is no socket.
fn not_upgraded(error: WsError) -> DisconnectReason {
    let WsError::Http(response) = error else {
        return DisconnectReason::Unreachable(error.to_string());
    };
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    DisconnectReason::Refused { status: response.status().as_u16(), retry_after }
}

/// RFC 6455, 7.1.5: what a close frame without a code stands for.
const NO_CODE: u16 = 1005;

fn closed_with(code: u16) -> DisconnectReason {
    CloseReason::from_code(code)
        .map_or(DisconnectReason::ClosedWith(code), DisconnectReason::Closed)
}

fn frame(format: Format, message: &ClientMessage) -> Message {
    let bytes = encode_client(format, message);
    match format {
        Format::Json => Message::Text(
            Utf8Bytes::try_from(bytes).expect("JSON is written as UTF-8 by the protocol crate"),
        ),
        Format::MsgPack => Message::Binary(bytes),
    }
}
