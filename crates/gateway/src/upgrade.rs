//! From an HTTP request to a WebSocket.
//!
//! The socket goes on in a task of its own, so that the HTTP connection and the handshake, which are larger than all
//! that a silent session needs, are given back before the first frame.

use std::future::{self, Future};
use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Parts};
use hyper_util::rt::TokioIo;
use presence_protocol::{Negotiated, negotiate};
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::debug;

use crate::admission::{Handshake, refuse};
use crate::app::SharedApp;
use crate::auth::{AuthError, Identity, PEER_MESSAGE, bearer_token};
use crate::connection::{self, Newcomer, Wire};
use crate::socket::Socket;

const TRY_AGAIN: &str = "tokens cannot be checked now: try again later\n";

const SEND_BEARER: &str = "send the token as 'Authorization: Bearer <token>'\n";

/// `GET /ws`
pub(crate) async fn upgrade(
    State(app): State<SharedApp>,
    Extension(handshake): Extension<Arc<Handshake>>,
    request: Request,
) -> Response {
    upgrade_through(app, handshake, request, |socket| future::ready(Ok(socket))).await
}

/// The same, where the session gets what `lead` makes of the socket.
pub(crate) async fn upgrade_through<L>(
    app: SharedApp,
    handshake: Arc<Handshake>,
    mut request: Request,
    lead: impl FnOnce(Socket) -> L + Send + 'static,
) -> Response
where
    L: Future<Output = io::Result<Socket>> + Send + 'static,
{
    let address = handshake.client(request.headers());
    let seat = match handshake.seat(address, request.headers()) {
        Ok(seat) => seat,
        Err(refusal) => return refuse(&app, refusal),
    };
    let response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(error) => return not_a_handshake(&error.to_string()),
    };
    let negotiated = match negotiate(offered(request.headers()).as_deref()) {
        Ok(negotiated) => negotiated,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let identity = match bearer(&app, request.headers()).await {
        Ok(identity) => identity,
        Err(refusal) => return refusal.into_response(),
    };
    let on_upgrade = hyper::upgrade::on(&mut request);
    let newcomer = Box::new(Newcomer { identity, address, handshake });
    let format = negotiated.format;
    tokio::spawn(async move {
        let Some((socket, read_ahead)) = socket(on_upgrade).await else { return };
        match lead(socket).await {
            Ok(socket) => {
                let wire = Wire::new(socket, &read_ahead, format);
                tokio::spawn(connection::run(wire, seat, newcomer));
            }
            Err(error) => debug!(%error, "a socket leads nowhere"),
        }
    });
    accept(response, &negotiated)
}

fn accept(mut response: Response, negotiated: &Negotiated) -> Response {
    if let Some(subprotocol) = negotiated.subprotocol {
        let value = HeaderValue::from_static(subprotocol);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    response
}

/// The socket, and what was read of it already, once the answer to the request has left.
pub(crate) async fn socket(on_upgrade: OnUpgrade) -> Option<(Socket, Bytes)> {
    let upgraded = on_upgrade.await;
    let upgraded = upgraded.inspect_err(|error| debug!(%error, "a client left in the handshake"));
    let Ok(Parts { io, read_buf, .. }) = upgraded.ok()?.downcast::<TokioIo<Socket>>() else {
        debug!("an upgraded connection is none of ours");
        return None;
    };
    Some((io.into_inner(), read_buf))
}

/// All sub-protocols that the client offers.
fn offered(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offers: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    (!offers.is_empty()).then(|| offers.join(","))
}

/// Who a native client is that sends its token with the request.
async fn bearer(
    app: &SharedApp,
    headers: &HeaderMap,
) -> Result<Option<Identity>, (StatusCode, &'static str)> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    if !app.authenticator.wants_token() {
        return Ok(None);
    }
    let token = value.to_str().ok().and_then(bearer_token);
    let identity = match token {
        Some(token) => app.authenticator.admit(token).await,
        None => Err(AuthError::NoToken),
    };
    identity.and_then(|identity| app.unrevoked(identity)).map(Some).map_err(|error| {
        app.refused(&error);
        match error {
            AuthError::KeysOutOfReach => (StatusCode::SERVICE_UNAVAILABLE, TRY_AGAIN),
            AuthError::NoToken => (StatusCode::UNAUTHORIZED, SEND_BEARER),
            _ => (StatusCode::UNAUTHORIZED, PEER_MESSAGE),
        }
    })
}

fn not_a_handshake(why: &str) -> Response {
    let message = format!("this is a WebSocket: connect with a WebSocket client ({why})\n");
    (StatusCode::UPGRADE_REQUIRED, [(header::UPGRADE, "websocket")], message).into_response()
}
