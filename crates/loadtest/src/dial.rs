//! From nothing to a signed-in socket. It lives in a task of its own that ends with the `welcome`,
//! so that its large future is not kept for as long as the connection.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderValue, Uri};
use presence_protocol::{
    ClientMessage, CloseReason, Format, GatewayMessage, Hello, decode_gateway, encode_client,
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::plan::SignIn;
use crate::run::Run;
use crate::sources::{Sources, is_taken};
use crate::token;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Each connection keeps this buffer for life; most frames are smaller.
const READ_BUFFER_LEN: usize = 256;

/// A snapshot of the longest watch list there may be fits well.
const MESSAGE_LEN_MAX: usize = 1024 * 1024;

/// Why a connection failed or ended. Its text is the kind it is counted under.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error("no free port on the source addresses")]
    NoPort,
    #[error("TCP: {0}")]
    Tcp(io::ErrorKind),
    #[error("the upgrade was answered by HTTP {0}")]
    Upgrade(StatusCode),
    #[error("no welcome in time")]
    TimedOut,
    #[error("closed with {}", close_label(*.0))]
    Closed(Option<u16>),
    #[error("the stream ended without a close frame")]
    Ended,
    #[error("WebSocket: {0}")]
    WebSocket(String),
    #[error("a message that is none: {0}")]
    Garbage(String),
    #[error("the token could not be signed")]
    Token,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if is_taken(&error) { Self::NoPort } else { Self::Tcp(error.kind()) }
    }
}

impl From<WsError> for Failure {
    fn from(error: WsError) -> Self {
        match error {
            WsError::Io(error) => error.into(),
            WsError::Http(response) => Self::Upgrade(response.status()),
            WsError::ConnectionClosed => Self::Ended,
            other => Self::WebSocket(other.to_string()),
        }
    }
}

/// A close code with its name, as it is counted.
pub(crate) fn close_label(code: Option<u16>) -> String {
    let name = |code| CloseReason::from_code(code).map_or("unknown", CloseReason::label);
    code.map_or_else(|| "no code".to_owned(), |code| format!("{code} {}", name(code)))
}

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

/// Connects the n-th user and signs it in.
pub(crate) async fn sign_in(run: &Run, index: u32) -> Result<Socket, Failure> {
    let hello = hello(run, index)?;
    let mut socket = upgrade(run.plan.route()).await?;
    run.hello_sent_us[index as usize].store(run.now_us(), Ordering::Relaxed);
    socket.send(frame(run.plan.format, &hello)).await?;
    wait_for_welcome(run, &mut socket).await?;
    Ok(socket)
}

async fn connect(route: Route<'_>) -> Result<TcpStream, Failure> {
    let stream = match route.sources {
        Some(sources) => sources.connect(route.target).await?,
        None => TcpStream::connect(route.target).await?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn hello(run: &Run, index: u32) -> Result<ClientMessage, Failure> {
    let user = run.plan.user(index);
    let hello = match &run.plan.sign_in {
        SignIn::ByName => Hello { user: Some(user), ..Hello::default() },
        SignIn::ByToken { secret } => {
            let token = token::sign(secret, &user).map_err(|_| Failure::Token)?;
            Hello { token: Some(token), ..Hello::default() }
        }
    };
    Ok(ClientMessage::Hello(hello))
}

async fn wait_for_welcome(run: &Run, socket: &mut Socket) -> Result<(), Failure> {
    loop {
        let frame = socket.next().await.ok_or(Failure::Ended)??;
        if let Some(message) = read(run.plan.format, frame)? {
            match message {
                GatewayMessage::Welcome(_) => return Ok(()),
                GatewayMessage::Error(error) => run.tally.errors.add(refusal(error.code.as_str())),
                _ => {}
            }
        }
    }
}

/// How a refused message is counted.
pub(crate) fn refusal(code: &str) -> String {
    format!("message refused: {code}")
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
