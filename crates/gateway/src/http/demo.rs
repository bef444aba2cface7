//! The demo page of development mode: one file, in the binary, with no build step.

use axum::http::header;
use axum::response::{Html, IntoResponse};

const PAGE: &str = include_str!("demo.html");

/// Only this page's own script and style run, and they talk to nobody but this gateway.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; \
     style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// `GET /`
pub(crate) async fn page() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY)], Html(PAGE))
}
