//! What the app's backend wants of all gateways: told through the store, and done by each for the sessions that it holds.

pub(crate) mod orders;
pub(crate) mod questions;

use std::sync::Arc;

use presence_protocol::{CloseReason, UserId};
use tokio::sync::broadcast;

use crate::engine::{Core, Presence};
use crate::session::outbox::Outbox;
use crate::store::StoreError;
use crate::store::notice::{Dated, Notice, Order};
pub use questions::SessionList;

impl Presence {
    /// Closes all sessions of a user, on every gateway, with 4007.
    pub async fn disconnect(&self, user: UserId) -> Result<(), StoreError> {
        self.core.store.tell(Notice::Disconnect(user)).await
    }

    /// Has all sessions of a user look again at whom they may watch, on every gateway.
    pub async fn refresh(&self, user: UserId) -> Result<(), StoreError> {
        self.order(Order::Refresh(user)).await.map(drop)
    }

    /// Whatever proved a user until now counts no more, on every gateway, those to come included. Answers the first second,
    /// since the Unix epoch by the store's clock, from which on it does.
    ///
    /// An error means that gateways may find out up to a minute later, or never: call again.
    pub async fn revoke(&self, user: UserId) -> Result<u64, StoreError> {
        self.order(Order::Revoke(user)).await
    }

    /// From which second on tokens of a user count, since the Unix epoch; none when all do.
    pub fn revoked_until(&self, user: &UserId) -> Option<u64> {
        self.core.orders.date_of(&Order::Revoke(user.clone()))
    }

    /// Reads the orders that were given before this gateway came. To be called before anybody is let in.
    pub async fn read_orders(&self) -> Result<(), StoreError> {
        orders::catch_up(&self.core).await
    }

    /// Tells of each user whom [`Presence::refresh`] names, on whatever gateway it was called.
    pub fn refreshed(&self) -> broadcast::Receiver<UserId> {
        self.core.orders.refreshed()
    }

    /// All sessions of a user, on every gateway that answers within a second.
    pub async fn sessions(&self, user: UserId) -> Result<SessionList, StoreError> {
        questions::ask(&self.core, user).await
    }

    async fn order(&self, order: Order) -> Result<u64, StoreError> {
        let from_s = self.core.store.record(vec![(order.clone(), None)]).await?;
        self.core.store.tell(Notice::Order(Dated { order, from_s })).await?;
        Ok(from_s)
    }
}

impl Core {
    /// Does what a notice wants of this gateway.
    pub(crate) fn heed(self: &Arc<Self>, notice: Notice) {
        self.metrics.notices.get_or_create(&(&notice).into()).inc();
        match notice {
            Notice::Disconnect(user) => {
                self.each_session_of(&user, |outbox| outbox.close(CloseReason::Disconnected));
            }
            Notice::Order(dated) => self.obey(dated),
            Notice::Question(question) => questions::answer(self, question),
            Notice::Answer(answer) if answer.question.gateway == self.store.gateway() => {
                self.questions.answered(answer);
            }
            // To another gateway's question.
            Notice::Answer(_) => {}
        }
    }

    /// Takes an order over, and has the sessions that it concerns look again.
    pub(crate) fn obey(&self, dated: Dated) {
        let user = dated.order.user().clone();
        self.orders.note(dated);
        self.each_session_of(&user, Outbox::ask_recheck);
    }

    fn each_session_of(&self, user: &UserId, act: impl Fn(&Outbox)) {
        let outboxes = self.roster.conns_of(user).into_iter().filter_map(|c| self.outboxes.get(c));
        // A number may be another user's by now.
        outboxes.filter(|outbox| outbox.user == *user).for_each(|outbox| act(&outbox));
    }
}
