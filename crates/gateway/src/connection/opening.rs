//! Opening: the first message must be a `hello` that proves who the user is, and must come in time.

use std::future::poll_fn;
use std::time::SystemTime;

use presence::{Joining, Session};
use presence_protocol::{
    ClientMessage, CloseReason, DecodeError, ErrorCode, Format, GatewayMessage, Hello, Show,
    Status, decode_client, encode_gateway,
};
use tokio::time::timeout;
use tracing::debug;

use super::End;
use super::incoming::Message;
use super::watching::permission;
use super::wire::Wire;
use crate::app::SharedApp;
use crate::auth::{AuthError, Identity, Permission};

/// A session that has just begun.
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) may_watch: Permission,
    /// When the token was issued, in seconds since the Unix epoch; 0 when it does not say.
    pub(super) issued_at_s: u64,
}

/// Waits for the `hello` and lets the user in.
pub(super) async fn open(
    wire: &mut Wire,
    app: &SharedApp,
    identity: Option<Box<Identity>>,
) -> Result<Opened, End> {
    let hello = timeout(app.settings.hello_timeout, hello(wire, app)).await;
    let hello = hello.map_err(|_too_late| End::Close(CloseReason::NoHello))??;
    let identity = identify(app, &hello, identity.map(|proven| *proven)).map_err(End::Close)?;
    if app.presence.is_draining() {
        return Err(End::Close(CloseReason::Draining));
    }
    let status = initial_status(&hello);
    let Hello { device, .. } = hello;
    let (user, format, address) = (identity.user.clone(), wire.format(), wire.address());
    let session = app.presence.join(Joining { user, device, status, format, address });
    set_expiry(&session, &identity);
    let Identity { user, may_watch, issued_at_s, .. } = identity;
    // Once more: whoever is revoked from now on is found among the sessions.
    if app.is_revoked(&user, issued_at_s) {
        return Err(End::Close(CloseReason::BadToken));
    }
    Ok(Opened { session, may_watch: permission(app, may_watch), issued_at_s })
}

/// Who a client is, by its token or by its own word; `proven` came with the upgrade request.
pub(super) fn identify(
    app: &SharedApp,
    hello: &Hello,
    proven: Option<Identity>,
) -> Result<Identity, CloseReason> {
    let identity = match (&hello.token, &hello.user, proven) {
        (Some(token), _, _) => app.authenticator.authenticate(token),
        (None, _, Some(identity)) => Ok(identity),
        (None, Some(user), None) => app.authenticator.believe(user.clone()),
        (None, None, None) => Err(AuthError::MissingClaim("token".to_owned())),
    };
    let identity = identity.and_then(|identity| {
        let is_revoked = app.is_revoked(&identity.user, identity.issued_at_s);
        if is_revoked { Err(AuthError::Revoked) } else { Ok(identity) }
    });
    identity.map_err(|error| {
        debug!(%error, "a hello was refused");
        if error == AuthError::Expired { CloseReason::TokenExpired } else { CloseReason::BadToken }
    })
}

/// The session ends when its token does.
pub(super) fn set_expiry(session: &Session, identity: &Identity) {
    if let Some(expires_at) = identity.expires_at {
        let left = expires_at.duration_since(SystemTime::now()).unwrap_or_default();
        session.expire_after(left);
    }
}

/// Waits for the `hello`. A message that makes no sense is answered by `error`, and the client may try again in the
/// time that is left; another message ends it.
async fn hello(wire: &mut Wire, app: &SharedApp) -> Result<Hello, End> {
    let asks_token = app.authenticator.wants_token();
    loop {
        let payload = next_payload(wire, app).await?;
        let refused = match decode_client(wire.format(), &payload) {
            Ok(ClientMessage::Hello(hello)) => {
                if asks_token || hello.user.is_some() || hello.token.is_some() {
                    return Ok(hello);
                }
                bad_message("hello: `user` is missing".to_owned())
            }
            Ok(_) => {
                let message = "the first message must be hello".to_owned();
                explain(wire, bad_message(message)).await?;
                return Err(End::Close(CloseReason::NoHello));
            }
            Err(error) => error,
        };
        explain(wire, refused).await?;
    }
}

/// The next message but Pings, which are answered.
async fn next_payload(wire: &mut Wire, app: &SharedApp) -> Result<Vec<u8>, End> {
    loop {
        let message = poll_fn(|cx| wire.poll_message(cx, app.settings.max_frame_bytes)).await?;
        match (message, wire.format()) {
            (Message::Text(payload), Format::Json)
            | (Message::Binary(payload), Format::MsgPack) => {
                return Ok(payload);
            }
            (Message::Text(_) | Message::Binary(_), _) => {
                return Err(End::Close(CloseReason::WrongFrameKind));
            }
            (Message::Ping(payload), _) => {
                wire.pong(payload)?;
                poll_fn(|cx| wire.poll_flush(cx)).await?;
            }
            (Message::Pong, _) => {}
            (Message::Close(answer), _) => {
                wire.answer_close(answer)?;
                return Err(End::Peer);
            }
        }
    }
}

fn bad_message(message: String) -> DecodeError {
    DecodeError { code: ErrorCode::BadMessage, message, id: None }
}

/// A `hello` may say how the session is shown, so that nobody is online for a moment who wants to be invisible.
fn initial_status(hello: &Hello) -> Option<Status> {
    let Hello { show, text, .. } = hello;
    (show.is_some() || text.is_some())
        .then(|| Status { show: show.unwrap_or(Show::Online), text: text.clone() })
}

async fn explain(wire: &mut Wire, error: DecodeError) -> Result<(), End> {
    wire.send(encode_gateway(wire.format(), &GatewayMessage::Error(error.into())))?;
    poll_fn(|cx| wire.poll_flush(cx)).await
}
