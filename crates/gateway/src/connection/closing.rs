//! Closing: says why, and gives the peer a moment to read it.

use std::future::poll_fn;
use std::time::Duration;

use futures::SinkExt;
use presence_protocol::CloseReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::wire::Wire;
use super::{End, Socket};

/// How long a peer may take to read our close frame and close its side.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Closes the socket, within [`CLOSE_TIME`].
pub(super) async fn close(wire: &mut Wire, end: End) {
    let _ = timeout(CLOSE_TIME, async {
        // A frame that is half written must end before another begins.
        let _ = poll_fn(|cx| wire.poll_flush(cx)).await;
        let socket = &mut wire.socket;
        match end {
            End::Close(reason) => say_and_wait(socket, reason).await,
            // The answer to the peer's own close frame may still have to leave.
            End::Peer => drop(socket.flush().await),
        }
    })
    .await;
}

/// Whatever the peer still sends is read and dropped: a socket closed over unread bytes is reset, and the reset may
/// overtake the close frame.
async fn say_and_wait(socket: &mut Socket, reason: CloseReason) {
    let frame = CloseFrame {
        code: CloseCode::from(reason.code()),
        reason: Utf8Bytes::from_static(reason.text()),
    };
    if socket.close(Some(frame)).await.is_err() {
        return;
    }
    let stream = socket.get_mut();
    let _ = stream.shutdown().await;
    let mut dropped = [0; 512];
    while matches!(stream.read(&mut dropped).await, Ok(1..)) {}
}
