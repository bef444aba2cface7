//! The truth about a user, from what its sessions did: when watchers must see the user online, when
//! they must see it offline, and when either is right. Pure, and the one place where the promised
//! times are written down.
//!
//! | a session ended by | offline not before | offline at the latest |
//! | --- | --- | --- |
//! | `bye` | the `bye` | `bye` + [`PROMPT`] |
//! | its socket closed | close + grace | close + grace + [`PROMPT`] |
//! | silence | last sign of life + TTL | the same + grace + [`PROMPT`] |
//! | SIGKILL of its gateway | last sign of life + TTL | kill + TTL + grace + [`PROMPT`] |
//! | a drain, or any close by the gateway | last sign of life + TTL | close + TTL + grace + [`PROMPT`] |
//!
//! - A user is online while any session says so; a session welcomed [`RETURN_MARGIN`] before the
//!   last one's "not before" continues it, and nobody may be told anything.
//! - A `bye` also ends what is held back of earlier sessions. Whoever comes back after a drain, or
//!   after its gateway was killed, takes its place again: from then on the new session is what counts
//!   for sure.
//! - Online is due [`PROMPT`] after the `welcome`; whoever is gone by then for good need not have been shown at all.
//! - What a stopped gateway was told, or told nobody of before it was stopped, counts from when it goes on: up to
//!   [`PROMPT`] later, as what it is told in that time.
//! - While a fault touches Redis, the user's gateway or the watcher's, "at the latest" is moved to
//!   its end + [`HEAL`] + grace; by another TTL and [`PROMPT`] where a primary of a cluster hung: what it was told
//!   is lost when it wakes, and what the new one has instead may have to expire. "Not before" never is, with three exceptions: a gateway that was
//!   stopped for its TTL may be taken for dead until the same time after its return; what a dead or
//!   drained gateway left behind may be lost with a Redis that loses everything, or hangs until
//!   keys expire, after it or less than [`HEAL`] before it, and so may what ended before an empty Redis
//!   was told of it; and a session that was not told to anybody yet dies with its gateway.
//! - A gateway that was stopped could not hear: silence counts from later by as long.
//! - One that is stopped within [`ASSERT_TIME`] of an empty Redis' return has not told it of all its users.

mod departure;
mod spans;

use crate::verify::args::VerifyArgs;
use crate::verify::record::{Facts, Fault, FaultKind, Place, Span, Us, us};
pub(crate) use departure::{Cause, Departure, Excuse};
use spans::{absences, cut, end_holds_by_bye, end_places_by_return, losses};

/// How soon a change is told, and how much later than a deadline.
pub(crate) const PROMPT: Us = 1_000_000;

/// How soon after a fault every view is the truth again.
pub(crate) const HEAL: Us = 5_000_000;

/// How soon a gateway has told an empty Redis of its users.
const ASSERT_TIME: Us = 2_000_000;

/// A return must be told to the store before the loss is final: so long before, it surely is.
pub(crate) const RETURN_MARGIN: Us = 250_000;

/// The times that a deployment promises by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) heartbeat: Us,
    pub(crate) ttl: Us,
    pub(crate) grace: Us,
}

/// A time in which nobody may be shown online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) span: Span,
    /// The departure before it; none when the user had not been there yet.
    pub(crate) after: Option<Departure>,
}

/// A time in which nobody may be shown offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presence {
    /// When it must be seen by all; from `since` on it may not end.
    pub(crate) span: Span,
    /// When the first session of it was welcomed.
    pub(crate) since: Us,
    /// Its first session's `hello`.
    pub(crate) hello: Us,
    /// It was told late, with good reason.
    pub(crate) excused: bool,
}

/// What a watcher on one gateway must see of a user. In between, either is right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) present: Vec<Presence>,
    pub(crate) absent: Vec<Absence>,
    /// When the user had no session left, in the order of time.
    pub(crate) losses: Vec<Loss>,
    /// The ends of all its sessions, in the order of time.
    pub(crate) departures: Vec<Departure>,
}

