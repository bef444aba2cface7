//! `GET /v1/stats`: what the dashboard shows. All that is counted comes out of the same registry as `/metrics`, under the
//! same names.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use presence::store::Lease;
use serde::Serialize;
use serde_json::Number;

use super::api::{Backend, Refusal};
use super::{metrics_text, why_not_ready};
use crate::admission::MemoryFigures;
use crate::app::SharedApp;

/// Proof that whoever asks may see the figures: with the API key, and in development mode anybody.
pub(crate) struct Onlooker;

/// One gateway, as it is now.
#[derive(Serialize)]
pub(crate) struct Stats {
    gateway: String,
    /// For how long it has been running.
    up_ms: u64,
    /// Why it should get no new clients, in a word; null when it should.
    not_ready: Option<&'static str>,
    /// Since when clients are told that the store is out of reach, in ms since the Unix epoch; else null.
    degraded_since: Option<u64>,
    memory: MemoryFigures,
    /// All that share the store, this one included.
    gateways: Vec<SharingGateway>,
    /// As the start tells them; no secret is among them.
    settings: BTreeMap<&'static str, String>,
    /// Each series by its name and labels, as in `/metrics`.
    metrics: BTreeMap<String, Number>,
}

/// A gateway that shares the store, as far as its lease tells.
#[derive(Serialize)]
struct SharingGateway {
    id: String,
    /// `good`, `late` or `lapsed`.
    lease: &'static str,
    /// How long ago the lease was renewed.
    renewed_ago_ms: u64,
    /// For how long there has been one.
    held_for_ms: u64,
}

pub(super) async fn stats(_: Onlooker, State(app): State<SharedApp>) -> Json<Stats> {
    let mut gateways: Vec<_> = app.presence.leases().into_iter().map(SharingGateway::of).collect();
    gateways.sort_by(|a, b| a.id.cmp(&b.id));
    Json(Stats {
        gateway: app.gateway.clone(),
        up_ms: app.started.elapsed().as_millis() as u64,
        not_ready: why_not_ready(&app).map(|(why, _)| why),
        degraded_since: app.presence.degraded_since(),
        memory: app.admission.memory(),
        gateways,
        settings: app.settings.summary().into_iter().collect(),
        metrics: series(&metrics_text(&app)),
    })
}

/// The lines of `/metrics` that are no comments.
fn series(text: &str) -> BTreeMap<String, Number> {
    let one = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(one).collect()
}

impl SharingGateway {
    fn of(lease: Lease) -> Self {
        Self {
            id: lease.gateway,
            lease: lease.state.as_str(),
            renewed_ago_ms: lease.age.as_millis() as u64,
            held_for_ms: lease.held_for.as_millis() as u64,
        }
    }
}

impl FromRequestParts<SharedApp> for Onlooker {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Refusal> {
        if !app.settings.dev {
            Backend::from_request_parts(parts, app).await?;
        }
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_metrics_is_a_series() {
        let text = "# HELP presence_users Users.\n# TYPE presence_users gauge\npresence_users 3\n\
                    presence_closes_total{reason=\"a b\"} 5\npresence_lag_seconds 0.25\n\
                    presence_time_bucket{le=\"+Inf\"} 7\n# EOF\n";
        let json = serde_json::to_value(series(text)).unwrap();
        let expected = serde_json::json!({
            "presence_users": 3,
            r#"presence_closes_total{reason="a b"}"#: 5,
            "presence_lag_seconds": 0.25,
            r#"presence_time_bucket{le="+Inf"}"#: 7,
        });
        assert_eq!(json, expected);
    }
}
