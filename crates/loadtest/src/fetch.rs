//! A connection to a server that a URL names, and enough of HTTP to read a page. Blocking.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::Uri;
use tokio_rustls::rustls::StreamOwned;

use crate::tls::{self, Tls};

/// A server that is busy with the load answers late; one that is gone never does.
const LIMIT: Duration = Duration::from_secs(5);

/// The port that a URL names, or the usual one when it names none.
pub(crate) fn port(url: &Uri, by_default: u16) -> Result<u16> {
    let authority = url.authority().context("the URL names no host")?;
    let place = authority.as_str();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let after_host = place.strip_prefix(authority.host()).unwrap_or_default();
    let Some(port) = after_host.strip_prefix(':') else { return Ok(by_default) };
    let number = port.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("“{port}” is no port: these are 1 to {}", u16::MAX))
}

/// The addresses of the host and port that a URL names: one at least.
pub(crate) fn addresses(url: &Uri, port_by_default: u16) -> Result<Vec<SocketAddr>> {
    let host = url.host().context("the URL names no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = Vec::new();
    for address in (host, port(url, port_by_default)?).to_socket_addrs()? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    ensure!(!found.is_empty(), "the host has no address");
    Ok(found)
}

/// Those of several addresses where somebody answers; all of them where nobody does.
pub(crate) fn that_answer(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if addresses.len() == 1 {
        return addresses;
    }
    let answers = |address: &SocketAddr| TcpStream::connect_timeout(address, LIMIT).is_ok();
    let found: Vec<_> = addresses.iter().copied().filter(answers).collect();
    if found.is_empty() { addresses } else { found }
}

/// Connects to the host and port that a URL names, at the first of its addresses that answers.
pub(crate) fn connect(url: &Uri, port_by_default: u16) -> Result<TcpStream> {
    let addresses = addresses(url, port_by_default)?;
    let mut tried = addresses.iter().map(|address| TcpStream::connect_timeout(address, LIMIT));
    let first = tried.next().context("the host has no address")?;
    let stream = first.or_else(|error| tried.find_map(Result::ok).ok_or(error))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// The body that a GET with these headers is answered with; any status but 200 is an error.
pub(crate) fn get(url: &Uri, headers: &[(&str, &str)]) -> Result<String> {
    ask(connect(url, 80)?, url, headers)
}

/// The same over TLS.
pub(crate) fn get_encrypted(url: &Uri, tls: &Tls) -> Result<String> {
    let name = tls::server_name(url)?.context("the URL asks for no TLS")?;
    ask(StreamOwned::new(tls.begin(name)?, connect(url, 443)?), url, &[])
}

fn ask(mut stream: impl Read + Write, url: &Uri, headers: &[(&str, &str)]) -> Result<String> {
    let host = url.authority().map_or("", |authority| authority.as_str());
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let more = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let more: String = more.collect();
    // In HTTP/1.0 a body comes as it is, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{more}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Not everybody ends what is encrypted as is right.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        read => drop(read?),
    }
    let answer = String::from_utf8(answer).context("no text")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no HTTP status")?;
    match (status, body.trim()) {
        ("200", _) => Ok(body.to_owned()),
        (_, "") => bail!("HTTP {status}"),
        (_, why) => bail!("HTTP {status}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn of_the_addresses_of_a_name_those_are_kept_that_answer() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let [one, other, gone] = [listen(), listen(), listen()];
        let [one_at, other_at, gone_at] =
            [&one, &other, &gone].map(|listener| listener.local_addr().unwrap());
        drop(gone);
        assert_eq!(that_answer(vec![gone_at, one_at]), [one_at]);
        assert_eq!(that_answer(vec![one_at, gone_at, other_at]), [one_at, other_at]);
        drop((one, other));
        assert_eq!(that_answer(vec![gone_at, one_at]), [gone_at, one_at]);
        assert_eq!(that_answer(vec![gone_at]), [gone_at]);
    }

    #[test]
    fn a_port_is_the_one_that_is_named_or_the_usual_one_and_never_a_guess() {
        let named = |url: &str| port(&url.parse().unwrap(), 80);
        let table = [
            ("ws://host/ws", 80),
            ("ws://host:8080/ws", 8080),
            ("ws://1:1/ws", 1),
            ("ws://user:7@host:1/", 1),
            ("ws://[::1]:9/ws", 9),
            ("ws://[::1]/ws", 80),
        ];
        for (url, port) in table {
            assert_eq!(named(url).unwrap(), port, "{url}");
        }
        for url in ["ws://host:99999/ws", "ws://host:0/ws"] {
            assert!(named(url).unwrap_err().to_string().contains("is no port"), "{url}");
        }
    }
}
