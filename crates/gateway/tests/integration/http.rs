//! A small HTTP client.

use std::net::SocketAddr;

use presence_protocol::UserState;
use presence_testkit::eventually;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::PATIENCE;
use crate::house::API_KEY;

pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

#[derive(Deserialize)]
struct Users {
    users: Vec<UserState>,
}

/// One GET, without any key.
pub(crate) async fn get(addr: SocketAddr, path: &str) -> Answer {
    Http::connect(addr).await.send(&format!("GET {path}"), &[], "").await
}

/// An upgrade request with these headers more, which is to be refused.
pub(crate) async fn refused_upgrade(addr: SocketAddr, headers: &[String]) -> Answer {
    let upgrade = [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let headers: Vec<String> =
        upgrade.iter().map(ToString::to_string).chain(headers.iter().cloned()).collect();
    Http::connect(addr).await.send("GET /ws", &headers, "").await
}

/// The states of users, with the API key.
pub(crate) async fn query<S: AsRef<str>>(addr: SocketAddr, names: &[S]) -> Vec<UserState> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let answer = Http::connect(addr).await.query(&json!({ "users": names }).to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    states(&answer)
}

/// The same; none while the gateway cannot tell.
pub(crate) async fn try_query<S: AsRef<str>>(
    addr: SocketAddr,
    names: &[S],
) -> Option<Vec<UserState>> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let answer = Http::connect(addr).await.query(&json!({ "users": names }).to_string()).await;
    assert!(matches!(answer.status, 200 | 503), "{answer:?}");
    (answer.status == 200).then(|| states(&answer))
}

fn states(answer: &Answer) -> Vec<UserState> {
    let users: Users = serde_json::from_str(&answer.body).expect("a list of states");
    users.users
}

/// Waits until the gateway tells that the user is online. Who comes and goes at once may never be.
pub(crate) async fn until_online(addr: SocketAddr, name: &str) {
    let online = async || (query(addr, &[name]).await[0].state.as_str() == "online").then_some(());
    eventually(&format!("{name} is online"), PATIENCE, online).await;
}

/// Waits until the store has taken all that the gateway has to tell it.
pub(crate) async fn until_told(addr: SocketAddr) {
    let told = async || (metric(addr, "presence_claims_waiting").await == Some(0)).then_some(());
    eventually("the store was told", PATIENCE, told).await;
}

/// The value of a metric, by its name and labels as they are written.
pub(crate) async fn metric(addr: SocketAddr, name: &str) -> Option<u64> {
    let answer = get(addr, "/metrics").await;
    let line = answer.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a whole number"))
}

impl Http {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("the gateway accepts");
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], "").await
    }

    /// A GET with the API key.
    pub(crate) async fn get_with_key(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[key()], "").await
    }

    /// A bulk look-up with the API key.
    pub(crate) async fn query(&mut self, body: &str) -> Answer {
        self.post("/v1/presence/query", body).await
    }

    /// A POST of JSON with the API key.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer {
        let json = "content-type: application/json".to_owned();
        self.send(&format!("POST {path}"), &[key(), json], body).await
    }

    pub(crate) async fn send(&mut self, what: &str, headers: &[String], body: &str) -> Answer {
        let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
        let length = body.len();
        let request = format!(
            "{what} HTTP/1.1\r\nhost: test\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.expect("the request is taken");
        self.answer().await
    }

    async fn answer(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).await.expect("an answer");
            assert!(read > 0, "the answer ended early: {head}");
        }
        let head = head.to_lowercase();
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
        self.stream.read_exact(&mut body).await.expect("the whole answer");
        let body = String::from_utf8(body).expect("UTF-8");
        Answer { status, head, body }
    }
}

fn key() -> String {
    format!("authorization: Bearer {API_KEY}")
}
