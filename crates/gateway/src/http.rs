//! HTTP beside the socket: health, metrics, the calls for the backend, and the demo page.

mod api;
mod demo;
mod pages;
mod users;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::time::timeout;
use tracing::error;

use crate::admission::{Refusal, refuse};
use crate::app::SharedApp;
use crate::upgrade;

/// All routes of a gateway.
pub(crate) fn router(app: SharedApp) -> Router {
    let mut router = Router::new()
        .route("/ws", get(upgrade::upgrade))
        .route("/healthz", get("ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics));
    if !app.api_keys.is_empty() {
        router = router.merge(backend(app.clone()));
    }
    if app.settings.dev {
        router = router.merge(demo::routes());
    }
    router.with_state(app)
}

/// The calls for the app's backend, whose bodies are bounded in size and time.
fn backend(app: SharedApp) -> Router<SharedApp> {
    Router::new()
        .route("/v1/presence/query", post(api::query))
        .route("/v1/presence/{user}", get(api::user))
        .route("/v1/users/{user}/sessions", get(users::sessions))
        .route("/v1/users/{user}/disconnect", post(users::disconnect))
        .route("/v1/users/{user}/refresh", post(users::refresh))
        .route("/v1/users/{user}/revoke", post(users::revoke))
        .layer(DefaultBodyLimit::max(api::BODY_LEN_MAX))
        .layer(from_fn_with_state(app, in_time))
}

async fn in_time(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let answer = timeout(app.settings.admission.http_timeout, next.run(request)).await;
    answer.unwrap_or_else(|_late| refuse(&app, Refusal::Late))
}

/// Whether the gateway should get new clients.
async fn ready(State(app): State<SharedApp>) -> impl IntoResponse {
    if let Some(refusal) = app.admission.why_closed(&app) {
        (StatusCode::SERVICE_UNAVAILABLE, refusal.sentence())
    } else if app.presence.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the store is out of reach\n")
    }
}

async fn metrics(State(app): State<SharedApp>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    app.presence.measure();
    app.admission.measure(&app.metrics);
    if let Some(consent) = &app.consent {
        consent.measure();
    }
    let mut text = String::new();
    if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &app.registry) {
        error!(%error, "cannot write the metrics");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
