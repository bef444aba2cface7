//! The store's side of a history: one user, by the hold rule and nothing else.

use std::collections::HashMap;
use std::time::Duration;

use presence_protocol::{Availability, Device, UserId};

use crate::store::view::View;
use crate::store::{Held, Standing};

/// How long a user of whom the store has no trace is still shown online.
pub(super) const NO_TRACE_MS: u64 = 3_000;

pub(super) fn bo() -> UserId {
    UserId::new("bo").unwrap()
}

/// Online with these devices; offline with none.
fn view(version: u64, devices: &[&str]) -> View {
    View {
        version,
        state: if devices.is_empty() { Availability::Offline } else { Availability::Online },
        since: Some(version / 1000),
        devices: devices.iter().map(|label| Device::new(label).unwrap()).collect(),
        ..View::NO_TRACE
    }
}

/// What the store knows of bo. Times are ms since the history began.
pub(super) struct Truth {
    view: View,
    /// Until when what is shown instead.
    held: Option<(u64, View)>,
    /// Every view that was ever to be shown, by version, and from when on.
    pub(super) showable: HashMap<u64, (u64, View)>,
    pub(super) flaps: usize,
}

impl Truth {
    pub(super) fn new() -> Self {
        let view = view(1, &[]);
        let showable = HashMap::from([(1, (0, view.clone()))]);
        Self { view, held: None, showable, flaps: 0 }
    }

    pub(super) fn held(&self, now: u64) -> Option<&(u64, View)> {
        self.held.as_ref().filter(|(until, _)| *until > now)
    }

    pub(super) fn shown(&self, now: u64) -> &View {
        self.held(now).map_or(&self.view, |(_, before)| before)
    }

    pub(super) fn standing(&self, now: u64) -> Standing {
        let held = self.held(now).map(|(until, before)| Held {
            remaining: Duration::from_millis(until - now),
            before: before.clone(),
        });
        Standing { held, ..Standing::settled(bo(), self.view.clone()) }
    }

    /// The user looks otherwise from now on, which is shown from `until` on.
    pub(super) fn change(&mut self, now: u64, devices: &[&str], until: u64) {
        let before = self.shown(now).clone();
        let was_held = self.held(now).is_some();
        if was_held {
            self.showable.remove(&self.view.version);
        }
        self.view = view((now * 1000).max(self.view.version + 1), devices);
        let back = self.view.looks_like(&before);
        self.flaps += usize::from(back && was_held);
        self.held = (until > now && !back).then_some((until, before));
        let from = if self.held.is_some() { until } else { now };
        self.showable.insert(self.view.version, (from, self.view.clone()));
    }

    /// A bye explains a loss that is held back: it is shown now, or sooner than it was to be.
    pub(super) fn release(&mut self, until: u64) {
        self.held = self.held.take().map(|(held, before)| (held.min(until), before));
        let from = self.held.as_ref().map_or(until, |(until, _)| *until);
        self.showable.insert(self.view.version, (from, self.view.clone()));
    }

    /// The store restarts empty.
    pub(super) fn restart(&mut self, now: u64) {
        if self.held(now).is_some() {
            self.showable.remove(&self.view.version);
        }
        self.view = View { version: (now * 1000).max(self.view.version + 1), ..View::NO_TRACE };
        self.held = None;
        self.showable.insert(self.view.version, (now + NO_TRACE_MS, self.view.clone()));
    }
}
