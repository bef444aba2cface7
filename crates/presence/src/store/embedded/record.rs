//! One user's record and the rules by which it changes: any device, versions that only grow, the grace, invisibility.
//! Pure: the time is passed in. `redis/lua/record.lua` holds the same rules, and what only
//! a shared store needs; one test suite drives both.

#[cfg(test)]
mod model;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use presence_protocol::{Availability, Show, UserId};
use smallvec::SmallVec;

use crate::store::view::View;
use crate::store::{Cause, Change, Claim, Contribution, Held, SetStatus, Standing};

use super::{Moment, Times};

/// A hold that would end so little earlier is left as it is.
const EARLIER: Duration = Duration::from_millis(100);

/// What is known of a user.
#[derive(Debug, Clone)]
pub(super) struct Record {
    view: View,
    held: Option<Box<Hold>>,
    vouchers: SmallVec<[Voucher; 1]>,
}

/// A loss that is held back: `before` is shown until then.
#[derive(Debug, Clone)]
struct Hold {
    until: Moment,
    before: View,
}

/// What one gateway contributes, and until when it vouches for it.
#[derive(Debug, Clone)]
struct Voucher {
    gateway: Arc<str>,
    until: Moment,
    /// None when the gateway only keeps the user's place: until then the loss of its part is held back.
    contribution: Option<Contribution>,
    /// When the contribution's status was set.
    status_set_at: Moment,
}

/// Why a view changes, and how.
struct Turn<'a> {
    /// The gateway that claims it; none when a lapse was found.
    gateway: Option<&'a str>,
    change: Change,
    since: Moment,
    hold_until: Option<Moment>,
    /// The same without what others owe the user.
    own_until: Option<Moment>,
}

impl Turn<'_> {
    /// A loss that is later than the one that is held back is from now on the one to be explained.
    fn take_over(&self, hold: &mut Hold) {
        if let Some(gateway) = self.gateway.filter(|_| self.own_until >= Some(hold.until)) {
            hold.before.gateways = vec![gateway.to_owned()];
        }
    }
}

/// Whether a gateway tells with this that a user is gone from it.
fn is_told_loss(cause: Cause) -> bool {
    matches!(cause, Cause::Bye | Cause::Closed | Cause::Silent | Cause::Drained)
}

impl Voucher {
    /// Whether it contributes what is claimed now, whenever its status was set.
    fn looks_like(&self, claim: &Claim) -> bool {
        let look = |contribution: &Contribution| {
            let status = contribution.status.as_ref();
            let show = status.map(|status| (status.show, status.text.clone()));
            (contribution.devices.clone(), show)
        };
        self.contribution.as_ref().map(look) == claim.contribution.as_ref().map(look)
    }

    fn status(&self) -> Option<(&SetStatus, Moment)> {
        let status = self.contribution.as_ref()?.status.as_ref()?;
        Some((status, self.status_set_at))
    }
}

impl Record {
    /// Nothing is known of the user, since when the store remembers.
    pub(super) fn new(born: Moment) -> Self {
        let view = View { version: born.as_us(), ..View::NO_TRACE };
        Self { view, held: None, vouchers: SmallVec::new() }
    }