/// The end of a user's last session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) left: Us,
    /// Until when others would be told of it.
    pub(crate) latest: Us,
    /// When the user was back, if that was in time for nobody to be told.
    pub(crate) back: Option<Us>,
}

impl Rules {
    pub(crate) fn of(args: &VerifyArgs) -> Self {
        Self { heartbeat: us(args.heartbeat), ttl: us(args.ttl), grace: us(args.grace) }
    }

    /// How long after a fault its excuse ends.
    pub(crate) fn relief(&self) -> Us {
        HEAL + self.grace
    }

    /// How long after a hung primary woke its excuse ends.
    pub(crate) fn relief_of_hang(&self) -> Us {
        self.ttl + self.relief() + PROMPT
    }

    /// What a watcher on the gateway at `watcher` must see of the user with these sessions.
    /// `faults` are in the order of their beginning.
    pub(crate) fn timeline(
        &self,
        sessions: &[&Facts],
        faults: &[Fault],
        watcher: Place,
    ) -> Timeline {
        let mut departures: Vec<Option<Departure>> =
            sessions.iter().map(|facts| self.departure(facts, faults, watcher)).collect();
        end_holds_by_bye(sessions, &mut departures, faults);
        end_places_by_return(sessions, &mut departures);
        let present = self.present(sessions, &departures, faults, watcher);
        let (losses, absent) = (losses(sessions, &departures), absences(sessions, &departures));
        let mut departures: Vec<Departure> = departures.into_iter().flatten().collect();
        departures.sort_unstable_by_key(|departure| departure.from.after);
        Timeline { present, absent, losses, departures }
    }

    /// When the end of a session, or its beginning, must be known to everybody.
    pub(crate) fn settled(&self, facts: &Facts, faults: &[Fault], watcher: Place) -> Us {
        let departure = self.departure(facts, faults, watcher);
        let begun = facts.welcome.unwrap_or(facts.hello);
        let changed = facts.status.as_ref().map_or(begun, |status| status.set.by.max(begun));
        let told = self.told(changed, faults, [facts.place, watcher]).0;
        departure.map_or(told, |departure| departure.latest.max(told))
    }

    /// When what was asked of a gateway at `asked` must be answered.
    pub(crate) fn answered(&self, asked: Us, faults: &[Fault], place: Place) -> Us {
        self.told(asked, faults, [place; 2]).0
    }

    /// Until when a change that began at `start` and was due by `latest` may be late.
    fn excuse(&self, fault: &Fault, places: [Place; 2], start: Us, latest: Us) -> Option<Us> {
        let touches = match fault.kind {
            FaultKind::GatewayKill | FaultKind::GatewayRestart => false,
            FaultKind::GatewayPause => fault.place.is_some_and(|place| places.contains(&place)),
            _ => true,
        };
        let relief = match fault.kind {
            FaultKind::ClusterHang => self.relief_of_hang(),
            _ => self.relief(),
        };
        let relieved = fault.until().saturating_add(relief);
        (touches && fault.from.after <= latest && relieved > latest && relieved > start)
            .then_some(relieved)
    }

