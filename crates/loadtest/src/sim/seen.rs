//! What the virtual clients are told, and whether it can be true. Keeps no view for each client: of
//! an engine that says offline it is enough to know whether the user was online all the while.

use std::time::Duration;

use presence_protocol::{Availability, GatewayMessage, UserState, decode_gateway};
use tokio::time::Instant;

use crate::sim::gateways::FORMAT;
use crate::sim::plan;
use crate::sim::tally::Tally;

/// Every view equals the truth after so long: an offline of somebody who came back before is false.
const TRUE_AFTER: Duration = Duration::from_secs(5);

/// Since when users are online.
#[derive(Debug)]
pub(crate) struct Online(Vec<Option<Instant>>);

impl Online {
    /// Nobody is, of so many.
    pub(crate) fn nobody_of(users: u32) -> Self {
        Self(vec![None; users as usize])
    }

    pub(crate) fn come(&mut self, index: u32, now: Instant) {
        self.0[index as usize] = Some(now);
    }

    pub(crate) fn leave(&mut self, index: u32) {
        self.0[index as usize] = None;
    }

    fn is_false(&self, state: &UserState, now: Instant) -> bool {
        let since = plan::index_of(&state.user).and_then(|index| *self.0.get(index as usize)?);
        state.state == Availability::Offline
            && since.is_some_and(|since| now.duration_since(since) > TRUE_AFTER)
    }
}

/// Takes in a frame that a session was sent.
pub(crate) fn take_in(frame: &[u8], now: Instant, online: &Online, tally: &Tally) {
    let users = match decode_gateway(FORMAT, frame) {
        Ok(GatewayMessage::Snapshot { users, .. }) => {
            tally.watching.add(1);
            users
        }
        Ok(GatewayMessage::Presence { users }) => users,
        Ok(GatewayMessage::Error(error)) => {
            tally.watching.add(1);
            return tally.troubles.add(format!("refused: {}", error.code.as_str()));
        }
        Ok(_) => return,
        Err(error) => return tally.troubles.add(format!("a frame cannot be read: {error}")),
    };
    tally.told.add(users.len() as u64);
    tally
        .false_offlines
        .add(users.iter().filter(|state| online.is_false(state, now)).count() as u64);
}

#[cfg(test)]
mod tests {
    use presence_protocol::encode_gateway;

    use super::*;

    fn told_false(online: &Online, state: UserState, now: Instant) -> u64 {
        let tally = Tally::default();
        let frame = encode_gateway(FORMAT, &GatewayMessage::Presence { users: vec![state] });
        take_in(&frame, now, online, &tally);
        assert_eq!(tally.told.get(), 1);
        tally.false_offlines.get()
    }

    #[test]
    fn an_offline_is_false_of_who_was_online_for_long_enough() {
        let now = Instant::now();
        let later = now + TRUE_AFTER + Duration::from_millis(1);
        let mut online = Online::nobody_of(2);
        online.come(0, now);
        let offline = |index| UserState::never_seen(plan::user(index));
        assert_eq!(told_false(&online, offline(0), now), 0, "it may be from before");
        assert_eq!(told_false(&online, offline(0), later), 1);
        assert_eq!(told_false(&online, offline(1), later), 0, "it never came");
        assert_eq!(told_false(&online, offline(2), later), 0, "it is not ours");
        let state = UserState { state: Availability::Online, ..offline(0) };
        assert_eq!(told_false(&online, state, later), 0);
        online.leave(0);
        assert_eq!(told_false(&online, offline(0), later), 0, "it has left");
    }
}
