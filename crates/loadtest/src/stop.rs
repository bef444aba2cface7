//! How a command is told to stop: by Ctrl-C on a terminal, or by SIGTERM.

use std::io;

use tokio::select;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

/// SIGINT or SIGTERM, from when it is first waited for.
pub(crate) async fn stop_requested() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    select! {
        interrupted = ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}
