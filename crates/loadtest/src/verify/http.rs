//! Enough of HTTP/1.1 to ask a gateway: one request a connection.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use presence_protocol::UserState;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::verify::deployment::API_KEY;
use crate::verify::record::User;
use crate::verify::world::user_id;

const LIMIT: Duration = Duration::from_secs(10);

/// The most users that a gateway looks up at a time.
pub(crate) const QUERY_LEN_MAX: usize = 10_000;

/// The status of a GET.
pub(crate) async fn get_status(addr: SocketAddr, path: &str) -> Result<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    Ok(exchange(addr, &request).await?.0)
}

/// The states of users, as a backend is told them.
pub(crate) async fn query(addr: SocketAddr, users: &[User]) -> Result<Vec<UserState>> {
    #[derive(Deserialize)]
    struct Answer {
        users: Vec<UserState>,
    }
    let users: Vec<_> = users.iter().map(|user| user_id(*user)).collect();
    let body = json!({ "users": users }).to_string();
    let request = format!(
        "POST /v1/presence/query HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {API_KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let (status, body) = exchange(addr, &request).await?;
    ensure!(status == 200, "HTTP {status}: {body}");
    let answer: Answer = serde_json::from_str(&body)?;
    Ok(answer.users)
}

/// The status and the body of the answer.
async fn exchange(addr: SocketAddr, request: &str) -> Result<(u16, String)> {
    let text = timeout(LIMIT, async {
        let mut stream = TcpStream::connect(addr).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        anyhow::Ok(text)
    });
    let text = text.await.context("no answer in time")??;
    let Some((head, body)) = text.split_once("\r\n\r\n") else { bail!("no HTTP answer") };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("no HTTP status")?, body.to_owned()))
}
