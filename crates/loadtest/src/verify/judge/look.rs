//! How a user must look once all is quiet: devices and status as well as the dot. Pure.

use std::cmp::Reverse;

use presence_protocol::{Availability, Device, Show, StatusText, UserState};

use crate::verify::record::{Facts, Fault, SetStatus, Us};
use crate::verify::truth::acted_on;

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
    /// What living sessions amount to; none where it is not certain that they live. A gateway that is stopped acts on what
    /// several sessions send meanwhile in any order.
    pub(crate) fn of(sessions: &[Facts], faults: &[Fault]) -> Option<Self> {
        if sessions.iter().any(|facts| facts.is_living() && facts.welcome.is_none()) {
            return None;
        }
        let living = || sessions.iter().filter(|facts| facts.is_living());
        let mut devices: Vec<&str> = living().filter_map(|facts| facts.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let set = |facts: &'_ Facts| {
            let status = facts.status.clone()?;
            Some((acted_on(faults, facts.place, status.set.by), status))
        };
        let mut statuses: Vec<(Us, SetStatus)> = living().filter_map(set).collect();
        statuses.sort_unstable_by_key(|(_, status)| Reverse(status.set.after));
        let status = match statuses.as_slice() {
            [] => Some((Show::Online, String::new())),
            [(_, latest), others @ ..] => {
                let by = others.iter().map(|(by, _)| *by + STATUS_ORDER_MIN).max();
                let is_latest = by.is_none_or(|by| by <= latest.set.after);
                is_latest.then(|| (latest.show, latest.text.clone()))
            }
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
