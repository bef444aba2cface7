//! A socket that sends back whatever comes: no protocol, no session. For conformance tests of what is below those.

use std::future::poll_fn;

use presence_protocol::Format;

use super::closing;
use super::incoming::Message;
use super::outgoing::Frame;
use super::{End, Wire};

/// The largest message of the tests is 16 MiB.
const MESSAGE_LEN_MAX: usize = 32 << 20;

/// Echoes until the socket ends.
pub(crate) async fn run(mut wire: Wire) {
    let end = loop {
        if let Err(end) = echo_one(&mut wire).await {
            break end;
        }
    };
    closing::close(&mut wire, end).await;
}

async fn echo_one(wire: &mut Wire) -> Result<(), End> {
    match poll_fn(|cx| wire.poll_message(cx, MESSAGE_LEN_MAX)).await? {
        Message::Text(payload) => wire.write(Frame::message(Format::Json, payload.into()))?,
        Message::Binary(payload) => wire.write(Frame::message(Format::MsgPack, payload.into()))?,
        Message::Ping(payload) => wire.pong(payload)?,
        Message::Pong | Message::Fragment => {}
        Message::Close(answer) => {
            wire.answer_close(answer)?;
            return Err(End::Peer);
        }
    }
    poll_fn(|cx| wire.poll_flush(cx)).await
}
