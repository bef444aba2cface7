//! The task behind the handles: connects, serves the connection, waits, and connects again.
//!
//! It owns the socket and ends when the last handle is dropped. It is where a client lives between
//! two connections; `online` is where it lives during one.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use presence_protocol::{ClientMessage, CloseReason, GatewayMessage, Hello, Welcome};
use tokio::select;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::debug;

use crate::asks::{Asks, Query};
use crate::event::DisconnectReason;
use crate::online::{Ended, Online, Why};
use crate::options::{Credential, Options};
use crate::retry::{Backoff, Next, Renewal};
use crate::shared::{Leaving, Shared};
use crate::socket::{Incoming, Socket};

/// Runs a client until it ends.
pub(crate) async fn run(options: Options, shared: Arc<Shared>, queries: mpsc::Receiver<Query>) {
    let backoff = Backoff::new(options.backoff_min, options.backoff_max, Rng::new());
    let asks = Asks::new(options.grant.clone());
    let shared_with_handles = shared.clone();
    let actor = Actor { options, shared, queries, asks, backoff, token: None, refused_token: None };
    let reason = actor.live().await;
    shared_with_handles.end(reason);
}

struct Actor {
    options: Options,
    shared: Arc<Shared>,
    queries: mpsc::Receiver<Query>,
    asks: Asks,
    backoff: Backoff,
    /// The one that was sent last.
    token: Option<String>,
    refused_token: Option<String>,
}

impl Actor {
    /// Returns why the client ended; none when its handles were dropped.
    async fn live(mut self) -> Option<CloseReason> {
        let shared = self.shared.clone();
        while shared.leaving().is_none() {
            let ended = match self.connect().await {
                Ok((socket, welcome)) => self.be_online(socket, welcome).await,
                Err(_) if shared.leaving().is_some() => break,
                Err(reason) => Ended { why: reason.into(), return_at: None, was_good: false },
            };
            let wait = match self.next(ended) {
                Ok(wait) => wait,
                Err(reason) => return reason,
            };
            select! {
                biased;
                () = shared.asked_to_leave() => break,
                () = sleep(wait) => {}
            }
        }
        (shared.leaving() == Some(Leaving::SigningOut)).then_some(CloseReason::Bye)
    }

    async fn be_online(&mut self, socket: Socket, welcome: Welcome) -> Ended {
        let heartbeat = self.options.heartbeat;
        let (asks, queries) = (&mut self.asks, &mut self.queries);
        let online = Online::new(&self.shared, asks, queries, socket, &welcome, heartbeat);
        self.shared.connected(welcome);
        online.run().await
    }

    /// How long to wait before the next attempt, or why there is none.
    fn next(&mut self, ended: Ended) -> Result<Duration, Option<CloseReason>> {
        let reason = match ended.why {
            Why::Lost(reason) => reason,
            Why::SignedOut => return Err(Some(CloseReason::Bye)),
            Why::Abandoned => return Err(None),
        };
        if ended.was_good {
            self.backoff.reset();
        }
        if matches!(reason, DisconnectReason::Closed(CloseReason::BadToken)) {
            self.refused_token = self.token.take();
        }
        let told = ended.return_at.map(|at| at.saturating_duration_since(Instant::now()));
        let next = self.backoff.next(&reason, told, self.renewal());
        debug!(%reason, ?next, "no connection");
        self.shared.disconnected(reason, next);
        match next {
            Next::Retry(wait) => Ok(wait),
            Next::End(reason) => Err(Some(reason)),
        }
    }

    fn renewal(&self) -> Renewal {
        match self.options.credential {
            Credential::TokenSource(_) => Renewal::Possible,
            Credential::Token(_) | Credential::User(_) => Renewal::Impossible,
        }
    }

    /// A socket that is signed in, unless the client is to leave before.
    async fn connect(&mut self) -> Result<(Socket, Welcome), DisconnectReason> {
        let limit = self.options.connect_timeout;
        let deadline = Instant::now() + limit;
        let unreachable = |why: String| DisconnectReason::Unreachable(why);
        let too_late = |_| unreachable(format!("no welcome within {limit:?}"));
        let left = || unreachable("the client left".to_owned());
        let shared = self.shared.clone();
        let mut socket = select! {
            biased;
            () = shared.asked_to_leave() => return Err(left()),
            socket = timeout_at(deadline, self.greet()) => socket.map_err(too_late)??,
        };
        let welcome = select! {
            biased;
            () = shared.asked_to_leave() => {
                // It may be in already.
                if shared.leaving() == Some(Leaving::SigningOut) {
                    socket.sign_out().await;
                }
                return Err(left());
            }
            welcome = timeout_at(deadline, welcome(&mut socket)) => welcome.map_err(too_late)??,
        };
        Ok((socket, welcome))
    }

    /// A socket on which `hello` was said.
    async fn greet(&mut self) -> Result<Socket, DisconnectReason> {
        let hello = self.hello().await?;
        let unreachable = |error: std::io::Error| DisconnectReason::Unreachable(error.to_string());
        let transport = (self.options.dial)().await.map_err(unreachable)?;
        let mut socket = Socket::upgrade(transport, &self.options.url, self.options.format).await?;
        let status = self.shared.status_for_hello();
        let show = status.as_ref().map(|status| status.show);
        let hello = Hello { show, text: status.and_then(|status| status.text), ..hello };
        socket.send(&[ClientMessage::Hello(hello)]).await?;
        Ok(socket)
    }

    /// Who this is, with a fresh token.
    async fn hello(&mut self) -> Result<Hello, DisconnectReason> {
        let device = self.options.device.clone();
        let token = match &self.options.credential {
            Credential::User(user) => {
                return Ok(Hello { user: Some(user.clone()), device, ..Hello::default() });
            }
            Credential::Token(token) => token.clone(),
            Credential::TokenSource(source) => source().await,
        };
        if self.refused_token.as_ref() == Some(&token) {
            let message = "the token source gave the refused token again".to_owned();
            return Err(DisconnectReason::Unreachable(message));
        }
        self.token = Some(token.clone());
        Ok(Hello { token: Some(token), device, ..Hello::default() })
    }
}

async fn welcome(socket: &mut Socket) -> Result<Welcome, DisconnectReason> {
    loop {
        match socket.receive().await? {
            Incoming::Message(GatewayMessage::Welcome(welcome)) => return Ok(welcome),
            other => debug!(?other, "not the welcome"),
        }
    }
}
