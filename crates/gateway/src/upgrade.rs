//! From an HTTP request to a WebSocket.
//!
//! The socket goes on in a task of its own, so that the HTTP connection and the handshake, which are larger than all
//! that a silent session needs, are given back before the first frame.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Parts};
use hyper_util::rt::TokioIo;
use presence_protocol::{Format, Negotiated, negotiate};
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::debug;

use crate::admission::{Handshake, Seat, refuse};
use crate::app::SharedApp;
use crate::auth::{AuthError, Identity, PEER_MESSAGE};
use crate::connection::{self, Newcomer, Wire};
use crate::socket::Socket;

const TRY_AGAIN: &str = "tokens cannot be checked now: try again later\n";

const SEND_BEARER: &str = "send the token as 'Authorization: Bearer <token>'\n";

/// `GET /ws`
pub(crate) async fn upgrade(
    State(app): State<SharedApp>,
    Extension(handshake): Extension<Arc<Handshake>>,
    mut request: Request,
) -> Response {
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
    tokio::spawn(start(seat, on_upgrade, negotiated.format, newcomer));
    accept(response, &negotiated)
}

fn accept(mut response: Response, negotiated: &Negotiated) -> Response {
    if let Some(subprotocol) = negotiated.subprotocol {
        let value = HeaderValue::from_static(subprotocol);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    response
}

async fn start(seat: Seat, on_upgrade: OnUpgrade, format: Format, newcomer: Box<Newcomer>) {
    if let Some(wire) = wire(on_upgrade, format).await {
        tokio::spawn(connection::run(wire, seat, newcomer));
    }
}

/// The socket as a WebSocket, once the answer to the request has left.
pub(crate) async fn wire(on_upgrade: OnUpgrade, format: Format) -> Option<Wire> {
    let upgraded = on_upgrade.await;
    let upgraded = upgraded.inspect_err(|error| debug!(%error, "a client left in the handshake"));
    let Ok(Parts { io, read_buf, .. }) = upgraded.ok()?.downcast::<TokioIo<Socket>>() else {
        debug!("an upgraded connection is none of ours");
        return None;
    };
    Some(Wire::new(io.into_inner(), &read_buf, format))
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
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
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
