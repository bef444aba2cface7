//! What is written leaves at once or is kept, and what comes meanwhile is heard: the same with TLS and without.

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::tls::tests::{connector, open, server_name};

const PATIENCE: Duration = Duration::from_mins(1);

/// Far more than any socket takes at once.
const LONG: usize = 16 * 1024 * 1024;

async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    stream.writable().await.unwrap();
    (client, stream)
}

fn wire(socket: Socket) -> Wire {
    Wire::new(socket, b"", Format::Json)
}

async fn plain() -> (TcpStream, Wire) {
    let (client, stream) = tcp().await;
    (client, wire(Socket::Plain(stream)))
}

async fn encrypted() -> (tokio_rustls::client::TlsStream<TcpStream>, Wire) {
    let (client, stream) = tcp().await;
    let (authority, tls) = open();
    let peer = client.local_addr().unwrap();
    let client = connector(&authority).connect(server_name(), client);
    let (client, socket) = tokio::join!(client, tls.accept(stream, peer, PATIENCE));
    (client.unwrap(), wire(socket.unwrap()))
}

/// All that waits leaves, and so many bytes come.
async fn flush_and_read(
    wire: &mut Wire,
    client: &mut (impl AsyncRead + Unpin),
    len: usize,
) -> Vec<u8> {
    let mut read = vec![0; len];
    let (flushed, got) = timeout(PATIENCE, async {
        tokio::join!(poll_fn(|cx| wire.poll_flush(cx)), client.read_exact(&mut read))
    })
    .await
    .expect("all arrives");
    flushed.unwrap();
    got.unwrap();
    assert!(!wire.is_busy());
    read
}

async fn nothing_is_kept(mut client: impl AsyncRead + Unpin, mut wire: Wire) {
    wire.send(Bytes::from_static(b"{}")).unwrap();
    wire.pong(b"1".to_vec()).unwrap();
    assert!(!wire.is_busy());
    let mut read = [0; 7];
    client.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"\x81\x02{}\x8a\x011");
}

#[tokio::test]
async fn what_the_socket_takes_at_once_is_not_kept() {
    let (client, wire) = plain().await;
    nothing_is_kept(client, wire).await;
    let (client, wire) = encrypted().await;
    nothing_is_kept(client, wire).await;
}

async fn a_pong_follows(mut client: impl AsyncRead + AsyncWrite + Unpin, mut wire: Wire) {
    let long: Vec<u8> = (0..LONG).map(|at| at as u8).collect();
    wire.send(long.clone().into()).unwrap();
    assert!(wire.is_busy());
    client.write_all(b"\x89\x81\0\0\0\x001\x89\x81\0\0\0\x002").await.unwrap();
    client.flush().await.unwrap();
    for _ in 0..2 {
        match poll_fn(|cx| wire.poll_message(cx, LONG)).await {
            Ok(Message::Ping(payload)) => wire.pong(payload).unwrap(),
            other => panic!("a Ping was due, not {other:?}"),
        }
    }
    let read = flush_and_read(&mut wire, &mut client, 10 + LONG + 3).await;
    assert!(read[10..10 + LONG] == long, "what was sent arrived as it was");
    assert_eq!(&read[10 + LONG..], b"\x8a\x012");
}

/// Client messages are heard meanwhile; a Pong goes into no other frame, and only the latest Ping is answered.
#[tokio::test]
async fn a_pong_follows_the_frame_that_the_socket_has_not_taken_yet() {
    let (client, wire) = plain().await;
    a_pong_follows(client, wire).await;
    let (client, wire) = encrypted().await;
    a_pong_follows(client, wire).await;
}

/// What is left of a frame is all in the encryption then, and still counts.
#[tokio::test]
async fn a_frame_that_is_encrypted_but_has_not_left_is_not_done() {
    let (mut client, mut wire) = encrypted().await;
    let (mut sent, part) = (0, vec![b'x'; 4_000]);
    while wire.socket.try_flush().is_ok() {
        wire.send(part.clone().into()).unwrap();
        sent += 4 + part.len();
    }
    assert!(wire.is_busy(), "the rest of the frame would stay until the next one");
    flush_and_read(&mut wire, &mut client, sent).await;
}

#[tokio::test]
async fn who_takes_nothing_of_what_is_encrypted_is_given_up() {
    let (_client, mut wire) = encrypted().await;
    wire.send(vec![b'x'; LONG].into()).unwrap();
    let given_up = poll_fn(|cx| match wire.flush(cx, Duration::from_millis(50)) {
        Ok(()) => Poll::Pending,
        Err(end) => Poll::Ready(end),
    });
    assert_eq!(given_up.await, End::Close(CloseReason::TooSlow));
}
