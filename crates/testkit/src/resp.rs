//! Enough of Redis' protocol to send a command and to print the answer. Blocking, one connection a command.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends one command to a server on loopback. Lists are answered one item a line, errors as they came.
pub(crate) fn command(port: u16, words: &[&str]) -> io::Result<String> {
    decode(&mut BufReader::new(ask(port, words)?))
}

/// Sends one command, and leaves its answer unread for as long as this process lives: a server drops what it has yet to
/// do for a client that is gone.
pub(crate) fn send(port: u16, words: &[&str]) -> io::Result<()> {
    let mut stream = ask(port, words)?;
    stream.set_read_timeout(None)?;
    thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
    Ok(())
}

fn ask(port: u16, words: &[&str]) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&encode(words))?;
    Ok(stream)
}

fn encode(words: &[&str]) -> Vec<u8> {
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    command
}

fn decode(from: &mut impl BufRead) -> io::Result<String> {
    let line = read_line(from)?;
    let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        "$" => match usize::try_from(length()?) {
            Ok(length) => read_bulk(from, length),
            Err(_) => Ok(String::new()),
        },
        "*" => {
            let items: io::Result<Vec<_>> = (0..length()?).map(|_| decode(from)).collect();
            Ok(items?.join("\n"))
        }
        _ => Ok(rest.to_owned()),
    }
}

/// Reads one command; none at the end of the stream.
pub(crate) fn read_command(from: &mut impl BufRead) -> io::Result<Option<Vec<String>>> {
    let line = read_line(from)?;
    let Some(length) = line.strip_prefix('*') else { return Ok(None) };
    let length = length.parse::<usize>().map_err(io::Error::other)?;
    (0..length).map(|_| decode(from)).collect::<io::Result<_>>().map(Some)
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_bulk(from: &mut impl Read, length: usize) -> io::Result<String> {
    let mut bulk = vec![0; length + 2];
    from.read_exact(&mut bulk)?;
    bulk.truncate(length);
    Ok(String::from_utf8_lossy(&bulk).into_owned())
}