    fn present(
        &self,
        sessions: &[&Facts],
        departures: &[Option<Departure>],
        faults: &[Fault],
        watcher: Place,
    ) -> Vec<Presence> {
        let mut firm: Vec<(Span, &Facts)> = Vec::new();
        for (&facts, departure) in sessions.iter().zip(departures) {
            let spans = self.firm(facts, departure.as_ref(), faults);
            firm.extend(spans.into_iter().map(|span| (span, facts)));
        }
        firm.sort_unstable_by_key(|(span, _)| span.start);
        let mut present: Vec<Presence> = Vec::new();
        // When the last session of each ended.
        let mut ends: Vec<Us> = Vec::new();
        for (span, facts) in firm {
            let end = facts.end.map_or(Us::MAX, |(end, _)| end.by);
            let last = present.last_mut().zip(ends.last_mut());
            if let Some((last, last_end)) = last.filter(|(last, _)| span.start <= last.span.end) {
                last.span.end = last.span.end.max(span.end);
                *last_end = end.max(*last_end);
                continue;
            }
            let since = span.start - RETURN_MARGIN;
            let (told, excused) = self.told(since, faults, [facts.place, watcher]);
            let span = Span { start: told, end: span.end };
            present.push(Presence { span, since, hello: facts.hello, excused });
            ends.push(end);
        }
        let lasted = |(presence, end): &(Presence, Us)| *end > presence.span.start;
        let present = present.into_iter().zip(ends).filter(lasted).map(|(presence, _)| presence);
        present.filter(|presence| !presence.span.is_empty()).collect()
    }

    /// When a session that was welcomed at `since` is known everywhere, and whether that is late.
    fn told(&self, since: Us, faults: &[Fault], places: [Place; 2]) -> (Us, bool) {
        let mut told = since + PROMPT;
        for fault in faults {
            told = self.excuse(fault, places, since, told).unwrap_or(told);
        }
        (told, told > since + PROMPT)
    }

    /// When a session alone keeps its user online, once that was told.
    fn firm(&self, facts: &Facts, departure: Option<&Departure>, faults: &[Fault]) -> Vec<Span> {
        let Some(welcome) = facts.welcome else { return Vec::new() };
        let mut end = departure.map_or(Us::MAX, |departure| departure.not_before);
        let (told, _) = self.told(welcome, faults, [facts.place; 2]);
        for death in faults.iter().filter(|fault| is_death(fault, facts.place)) {
            if death.from.after >= welcome && death.from.after < told {
                end = end.min(death.from.after);
            }
        }
        let known = acted_on(faults, facts.place, welcome).saturating_add(RETURN_MARGIN);
        let mut spans = vec![Span { start: known, end }];
        for silence in &facts.silences {
            cut(&mut spans, silence.start + self.ttl, silence.end + self.relief());
        }
        for pause in faults.iter().filter(|fault| is_at(fault, FaultKind::GatewayPause, facts)) {
            let asserts = faults.iter().any(|fault| {
                let asserted = fault.until().saturating_add(ASSERT_TIME);
                fault.kind == FaultKind::RedisKill
                    && (fault.until()..asserted).contains(&pause.from.after)
            });
            let doubt_after = if asserts { 0 } else { self.ttl - self.heartbeat };
            let doubt = pause.from.after + doubt_after;
            if pause.until() > doubt {
                cut(&mut spans, doubt, pause.until().saturating_add(self.relief()));
            }
        }
        spans.retain(|span| !span.is_empty());
        spans
    }
}

/// When a gateway has surely acted on what came at that moment, if it was not slow: one that is stopped, or was a moment
/// later, when it goes on and has worked off what came meanwhile.
pub(crate) fn acted_on(faults: &[Fault], place: Place, at: Us) -> Us {
    let stops = faults.iter().filter(|fault| {
        fault.kind == FaultKind::GatewayPause
            && fault.place == Some(place)
            && fault.from.after <= at + RETURN_MARGIN
    });
    let worked_off = stops.map(|stop| stop.until().saturating_add(PROMPT));
    worked_off.filter(|until| *until > at).max().unwrap_or(at)
}

fn is_at(fault: &Fault, kind: FaultKind, facts: &Facts) -> bool {
    fault.kind == kind && fault.place == Some(facts.place)
}

/// The gateway at this place ends by the fault, and what it knew is known to nobody.
fn is_death(fault: &Fault, place: Place) -> bool {
    matches!(fault.kind, FaultKind::GatewayKill | FaultKind::GatewayRestart)
        && fault.place == Some(place)
}

#[cfg(test)]
mod tests;
