//! The least that it takes to tell many sockets the same: short frames are written to each, with no session and no task
//! behind it, and another process reads them all, as the load tester does. It is here to be compared with the gateway.

use std::env;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mio::{Events, Interest, Poll, Token};

/// As long as a frame about one user.
const FRAME: [u8; 60] = [0; 60];
const ROUNDS: usize = 5;
const WRITERS: [usize; 2] = [1, 2];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [count] => tell(count.parse()?),
        [count, address] => read(count.parse()?, address),
        _ => anyhow::bail!("say to how many sockets, such as 10000"),
    }
}

/// Holds the sockets, and writes to them.
fn tell(count: usize) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let mut reader =
        Command::new(env::current_exe()?).args([&count.to_string(), &address]).spawn()?;
    let (mut last, _) = listener.accept()?;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        sockets.push(socket);
    }
    for writers in WRITERS {
        for _ in 0..ROUNDS {
            last.read_exact(&mut [0])?;
            // Both processes are at rest.
            thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            write_all(&mut sockets, writers);
            last.read_exact(&mut [0])?;
            println!(
                "{count} sockets, {writers} writing: the last was told after {:?}",
                begun.elapsed()
            );
        }
    }
    reader.wait()?;
    Ok(())
}

fn write_all(sockets: &mut [TcpStream], writers: usize) {
    let share = sockets.len().div_ceil(writers);
    thread::scope(|scope| {
        for part in sockets.chunks_mut(share) {
            scope.spawn(|| part.iter_mut().try_for_each(|socket| socket.write_all(&FRAME)));
        }
    });
}

/// Reads from the sockets, and says when it has read from each.
fn read(count: usize, address: &str) -> Result<()> {
    let mut last = TcpStream::connect(address)?;
    let mut poll = Poll::new()?;
    let mut sockets = Vec::with_capacity(count);
    for token in 0..count {
        let socket = TcpStream::connect(address).context("a socket to read from")?;
        socket.set_nonblocking(true)?;
        let mut socket = mio::net::TcpStream::from_std(socket);
        poll.registry().register(&mut socket, Token(token), Interest::READABLE)?;
        sockets.push(socket);
    }
    let mut events = Events::with_capacity(1024);
    let mut space = [0; 4096];
    for _ in 0..WRITERS.len() * ROUNDS {
        last.write_all(&[1])?;
        let mut told = 0;
        while told < count * FRAME.len() {
            poll.poll(&mut events, None)?;
            for event in &events {
                told += sockets[event.token().0].read(&mut space)?;
            }
        }
        last.write_all(&[1])?;
    }
    Ok(())
}
