//! The live dashboard: a page that asks `/v1/stats` once a second. The page itself holds nothing secret and is served to
//! anybody; where `/v1/stats` wants the API key, it has a form for it.

use axum::Router;
use axum::routing::get;

use super::pages::{File, css, html, js};
use crate::app::{App, SharedApp};

const OPEN: File = html(include_str!("dashboard/page.html"));

/// A body may end without an end tag, and so the form comes after the rest of it.
const WITH_KEY: File =
    html(concat!(include_str!("dashboard/page.html"), include_str!("dashboard/key.html")));

const STYLE: File = css(concat!(
    include_str!("../../../../assets/uplot-1.6.32/uPlot.min.css"),
    include_str!("dashboard/style.css"),
));

const UPLOT: File = js(concat!(
    "/*\n",
    include_str!("../../../../assets/uplot-1.6.32/LICENSE"),
    "*/\n",
    include_str!("../../../../assets/uplot-1.6.32/uPlot.iife.min.js"),
));

/// `GET /dashboard` and what is under it.
pub(super) fn routes(app: &App) -> Router<SharedApp> {
    let page = if app.settings.dev { OPEN } else { WITH_KEY };
    Router::new()
        .route("/dashboard", get(page))
        .route("/dashboard/style.css", get(STYLE))
        .route("/dashboard/uplot.js", get(UPLOT))
        .route("/dashboard/page.js", get(js(include_str!("dashboard/page.js"))))
        .route("/dashboard/drawing.js", get(js(include_str!("dashboard/drawing.js"))))
        .route("/dashboard/history.js", get(js(include_str!("dashboard/history.js"))))
        .route("/dashboard/health.js", get(js(include_str!("dashboard/health.js"))))
        .route("/dashboard/figures.js", get(js(include_str!("dashboard/figures.js"))))
        .route("/dashboard/limits.js", get(js(include_str!("dashboard/limits.js"))))
        .route("/dashboard/charts.js", get(js(include_str!("dashboard/charts.js"))))
        .route("/dashboard/dom.js", get(js(include_str!("dashboard/dom.js"))))
        .route("/dashboard/words.js", get(js(include_str!("dashboard/words.js"))))
}
