//! Opening: the first message must be a `hello` that proves who the user is, and must come in time.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use presence::{Joining, Session};
use presence_protocol::{
    ClientMessage, CloseReason, ErrorCode, ErrorMessage, Format, GatewayMessage, Hello, Show,
    Status, decode_client, encode_gateway,
};
use tokio::time::timeout;

use super::incoming::Message;
use super::limiter::{Limiter, Verdict};
use super::watching::permission;
use super::wire::Wire;
use super::{End, refusal};
use crate::admission::Handshake;
use crate::app::SharedApp;
use crate::auth::{AuthError, Identity, Permission};

/// Before a close that says that the token is not valid: what the client took this gateway for.
const NO_TOKENS: &str = "hello: `token` cannot be verified, since this gateway runs without \
    authentication: say who you are with `user`";
const TOKENS_ONLY: &str = "hello: `token` is missing, and this gateway believes nothing else: \
    say who you are with a `token`";

/// What is known of a client before its `hello`.
pub(crate) struct Newcomer {
    /// Who it is, where the request said so.
    pub(crate) identity: Option<Identity>,
    /// Where it is, by the word of a trusted proxy too.
    pub(crate) address: IpAddr,
    /// Until it has said `hello`.
    pub(crate) handshake: Arc<Handshake>,
}

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
    newcomer: Newcomer,
) -> Result<Opened, End> {
    let Newcomer { identity, address, handshake: _until_the_end_of_this } = newcomer;
    let time = app.admission.patience(app.settings.hello_timeout);
    let hello = timeout(time, hello(wire, app, identity.as_ref())).await;
    let hello = hello.map_err(|_too_late| End::Close(CloseReason::NoHello))??;
    let identity = identify(app, &hello, identity).await?;
    if app.presence.is_draining() {
        return Err(End::Close(CloseReason::Draining));
    }
    if app.admission.is_short_of_memory() {
        return Err(End::Close(CloseReason::Overloaded));
    }
    let status = initial_status(&hello);
    let Hello { device, .. } = hello;
    let (user, format, address) = (identity.user.clone(), wire.format(), Some(address));
    let session = app.presence.join(Joining { user, device, status, format, address });
    let session = session.map_err(|_too_many| End::Close(CloseReason::TooManySessions))?;
    set_expiry(&session, &identity);
    let Identity { user, may_watch, issued_at_s, .. } = identity;
    // Once more: whoever is revoked from now on is found among the sessions.
    if app.is_revoked(&user, issued_at_s) {
        return Err(End::Close(CloseReason::BadToken));
    }
    Ok(Opened { session, may_watch: permission(app, may_watch), issued_at_s })
}

/// Who a client is, by its token or by its own word; `proven` came with the upgrade request.
pub(super) async fn identify(
    app: &SharedApp,
    hello: &Hello,
    proven: Option<Identity>,
) -> Result<Identity, End> {
    let identity = match (&hello.token, &hello.user, proven) {
        (Some(token), _, _) => app.authenticator.admit(token).await,
        (None, _, Some(identity)) => Ok(identity),
        (None, Some(user), None) => app.authenticator.believe(user.clone()),
        (None, None, None) => Err(AuthError::NoToken),
    };
    identity.and_then(|identity| app.unrevoked(identity)).map_err(|error| {
        app.refused(&error);
        End::Close(error.close_reason())
    })
}

/// The session ends when its token does.
pub(super) fn set_expiry(session: &Session, identity: &Identity) {
    if let Some(expires_at) = identity.expires_at {
        let left = expires_at.duration_since(SystemTime::now()).unwrap_or_default();
        session.expire_after(left);
    }
}

/// Waits for the `hello`. One that makes no sense is answered by `error`, and the client may try again in the time that is
/// left; whatever else comes is answered by `error` as well, and ends it.
async fn hello(wire: &mut Wire, app: &SharedApp, proven: Option<&Identity>) -> Result<Hello, End> {
    let asks_token = app.authenticator.wants_token();
    let mut limiter = Limiter::default();
    loop {
        let payload = next_payload(wire, app, &mut limiter).await?;
        let refused = match decode_client(wire.format(), &payload) {
            Ok(ClientMessage::Hello(hello)) => match (asks_token, &hello.token, &hello.user) {
                (true, None, _) if proven.is_none() => {
                    explain(wire, bad_message(TOKENS_ONLY)).await?;
                    return Ok(hello);
                }
                (false, Some(_), _) => {
                    explain(wire, bad_message(NO_TOKENS)).await?;
                    return Ok(hello);
                }
                (false, None, None) => bad_message("hello: `user` is missing"),
                _ => return Ok(hello),
            },
            Ok(_) => return other(wire, bad_message("the first message must be hello")).await,
            Err(error) if error.is_hello => error.into(),
            Err(error) => return other(wire, error.into()).await,
        };
        explain(wire, refused).await?;
    }
}

/// Ends it for something else than a `hello`.
async fn other(wire: &mut Wire, error: ErrorMessage) -> Result<Hello, End> {
    explain(wire, error).await?;
    Err(End::Close(CloseReason::NoHello))
}

/// The next message but Pings, which are answered.
async fn next_payload(
    wire: &mut Wire,
    app: &SharedApp,
    limiter: &mut Limiter,
) -> Result<Vec<u8>, End> {
    loop {
        let message = poll_fn(|cx| wire.poll_message(cx, app.settings.max_frame_bytes)).await?;
        // Whoever is not known yet is not told first.
        if limiter.admit(app.settings.message_rate) != Verdict::Admitted {
            return Err(End::Close(CloseReason::RateLimited));
        }
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
            (Message::Pong | Message::Fragment, _) => {}
            (Message::Close(answer), _) => {
                wire.answer_close(answer)?;
                return Err(End::Peer);
            }
        }
    }
}

fn bad_message(message: &str) -> ErrorMessage {
    refusal(ErrorCode::BadMessage, message.to_owned())
}

/// A `hello` may say how the session is shown, so that nobody is online for a moment who wants to be invisible.
fn initial_status(hello: &Hello) -> Option<Status> {
    let Hello { show, text, .. } = hello;
    (show.is_some() || text.is_some())
        .then(|| Status { show: show.unwrap_or(Show::Online), text: text.clone() })
}

async fn explain(wire: &mut Wire, error: ErrorMessage) -> Result<(), End> {
    wire.send(encode_gateway(wire.format(), &GatewayMessage::Error(error)))?;
    poll_fn(|cx| wire.poll_flush(cx)).await
}