    /// Takes over what a gateway claims.
    pub(super) fn apply(
        &mut self,
        gateway: &Arc<str>,
        claim: &Claim,
        times: &Times,
    ) -> Option<Standing> {
        let now = times.now;
        self.end_hold(now);
        let drained = claim.cause == Cause::Drained;
        let mut living = self.vouchers.iter().filter(|voucher| voucher.contribution.is_some());
        let before = living.find(|voucher| voucher.gateway == *gateway);
        let is_more = |before: &Voucher| claim.cause == Cause::Joined && !before.looks_like(claim);
        let has_come = before.is_none_or(is_more);
        self.vouchers.retain(|voucher| voucher.until > now);
        let places = self.vouchers.iter().filter(|voucher| voucher.contribution.is_none());
        let had_place = places.clone().any(|place| place.gateway == *gateway);
        self.vouchers.retain(|voucher| voucher.gateway != *gateway);
        let comes = claim.contribution.is_some() && !drained && has_come;
        if comes || claim.cause == Cause::Bye {
            // Nobody has to keep the place any more of a user who has come here, or has signed out.
            self.vouchers.retain(|voucher| voucher.contribution.is_some());
        }
        let place_kept_until = self.place_kept_until();
        let hold =
            claim.cause.hold(times.ttl, times.grace).map(|hold| hold.saturating_sub(claim.age));
        if let Some(contribution) = claim.contribution.as_ref().filter(|_| !drained) {
            let status_age = contribution.status.as_ref().map(|status| status.age);
            self.vouchers.push(Voucher {
                gateway: gateway.clone(),
                until: now + times.ttl,
                contribution: Some(contribution.clone()),
                status_set_at: now - status_age.unwrap_or_default(),
            });
        } else if let Some(hold) = hold.filter(|_| drained || had_place || self.is_anywhere()) {
            // Whoever loses the user's last session may have lost it sooner than this one was, and tell of it later.
            self.vouchers.push(Voucher {
                gateway: gateway.clone(),
                until: now + hold,
                contribution: None,
                status_set_at: now,
            });
        }
        let view = self.merge();
        // A user who was here and invisible begins to be online now: for how long before is nobody's business.
        let was_invisible = !self.view.is_online() && !self.view.gateways.is_empty();
        let ago = match &claim.contribution {
            Some(contribution) if view.is_online() && !was_invisible => contribution.online_for,
            _ if view.is_online() => Duration::ZERO,
            _ => claim.silence,
        };
        let due_in_ms = claim.due_in_ms(times.ttl, times.grace);
        let due_ms = now.as_ms().saturating_add_signed(due_in_ms);
        let turn = Turn {
            gateway: Some(gateway),
            change: Change { cause: claim.cause, due_ms },
            since: now - ago,
            hold_until: hold.map(|hold| (now + hold).max(place_kept_until.unwrap_or(now))),
            own_until: hold.map(|hold| now + hold),
        };
        self.commit(&claim.user, view, &turn, now)
    }

    /// Vouches on; false when this gateway has no part in the user.
    pub(super) fn refresh(&mut self, gateway: &Arc<str>, times: &Times) -> bool {
        let known = self
            .vouchers
            .iter_mut()
            .find(|voucher| voucher.gateway == *gateway && voucher.until > times.now);
        if let Some(voucher) = known {
            voucher.until = times.now + times.ttl;
            return true;
        }
        false
    }

    /// Brings a record up to the truth of which nobody, or not everybody, vouches any more.
    pub(super) fn settle(&mut self, user: &UserId, times: &Times) -> Option<Standing> {
        self.end_hold(times.now);
        let living = self.vouchers.iter().filter(|voucher| voucher.contribution.is_some());
        let lapsed = living.map(|voucher| voucher.until).filter(|end| *end <= times.now).max();
        self.vouchers.retain(|voucher| voucher.until > times.now);
        let lapsed = lapsed?;
        let view = self.merge();
        let due = lapsed + times.grace;
        let turn = Turn {
            gateway: None,
            change: Change { cause: Cause::Expired, due_ms: due.as_ms() },
            since: lapsed - times.ttl,
            hold_until: Some(due.max(self.place_kept_until().unwrap_or(due))),
            own_until: None,
        };
        self.commit(user, view, &turn, times.now)
    }

    /// Until when the user's place is kept by gateways that have no session of the user any more.
    fn place_kept_until(&self) -> Option<Moment> {
        let places = self.vouchers.iter().filter(|voucher| voucher.contribution.is_none());
        places.map(|voucher| voucher.until).max()
    }

    /// Whether any gateway has a session of the user.
    fn is_anywhere(&self) -> bool {
        self.vouchers.iter().any(|voucher| voucher.contribution.is_some())
    }

    /// Where the user stands.
    pub(super) fn standing(&self, user: UserId, now: Moment) -> Standing {
        let held = self.held.as_ref().filter(|hold| hold.until > now);
        Standing {
            user,
            view: self.view.clone(),
            held: held
                .map(|hold| Held { remaining: hold.until - now, before: hold.before.clone() }),
            change: None,
        }
    }

    /// Whether it is to be told as of one who was never seen: offline, as far as others see, for longer than is remembered.
    pub(super) fn is_forgotten(&self, oldest: Moment) -> bool {
        !self.view.is_online() && self.view.version < oldest.as_us()
    }

    /// What others saw of the user is remembered no more.
    pub(super) fn forget(&mut self, born: Moment) {
        let gateways = std::mem::take(&mut self.view.gateways);
        self.view = View { version: born.as_us(), gateways, ..View::NO_TRACE };
        self.held = None;
    }

    /// Whether nobody has a session, so that nothing of it needs to be kept once it is forgotten.
    pub(super) fn is_left(&self) -> bool {
        self.vouchers.is_empty()
    }

    /// Gives the view a version beyond this one, unless it has one.
    pub(super) fn outdo(&mut self, user: &UserId, version: u64, now: Moment) -> Option<Standing> {
        if self.view.version >= version {
            return None;
        }
        self.view.version = now.as_us().max(version + 1);
        Some(self.standing(user.clone(), now))
    }

