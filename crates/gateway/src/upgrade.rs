//! From an HTTP request to a WebSocket.
//!
//! The socket goes on in a task of its own, so that the HTTP connection and the handshake, which are larger than all
//! that a silent session needs, are given back before the first frame.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Parts};
use hyper_util::rt::TokioIo;
use presence_protocol::{Format, Negotiated, negotiate};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tracing::debug;

use crate::app::SharedApp;
use crate::auth::{AuthError, Identity, PEER_MESSAGE};
use crate::connection::{self, Wire};

/// `GET /ws`
pub(crate) async fn upgrade(State(app): State<SharedApp>, mut request: Request) -> Response {
    if app.presence.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "this gateway is draining\n").into_response();
    }
    let response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(error) => return not_a_handshake(&error.to_string()),
    };
    let negotiated = match negotiate(offered(request.headers()).as_deref()) {
        Ok(negotiated) => negotiated,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let identity = match bearer(&app, request.headers()) {
        Ok(identity) => identity,
        Err(why) => return (StatusCode::UNAUTHORIZED, why).into_response(),
    };
    let on_upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(start(app, on_upgrade, negotiated.format, identity));
    accept(response, &negotiated)
}

fn accept(mut response: Response, negotiated: &Negotiated) -> Response {
    if let Some(subprotocol) = negotiated.subprotocol {
        let value = HeaderValue::from_static(subprotocol);
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
    response
}

async fn start(
    app: SharedApp,
    on_upgrade: OnUpgrade,
    format: Format,
    identity: Option<Box<Identity>>,
) {
    let upgraded = match on_upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => return debug!(%error, "a client left during the handshake"),
    };
    let Ok(Parts { io, read_buf, .. }) = upgraded.downcast::<TokioIo<TcpStream>>() else {
        return debug!("an upgraded connection is not a TCP stream");
    };
    let wire = Wire::new(io.into_inner(), &read_buf, format);
    tokio::spawn(connection::run(wire, app, identity));
}

/// All sub-protocols that the client offers.
fn offered(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let offers: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    (!offers.is_empty()).then(|| offers.join(","))
}

/// Who a native client is that sends its token with the request.
fn bearer(app: &SharedApp, headers: &HeaderMap) -> Result<Option<Box<Identity>>, String> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    if !app.authenticator.wants_token() {
        return Ok(None);
    }
    let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
    let identity = token.map(|token| {
        let identity = app.authenticator.authenticate(token)?;
        let is_revoked = app.is_revoked(&identity.user, identity.issued_at_s);
        if is_revoked { Err(AuthError::Revoked) } else { Ok(identity) }
    });
    match identity {
        Some(Ok(identity)) => Ok(Some(Box::new(identity))),
        Some(Err(error)) => {
            debug!(%error, "a token was refused");
            Err(format!("{PEER_MESSAGE}\n"))
        }
        None => Err("send the token as 'Authorization: Bearer <token>'\n".to_owned()),
    }
}

fn not_a_handshake(why: &str) -> Response {
    let message = format!("this is a WebSocket: connect with a WebSocket client ({why})\n");
    (StatusCode::UPGRADE_REQUIRED, [(header::UPGRADE, "websocket")], message).into_response()
}
