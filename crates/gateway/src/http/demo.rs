//! The demo page of development mode, and the lines of its devices.

mod line;

use axum::routing::{get, put};
use axum::{Extension, Router};

use super::pages::{css, html, js};
use crate::app::SharedApp;
use line::Lines;

/// `GET /` and what is under `/demo`.
pub(super) fn routes() -> Router<SharedApp> {
    Router::new()
        .route("/", get(html(include_str!("demo/index.html"))))
        .route("/demo/style.css", get(css(include_str!("demo/style.css"))))
        .route("/demo/page.js", get(js(include_str!("demo/page.js"))))
        .route("/demo/card.js", get(js(include_str!("demo/card.js"))))
        .route("/demo/device.js", get(js(include_str!("demo/device.js"))))
        .route("/demo/steps.js", get(js(include_str!("demo/steps.js"))))
        .route("/demo/scene.js", get(js(include_str!("demo/scene.js"))))
        .route("/demo/lines/{line}", get(line::upgrade))
        .route("/demo/lines/{line}/cut", put(line::cut).delete(line::mend))
        .layer(Extension(Lines::default()))
}
