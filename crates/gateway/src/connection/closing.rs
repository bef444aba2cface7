//! Closing: says why, and gives the peer a moment to read it.

use std::future::poll_fn;
use std::time::Duration;

use presence_protocol::CloseReason;
use tokio::time::timeout;

use super::End;
use super::wire::Wire;

/// How long a peer may take to read our close frame and close its side.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Closes the socket, within [`CLOSE_TIME`].
pub(super) async fn close(wire: &mut Wire, end: End) {
    let _ = timeout(CLOSE_TIME, async {
        match end {
            End::Close(reason) => say_and_wait(wire, reason).await,
            // The answer to the peer's own close frame may still have to leave.
            End::Peer => let_go(wire).await,
        }
    })
    .await;
}

async fn let_go(wire: &mut Wire) -> Result<(), End> {
    poll_fn(|cx| wire.poll_flush(cx)).await?;
    poll_fn(|cx| wire.poll_end_encryption(cx)).await
}

/// Whatever the peer still sends is read and dropped: a socket closed over unread bytes is reset, and the reset may
/// overtake the close frame.
async fn say_and_wait(wire: &mut Wire, reason: CloseReason) -> Result<(), End> {
    wire.close(reason)?;
    poll_fn(|cx| wire.poll_flush(cx)).await?;
    poll_fn(|cx| wire.poll_shutdown(cx)).await?;
    poll_fn(|cx| wire.poll_discard(cx)).await
}
