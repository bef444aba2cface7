//! The calls for the app's backend, under `/v1`, with an API key: `Authorization: Bearer <key>`.

use std::error::Error;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use presence::store::StoreError;
use presence_protocol::{UserId, UserState};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::debug;

use crate::app::SharedApp;
use crate::auth::bearer_token;
use crate::metrics::ApiLabel;

/// The most users that one bulk look-up may ask for.
const QUERY_LEN_MAX: usize = 10_000;

/// Room for as many of the longest ids, quoted.
pub(crate) const BODY_LEN_MAX: usize = 2 << 20;

/// Proof that a request carried the API key.
pub(crate) struct Backend;

/// The user that a path names.
pub(crate) struct NamedUser(pub(super) UserId);

/// What a bulk look-up asks.
#[derive(Deserialize)]
pub(crate) struct Query {
    users: Vec<String>,
}

/// What it answers, in the order asked.
#[derive(Serialize)]
pub(crate) struct Answer {
    users: Vec<UserState>,
}

/// Why a call was refused, as JSON: `{"error":{"code":…,"message":…}}`.
pub(crate) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// `POST /v1/presence/query`
pub(crate) async fn query(
    _: Backend,
    State(app): State<SharedApp>,
    body: Result<Json<Query>, JsonRejection>,
) -> Result<Json<Answer>, Refusal> {
    let Json(query) = body.map_err(|rejection| Refusal::bad_query(&rejection))?;
    if query.users.len() > QUERY_LEN_MAX {
        let message = format!(
            "at most {QUERY_LEN_MAX} users at a time, {} were asked for",
            query.users.len()
        );
        return Err(Refusal { status: StatusCode::BAD_REQUEST, code: "too_many_watches", message });
    }
    let users = query.users.iter().enumerate().map(|(at, user)| {
        UserId::new(user).map_err(|error| Refusal::bad_user(&format!("users[{at}]: {error}")))
    });
    let users = users.collect::<Result<Vec<_>, _>>()?;
    Ok(Json(Answer { users: look_up(&app, users).await? }))
}

/// `GET /v1/presence/{user}`
pub(crate) async fn user(
    _: Backend,
    State(app): State<SharedApp>,
    NamedUser(user): NamedUser,
) -> Result<Json<UserState>, Refusal> {
    let mut states = look_up(&app, vec![user.clone()]).await?;
    Ok(Json(states.pop().unwrap_or_else(|| UserState::never_seen(user))))
}

/// `GET /v1/presence/query`: for the user of this name.
pub(crate) async fn user_called_query(
    backend: Backend,
    app: State<SharedApp>,
) -> Result<Json<UserState>, Refusal> {
    let name = UserId::new("query").map_err(|error| Refusal::bad_user(&error.to_string()))?;
    user(backend, app, NamedUser(name)).await
}

/// Any call where nobody was given a key to make it. It tells no more than the status does.
pub(crate) async fn no_api_key() -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        code: "no_api_key",
        message:
            "the calls under /v1 are closed: --api-key (PRESENCE_API_KEY) opens them to whoever \
                  sends the key"
                .to_owned(),
    }
}

/// A path under `/v1` that is none of the calls.
pub(crate) async fn no_such_call(uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        code: "no_such_call",
        message: format!("there is no {}: docs/protocol.md names the calls", uri.path()),
    }
}

/// A call made by another method than its own, which axum names in the header `Allow`.
pub(crate) async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "wrong_method",
        message: format!(
            "{} does not take {method}: the header 'Allow' names what it takes",
            uri.path()
        ),
    }
}

async fn look_up(app: &SharedApp, users: Vec<UserId>) -> Result<Vec<UserState>, Refusal> {
    app.presence.query(users).await.map_err(|error| Refusal::store(&error))
}

impl FromRequestParts<SharedApp> for NamedUser {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(user) = path.map_err(|rejection| Refusal::bad_user(&rejection.body_text()))?;
        let user = UserId::new(&user).map_err(|error| Refusal::bad_user(&error.to_string()))?;
        Ok(Self(user))
    }
}

impl FromRequestParts<SharedApp> for Backend {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Refusal> {
        let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(bearer_token);
        let key = given.and_then(|given| app.api_keys.find(given));
        app.metrics.api_calls.get_or_create(&ApiLabel { key: key.unwrap_or(0) }).inc();
        debug!(key, method = %parts.method, path = parts.uri.path(), "a call of the backend");
        key.map(|_| Self).ok_or_else(|| Refusal {
            status: StatusCode::UNAUTHORIZED,
            code: "bad_api_key",
            message: "send the API key as 'Authorization: Bearer <key>'".to_owned(),
        })
    }
}

impl Refusal {
    pub(super) fn store(error: &StoreError) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "store_unavailable",
            message: error.to_string(),
        }
    }

    fn bad_query(rejection: &JsonRejection) -> Self {
        let status = rejection.status();
        let fault = match rejection {
            JsonRejection::JsonDataError(error) => cause(error),
            JsonRejection::JsonSyntaxError(error) => cause(error),
            JsonRejection::MissingJsonContentType(_) => {
                "send it with 'Content-Type: application/json'".to_owned()
            }
            _ if status == StatusCode::PAYLOAD_TOO_LARGE => {
                format!("a body is at most {BODY_LEN_MAX} bytes")
            }
            _ => "the body did not come whole".to_owned(),
        };
        let message = format!("expected {{\"users\":[\"id\", …]}}: {fault}");
        Self { status, code: "bad_message", message }
    }

    fn bad_user(message: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "bad_user_id", message: message.to_owned() }
    }
}

/// What was wrong with the body, without the library's word of what it was about to do.
fn cause(error: &impl Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "code": self.code, "message": self.message } });
        (self.status, Json(body)).into_response()
    }
}
