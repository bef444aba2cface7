//! The handle: says what the application wants, and reads what is known. Owns no socket.

use std::sync::Arc;
use std::time::Duration;

use presence_protocol::{ErrorMessage, Status, UserId, UserState};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::actor;
use crate::asks::Query;
use crate::events::Events;
use crate::options::Options;
use crate::shared::{Leaving, Shared};
use crate::view::Known;

/// How many queries may wait for the task; more callers wait their turn.
const QUERIES_LEN_MAX: usize = 16;

/// A user's presence: signed in for as long as a handle lives. Cheap to clone.
///
/// When the last clone is dropped the socket closes without `bye`, as if the network had failed;
/// [`Client::bye`] signs out.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    queries: mpsc::Sender<Query>,
    request_timeout: Duration,
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Not connected for too long, or the gateway did not answer in time.
    #[error("no answer within the request timeout")]
    TimedOut,
    /// The gateway refused.
    #[error("refused by the gateway: {}", .0.message)]
    Refused(ErrorMessage),
    /// The client has ended, and does not come back.
    #[error("the client has ended")]
    Ended,
}

impl Client {
    /// Starts to connect, and goes on in the background. Must be called within a tokio runtime.
    pub fn connect(options: Options) -> Self {
        let shared = Arc::new(Shared::new(options.status.clone()));
        let (queries, asked) = mpsc::channel(QUERIES_LEN_MAX);
        let request_timeout = options.request_timeout;
        tokio::spawn(actor::run(options, shared.clone(), asked));
        Self { handle: Arc::new(Handle { shared, queries, request_timeout }) }
    }

    /// Adds to the watch list, now and after every reconnect. Their states come as
    /// [`Event::Changed`](crate::Event::Changed).
    ///
    /// Users beyond the gateway's `max_watch` are refused, and asked for again when there is room.
    pub fn watch(&self, users: impl IntoIterator<Item = UserId>) {
        self.handle.shared.watch(users);
    }

    /// Removes from the watch list; what was known of them is forgotten.
    pub fn unwatch(&self, users: impl IntoIterator<Item = UserId>) {
        self.handle.shared.unwatch(users);
    }

    /// Asks for states once, without watching, in the order asked; users that may not be seen are
    /// left out. While there is no connection it waits for one, up to the request timeout.
    pub async fn query(
        &self,
        users: impl IntoIterator<Item = UserId>,
    ) -> Result<Vec<UserState>, QueryError> {
        let (reply, answer) = oneshot::channel();
        let query = Query::new(users, reply);
        let asked = async {
            self.handle.queries.send(query).await.map_err(|_| QueryError::Ended)?;
            answer.await.unwrap_or(Err(QueryError::Ended))
        };
        timeout(self.handle.request_timeout, asked).await.unwrap_or(Err(QueryError::TimedOut))
    }

    /// How to be shown from now on, after every reconnect too.
    pub fn set_status(&self, status: Status) {
        self.handle.shared.set_status(status);
    }

    /// A watched user's last known state; none when nothing is known yet.
    pub fn state(&self, user: &UserId) -> Option<Known> {
        self.handle.shared.known(user)
    }

    /// The last known states of all watched users, in no order.
    pub fn states(&self) -> Vec<Known> {
        self.handle.shared.all_known()
    }

    /// What happens from now on. It starts with what is true already: a `Connected` when there is
    /// a connection, a `Changed` with all that is known. Each reader gets every event.
    pub fn events(&self) -> Events {
        self.handle.shared.events()
    }

    /// Signs out: this session goes offline at once. Returns when the socket is closed; without
    /// a connection, at once. Every other handle is of no use afterwards.
    pub async fn bye(&self) {
        self.handle.shared.leave(Leaving::SigningOut);
        self.handle.queries.closed().await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.leave(Leaving::Abandoned);
    }
}
