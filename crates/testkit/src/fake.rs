//! A server that claims to be a Redis of some version, and can do nothing else.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use crate::resp::read_command;

/// Answers PING and INFO, as a Redis of the given version would.
pub struct FakeRedis {
    port: u16,
}

impl FakeRedis {
    /// Starts one on a free port. Its threads end with the process.
    pub fn start(version: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let info = format!("# Server\r\nredis_version:{version}\r\n");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let info = info.clone();
                thread::spawn(move || serve(&stream, &info));
            }
        });
        Self { port }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn serve(mut stream: &TcpStream, info: &str) -> io::Result<()> {
    let mut commands = BufReader::new(stream);
    while let Some(words) = read_command(&mut commands)? {
        let answer = match words.first().map(|word| word.to_ascii_uppercase()).as_deref() {
            Some("PING") => "+PONG\r\n".to_owned(),
            Some("INFO") => format!("${}\r\n{info}\r\n", info.len()),
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}
