//! A connection to a server that a URL names, and enough of HTTP to read a page. Blocking.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Uri;

/// A server that is busy with the load answers late; one that is gone never does.
const LIMIT: Duration = Duration::from_secs(5);

/// Connects to the host and port that a URL names.
pub(crate) fn connect(url: &Uri, port_by_default: u16) -> Result<TcpStream> {
    let host = url.host().context("the URL names no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, url.port_u16().unwrap_or(port_by_default)).to_socket_addrs()?;
    let address = found.next().context("the host has no address")?;
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// The body that a GET with these headers is answered with; any status but 200 is an error.
pub(crate) fn get(url: &Uri, headers: &[(&str, &str)]) -> Result<String> {
    let mut stream = connect(url, 80)?;
    let host = url.authority().map_or("", |authority| authority.as_str());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let more = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let more: String = more.collect();
    // In HTTP/1.0 a body comes as it is, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{more}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no HTTP status")?;
    ensure!(status == "200", "HTTP {status}: {}", body.trim());
    Ok(body.to_owned())
}
