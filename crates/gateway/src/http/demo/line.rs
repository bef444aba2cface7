//! The line of a demo device: what lies between its socket and its session, and can be cut.
//!
//! A page can close its socket, but it cannot die in silence: its browser answers Pings whatever its script does. So the
//! sockets of the demo page lead through this. While a line is cut no byte passes, either way, and nobody is told.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::admission::Handshake;
use crate::app::SharedApp;
use crate::socket::Socket;
use crate::upgrade::upgrade_through;

/// A line that was cut for so long is given up: its page may be gone, and could not have said so.
const CUT_MAX: Duration = Duration::from_mins(10);

/// The lines that there are, by the names that their pages gave them, and whether each is cut.
///
/// There are no more than sockets. Nobody can guess a name; who gives one twice loses the first line.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<HashMap<String, watch::Sender<bool>>>>);

/// `GET /demo/lines/{line}`: what `/ws` is, over a line of this name.
pub(super) async fn upgrade(
    State(app): State<SharedApp>,
    Extension(lines): Extension<Lines>,
    Extension(handshake): Extension<Arc<Handshake>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    upgrade_through(app, handshake, request, |socket| lines.lay(name, socket)).await
}

/// `PUT /demo/lines/{line}/cut`
pub(super) async fn cut(
    Extension(lines): Extension<Lines>,
    Path(name): Path<String>,
) -> StatusCode {
    lines.set_cut(&name, true)
}

/// `DELETE /demo/lines/{line}/cut`
pub(super) async fn mend(
    Extension(lines): Extension<Lines>,
    Path(name): Path<String>,
) -> StatusCode {
    lines.set_cut(&name, false)
}

impl Lines {
    /// Answers the session's end of a line whose other end is this socket.
    async fn lay(self, name: String, socket: Socket) -> io::Result<Socket> {
        let (near, far) = pair().await?;
        let (sender, is_cut) = watch::channel(false);
        self.0.lock().insert(name, sender);
        tokio::spawn(async move {
            carry(socket, far, is_cut).await;
            self.0.lock().retain(|_, line| !line.is_closed());
        });
        Ok(Socket::Plain(near))
    }

    fn set_cut(&self, name: &str, is_cut: bool) -> StatusCode {
        match self.0.lock().get(name) {
            Some(line) => {
                line.send_replace(is_cut);
                StatusCode::NO_CONTENT
            }
            None => StatusCode::NOT_FOUND,
        }
    }
}

/// Carries bytes both ways until one end closes. While the line is cut the copying stands still, with what it holds.
async fn carry(mut socket: Socket, mut far: TcpStream, mut is_cut: watch::Receiver<bool>) {
    let mut copying = pin!(copy_bidirectional(&mut socket, &mut far));
    loop {
        tokio::select! {
            biased;
            cut = is_cut.wait_for(|&is_cut| is_cut) => if cut.is_err() { return },
            // However it ends, both ends are closed now.
            _ = &mut copying => return,
        }
        let mended = is_cut.wait_for(|&is_cut| !is_cut);
        if !matches!(timeout(CUT_MAX, mended).await, Ok(Ok(_))) {
            return;
        }
    }
}

/// Two sockets of this process that are connected with each other.
async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let (far, _) = listener.accept().await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}
