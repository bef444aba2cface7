//! The calls about one user, under `/v1/users`: where the user is, and what no longer counts.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use presence::SessionList;
use serde::Serialize;

use super::api::{Backend, NamedUser, Refusal};
use crate::app::SharedApp;

/// What a revocation answers.
#[derive(Serialize)]
pub(crate) struct Revoked {
    /// Tokens count whose `iat` is this second or later, in seconds since the Unix epoch.
    issued_from: u64,
}

/// `GET /v1/users/{user}/sessions`: on every gateway.
pub(crate) async fn sessions(
    _: Backend,
    State(app): State<SharedApp>,
    NamedUser(user): NamedUser,
) -> Result<Json<SessionList>, Refusal> {
    app.presence.sessions(user).await.map(Json).map_err(|error| Refusal::store(&error))
}

/// `POST /v1/users/{user}/disconnect`: every gateway closes the user's sockets with 4007.
pub(crate) async fn disconnect(
    _: Backend,
    State(app): State<SharedApp>,
    NamedUser(user): NamedUser,
) -> Result<StatusCode, Refusal> {
    app.presence.disconnect(user).await.map_err(|error| Refusal::store(&error))?;
    Ok(StatusCode::ACCEPTED)
}

/// `POST /v1/users/{user}/refresh`: every gateway asks anew whom the user may watch.
pub(crate) async fn refresh(
    _: Backend,
    State(app): State<SharedApp>,
    NamedUser(user): NamedUser,
) -> Result<StatusCode, Refusal> {
    app.presence.refresh(user).await.map_err(|error| Refusal::store(&error))?;
    Ok(StatusCode::ACCEPTED)
}

/// `POST /v1/users/{user}/revoke`: the user's tokens of until now let nobody in any more, and sockets that they let in close
/// with 4002.
pub(crate) async fn revoke(
    _: Backend,
    State(app): State<SharedApp>,
    NamedUser(user): NamedUser,
) -> Result<(StatusCode, Json<Revoked>), Refusal> {
    if !app.authenticator.wants_token() {
        return Err(Refusal {
            status: StatusCode::CONFLICT,
            code: "no_tokens",
            message: "this gateway asks for no tokens, so there is nothing to revoke".to_owned(),
        });
    }
    let revoked = app.presence.revoke(user).await;
    let issued_from = revoked.map_err(|error| Refusal::store(&error))?;
    Ok((StatusCode::ACCEPTED, Json(Revoked { issued_from })))
}
