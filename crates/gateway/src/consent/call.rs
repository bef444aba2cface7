//! One call of the app's backend: what is sent, and what must come back. docs/operations.md is the contract.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use presence_protocol::UserId;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::metrics::Outcome;
use super::{Question, Verdict};
use crate::outbound::{CallError, CallLimits, Outbound};
use crate::settings::{Callback, OutboundUrl};

/// An answer takes at most seventeen bytes a pair; a question of more pairs than fit is not asked.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How the backend is called.
pub(super) struct Call {
    outbound: Outbound,
    url: OutboundUrl,
    authorization: HeaderValue,
    limits: CallLimits,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum CallFailed {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("its answer is not what was asked for: {0}")]
    Nonsense(String),
}

#[derive(Serialize)]
struct Asked<'a> {
    requests: Vec<AskedOne<'a>>,
}

#[derive(Serialize)]
struct AskedOne<'a> {
    user: &'a UserId,
    watch: &'a [UserId],
}

#[derive(Deserialize)]
struct Answered {
    allowed: Vec<Vec<Verdict>>,
}

impl CallFailed {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Call(CallError::TooSlow(_)) => Outcome::TooSlow,
            Self::Call(CallError::TooLarge(_)) => Outcome::TooLarge,
            Self::Call(CallError::Unreachable(_)) => Outcome::Unreachable,
            Self::Status(_) => Outcome::Refused,
            Self::Nonsense(_) => Outcome::Nonsense,
        }
    }
}

impl Call {
    pub(super) fn new(settings: &Callback, outbound: Outbound) -> Self {
        let authorization = format!("Bearer {}", settings.secret.expose());
        let mut authorization =
            HeaderValue::from_str(&authorization).expect("the settings allow no other");
        authorization.set_sensitive(true);
        let limits = CallLimits { time: settings.timeout, body_bytes: ANSWER_BYTES_MAX };
        Self { outbound, url: settings.url.clone(), authorization, limits }
    }

    /// Asks all questions of a batch. The answers are in their order, and in that of their users.
    pub(super) async fn ask(&self, batch: &[Question]) -> Result<Vec<Vec<Verdict>>, CallFailed> {
        let requests =
            batch.iter().map(|asked| AskedOne { user: &asked.user, watch: &asked.users });
        let body = serde_json::to_vec(&Asked { requests: requests.collect() });
        let body = body.map_err(|error| CallFailed::Nonsense(error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.uri().clone();
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = self.outbound.call(request, self.limits).await?;
        if answer.status() != StatusCode::OK {
            return Err(CallFailed::Status(answer.status()));
        }
        let Answered { allowed } = serde_json::from_slice(answer.body())
            .map_err(|error| CallFailed::Nonsense(error.to_string()))?;
        let fits = allowed.len() == batch.len()
            && allowed.iter().zip(batch).all(|(allowed, asked)| allowed.len() == asked.users.len());
        if !fits {
            return Err(CallFailed::Nonsense("other lists than asked for".to_owned()));
        }
        Ok(allowed)
    }
}
