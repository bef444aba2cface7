//! How a user must look once all is quiet: devices and status as well as the dot. Pure.

use std::cmp::Reverse;

use presence_protocol::{Availability, Device, Show, StatusText, UserState};

use crate::verify::record::{Facts, SetStatus, Us};

/// Two statuses that were set so close together have no order that others must agree on.
const STATUS_ORDER_MIN: Us = 1_000_000;

/// How a user must look once all is quiet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) online: bool,
    pub(crate) devices: Vec<&'static str>,
    /// None where nobody can say, since two were set at nearly the same time.
    pub(crate) status: Option<(Show, String)>,
}

impl Look {
    /// What living sessions amount to; none where it is not certain that they live.
    pub(crate) fn of(sessions: &[Facts]) -> Option<Self> {
        if sessions.iter().any(|facts| facts.is_living() && facts.welcome.is_none()) {
            return None;
        }
        let living = || sessions.iter().filter(|facts| facts.is_living());
        let mut devices: Vec<&str> = living().filter_map(|facts| facts.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let mut statuses: Vec<&SetStatus> =
            living().filter_map(|facts| facts.status.as_ref()).collect();
        statuses.sort_unstable_by_key(|status| Reverse(status.set.after));
        let status = match statuses.as_slice() {
            [] => Some((Show::Online, String::new())),
            [latest, next, ..] if next.set.by + STATUS_ORDER_MIN > latest.set.after => None,
            [latest, ..] => Some((latest.show, latest.text.clone())),
        };
        Some(Self { online: living().next().is_some(), devices, status })
    }

    /// What is wrong with a state, if anything is.
    pub(crate) fn mismatch(&self, state: &UserState) -> Option<String> {
        let online = state.state == Availability::Online;
        let devices: Vec<&str> = state.devices.iter().map(Device::as_str).collect();
        let show = state.show.unwrap_or(Show::Online);
        let text = state.text.as_ref().map_or("", StatusText::as_str);
        let same_status = self.status.as_ref().is_none_or(|status| *status == (show, text.into()));
        let same = online == self.online && (!online || (devices == self.devices && same_status));
        (!same).then(|| {
            format!(
                "the view is {} {} {devices:?} {text:?}, the truth {}",
                state.state.as_str(),
                show.as_str(),
                self.describe()
            )
        })
    }

    fn describe(&self) -> String {
        if !self.online {
            return "offline".to_owned();
        }
        let (show, text) = self.status.clone().unwrap_or((Show::Online, "?".to_owned()));
        format!("online {} {:?} {text:?}", show.as_str(), self.devices)
    }
}
