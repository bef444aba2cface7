//! A simulated user: does what its history says, with up to three sessions at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::verify::client::{Order, Session, sign_in};
use crate::verify::history::{Act, SLOTS, Slot, Step};
use crate::verify::record::{Us, User};
use crate::verify::world::World;

/// One user and its sessions.
pub(crate) struct Actor {
    world: Arc<World>,
    user: User,
    slots: [Option<Session>; SLOTS],
    /// Their sockets stay open until the round is over.
    frozen: Vec<Session>,
}

impl Actor {
    pub(crate) fn new(world: Arc<World>, user: User) -> Self {
        Self { world, user, slots: Default::default(), frozen: Vec::new() }
    }

    pub(crate) fn user(&self) -> User {
        self.user
    }

    /// Plays the steps of a round that began at `start`.
    pub(crate) async fn play(mut self, start: Us, steps: Vec<Step>) -> Self {
        for (at, act) in steps {
            self.world.wait_until(start + at).await;
            self.act(act).await;
        }
        self
    }

    /// Lets go of the sockets that froze in an earlier round.
    pub(crate) fn forget_frozen(&mut self) {
        self.frozen.clear();
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Connect { slot, place, device } => {
                if self.slots[slot].as_ref().is_some_and(Session::is_living) {
                    return;
                }
                let session = sign_in(&self.world, self.user, place, device).await;
                if let Some(session) = &session {
                    let watched = self.world.watching.by(self.user);
                    if !watched.is_empty() {
                        session.order(Order::Watch(watched));
                    }
                }
                self.slots[slot] = session;
            }
            Act::Drop(slot) => self.order(slot, Order::Drop),
            Act::Bye(slot) => self.order(slot, Order::Bye),
            Act::Freeze(slot) => {
                self.order(slot, Order::Freeze);
                self.frozen.extend(self.slots[slot].take());
            }
            Act::Stall { slot, lasts } => {
                self.order(slot, Order::Stall(Duration::from_micros(lasts)));
            }
            Act::Status { slot, show, text } => {
                self.order(slot, Order::Status(show, format!("mood {text}")));
            }
            Act::Watch { slot, users } => self.order(slot, Order::Watch(users)),
            Act::Unwatch { slot, users } => self.order(slot, Order::Unwatch(users)),
        }
    }

    fn order(&self, slot: Slot, order: Order) {
        if let Some(session) = &self.slots[slot] {
            session.order(order);
        }
    }
}
