//! HTTP beside the socket: health, metrics, the calls for the backend, the dashboard and the demo page.

mod api;
mod dashboard;
mod demo;
mod pages;
mod stats;
mod users;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use tokio::time::timeout;

use crate::admission::{Refusal, refuse};
use crate::app::{App, SharedApp};
use crate::upgrade;

/// All routes of a gateway.
pub(crate) fn router(app: SharedApp) -> Router {
    let mut router = Router::new()
        .route("/ws", get(upgrade::upgrade))
        .route("/healthz", get("ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics));
    if app.api_keys.is_empty() {
        router = router.merge(under_v1(&any(api::no_api_key)));
    } else {
        router = router.merge(backend(app.clone()));
    }
    if app.settings.dev || !app.api_keys.is_empty() {
        router = router.route("/v1/stats", get(stats::stats)).merge(dashboard::routes(&app));
    }
    if app.settings.dev {
        router = router.merge(demo::routes());
    }
    router.with_state(app)
}

/// The calls for the app's backend, whose bodies are bounded in size and time.
fn backend(app: SharedApp) -> Router<SharedApp> {
    Router::new()
        .route("/v1/presence/query", get(api::user_called_query).post(api::query))
        .route("/v1/presence/{user}", get(api::user))
        .route("/v1/users/{user}/sessions", get(users::sessions))
        .route("/v1/users/{user}/disconnect", post(users::disconnect))
        .route("/v1/users/{user}/refresh", post(users::refresh))
        .route("/v1/users/{user}/revoke", post(users::revoke))
        .merge(under_v1(&any(api::no_such_call)))
        .method_not_allowed_fallback(api::wrong_method)
        .layer(DefaultBodyLimit::max(api::BODY_LEN_MAX))
        .layer(from_fn_with_state(app, in_time))
}

/// Whatever else is asked for there.
fn under_v1(answer: &MethodRouter<SharedApp>) -> Router<SharedApp> {
    let paths = ["/v1", "/v1/", "/v1/{*call}"];
    paths.iter().fold(Router::new(), |router, path| router.route(path, answer.clone()))
}

async fn in_time(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let answer = timeout(app.settings.admission.http_timeout, next.run(request)).await;
    answer.unwrap_or_else(|_late| refuse(&app, Refusal::Late))
}

/// Whether the gateway should get new clients.
async fn ready(State(app): State<SharedApp>) -> impl IntoResponse {
    match why_not_ready(&app) {
        None => (StatusCode::OK, "ready\n"),
        Some((_, sentence)) => (StatusCode::SERVICE_UNAVAILABLE, sentence),
    }
}

/// Why it should not: a word, and a sentence.
fn why_not_ready(app: &App) -> Option<(&'static str, &'static str)> {
    let refusal = app.admission.why_closed(app);
    let refusal = refusal.map(|refusal| (refusal.label(), refusal.sentence()));
    let away = || (!app.presence.is_ready()).then_some(("store", "the store is out of reach\n"));
    let deaf = app.presence.is_deaf().then_some((
        "store",
        "what changes in the store is not heard: see the log for why it cannot be subscribed to\n",
    ));
    refusal.or(deaf).or_else(away)
}

async fn metrics(State(app): State<SharedApp>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, OPEN_METRICS)], metrics_text(&app))
}

/// All that is measured, as it is now.
fn metrics_text(app: &App) -> String {
    app.presence.measure();
    app.admission.measure(&app.metrics);
    if let Some(consent) = &app.consent {
        consent.measure();
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &app.registry)
        .expect("a string takes whatever is written");
    text
}
