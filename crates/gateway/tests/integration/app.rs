//! The app's backend as the gateway meets it: answers who may watch whom, in the form that docs/operations.md tells.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const SECRET: &str = "what-the-gateway-shows";

/// A backend that allows everyone but those who are named.
pub(crate) struct App {
    addr: SocketAddr,
    mind: Arc<Mind>,
    task: JoinHandle<()>,
}

struct Mind {
    /// What it says of those of whom it does not say yes.
    verdicts: Mutex<HashMap<(String, String), Value>>,
    /// The questions so far: a call, and in it users with whom they want to watch.
    calls: Mutex<Vec<Value>>,
    mood: watch::Sender<Mood>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Answers,
    /// Makes its mind up, and keeps the answer to itself.
    Holds,
    /// Answers 500.
    Fails,
    /// Answers what was not asked.
    Babbles,
}

impl App {
    pub(crate) async fn start() -> Self {
        let mind = Arc::new(Mind {
            verdicts: Mutex::default(),
            calls: Mutex::default(),
            mood: watch::Sender::new(Mood::Answers),
        });
        let router = Router::new().route("/watch", post(answer)).with_state(mind.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let task =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { addr, mind, task }
    }

    /// What makes a gateway ask here.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            "--watch-policy=callback".to_owned(),
            format!("--watch-callback-url=http://{}/watch", self.addr),
            format!("--watch-callback-secret={SECRET}"),
        ]
    }

    pub(crate) fn refuse(&self, user: &str, other: &str) {
        self.say(user, other, json!(false));
    }

    /// The other is to look as if signed out then.
    pub(crate) fn veil(&self, user: &str, other: &str, since_us: u64) {
        self.say(user, other, json!(since_us));
    }

    pub(crate) fn allow(&self, user: &str, other: &str) {
        self.say(user, other, json!(true));
    }

    fn say(&self, user: &str, other: &str, verdict: Value) {
        self.mind.verdicts.lock().insert((user.to_owned(), other.to_owned()), verdict);
    }

    pub(crate) fn be(&self, mood: Mood) {
        self.mind.mood.send_replace(mood);
    }

    pub(crate) fn calls(&self) -> Vec<Value> {
        self.mind.calls.lock().clone()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    State(mind): State<Arc<Mind>>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    assert_eq!(authorization, Some(format!("Bearer {SECRET}").as_str()));
    let requests = asked["requests"].as_array().expect("a list").clone();
    mind.calls.lock().push(asked);
    let allowed: Vec<Vec<Value>> = requests.iter().map(|request| mind.decide(request)).collect();
    let mut moods = mind.mood.subscribe();
    let mood = *moods.wait_for(|mood| *mood != Mood::Holds).await.expect("it lives");
    match mood {
        Mood::Answers | Mood::Holds => (StatusCode::OK, Json(json!({ "allowed": allowed }))),
        Mood::Fails => (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "allowed": allowed }))),
        Mood::Babbles => (StatusCode::OK, Json(json!({ "allowed": [[]] }))),
    }
}

impl Mind {
    fn decide(&self, request: &Value) -> Vec<Value> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let user = text(&request["user"]);
        let verdicts = self.verdicts.lock();
        let others = request["watch"].as_array().expect("a list").iter().map(text);
        let verdict = |other| verdicts.get(&(user.clone(), other)).cloned().unwrap_or(json!(true));
        others.map(verdict).collect()
    }
}