    fn end_hold(&mut self, now: Moment) {
        self.held.take_if(|hold| hold.until <= now);
    }

    /// The view that the contributions amount to: the devices of all, the status that was set last.
    fn merge(&self) -> View {
        let living = || self.vouchers.iter().filter(|voucher| voucher.contribution.is_some());
        let contributions = || living().filter_map(|voucher| voucher.contribution.as_ref());
        // With no room for more: a collected one has room for four, in the record of every user.
        let mut gateways = Vec::with_capacity(living().count());
        gateways.extend(living().map(|voucher| voucher.gateway.to_string()));
        gateways.sort_unstable();
        let status = living().filter_map(Voucher::status).max_by_key(|(_, set_at)| *set_at);
        let status = status.map(|(status, _)| status);
        let invisible = status.is_some_and(|status| status.show == Show::Invisible);
        if gateways.is_empty() || invisible {
            return View { gateways, ..View::NO_TRACE };
        }
        let devices: BTreeSet<_> =
            contributions().flat_map(|contribution| contribution.devices.iter().cloned()).collect();
        View {
            state: Availability::Online,
            show: status.map(|status| status.show).filter(|show| *show != Show::Online),
            text: status.and_then(|status| status.text.clone()),
            devices: devices.into_iter().collect(),
            gateways,
            ..View::NO_TRACE
        }
    }

    /// Makes `view` the user's view.
    ///
    /// The version grows only with what a watcher could tell apart, so that nothing an invisible user does shows.
    /// While a loss is held back, a user who comes back piece by piece stays held until it looks as before, or is out
    /// of time; a bye that comes late, after the loss that it explains, ends the hold; and a later loss makes it longer, and
    /// is from then on the one to be explained.
    fn commit(
        &mut self,
        user: &UserId,
        mut view: View,
        turn: &Turn<'_>,
        now: Moment,
    ) -> Option<Standing> {
        let old = &self.view;
        if view.looks_like(old) {
            (view.version, view.since) = (old.version, old.since);
            let released = !view.is_online() && self.move_hold(turn, now);
            if view.gateways == self.view.gateways && !released {
                return None;
            }
        } else {
            view.version = now.as_us().max(old.version + 1);
            view.since = if view.state == old.state { old.since } else { Some(turn.since.as_ms()) };
            self.held = self.hold_after(&mut view, turn, now);
        }
        self.view = view;
        let Change { cause, mut due_ms } = turn.change;
        if let Some(hold) =
            self.held.as_ref().filter(|_| matches!(cause, Cause::Joined | Cause::Status))
        {
            due_ms = due_ms.max(hold.until.as_ms());
        }
        let change = Some(Change { cause, due_ms });
        Some(Standing { change, ..self.standing(user.clone(), now) })
    }

    /// Ends or lengthens a hold for another loss; true when it ends. Of a longer one nobody needs to be told: whoever holds
    /// the loss back asks again before it is shown.
    fn move_hold(&mut self, turn: &Turn<'_>, now: Moment) -> bool {
        let cause = turn.change.cause;
        let Some(hold) = self.held.as_mut().filter(|_| is_told_loss(cause)) else { return false };
        let until = turn.hold_until.unwrap_or(now);
        let is_bye = cause == Cause::Bye;
        let explains = is_bye || hold.before.gateways.iter().map(String::as_str).eq(turn.gateway);
        let released = explains && until + EARLIER < hold.until;
        if released {
            hold.until = until;
            self.end_hold(now);
        } else if !is_bye && until >= hold.until {
            turn.take_over(hold);
            hold.until = until;
        }
        released
    }

    fn hold_after(&mut self, view: &mut View, turn: &Turn<'_>, now: Moment) -> Option<Box<Hold>> {
        let pending = self.held.take();
        let as_before = pending.as_ref().filter(|hold| hold.before.state == view.state);
        let returning = as_before.is_some() && view.is_online();
        if let Some(hold) = as_before {
            view.since = hold.before.since;
        }
        let hold = match turn.hold_until.filter(|until| *until > now) {
            Some(until) => Some(match pending {
                None => Box::new(Hold { until, before: self.view.clone() }),
                Some(mut hold) => {
                    turn.take_over(&mut hold);
                    hold.until = hold.until.max(until);
                    hold
                }
            }),
            None if turn.change.cause == Cause::Joined && returning => pending,
            None => None,
        };
        // Who was not here has nothing to lose. Who was invisible has: another session would show without the lost one.
        hold.filter(|hold| !hold.before.gateways.is_empty() && !hold.before.looks_like(view))
    }
}
