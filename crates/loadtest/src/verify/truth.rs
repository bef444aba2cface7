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
//! - A `bye` also ends what is held back of earlier sessions.
//! - Online is due [`PROMPT`] after the `welcome`.
//! - While a fault touches Redis, the user's gateway or the watcher's, "at the latest" is moved to
//!   its end + [`HEAL`] + grace. "Not before" never is, with three exceptions: a gateway that was
//!   stopped for its TTL may be taken for dead until the same time after its return; what a dead or
//!   drained gateway left behind may be lost with a Redis that loses everything; and a session that
//!   was not told to anybody yet dies with its gateway.
//! - A gateway that was stopped could not hear: silence counts from later by as long.

use crate::verify::record::{Ending, Facts, Fault, FaultKind, Moment, Place, Span, Us};

/// How soon a change is told, and how much later than a deadline.
pub(crate) const PROMPT: Us = 1_000_000;

/// How soon after a fault every view is the truth again.
pub(crate) const HEAL: Us = 5_000_000;

/// A return must be told to the store before the loss is final: so long before, it surely is.
pub(crate) const RETURN_MARGIN: Us = 250_000;

/// A TCP connection that breaks because of a kill breaks at most so long after it.
const BREAK_MAX: Us = 2_000_000;

/// The times that a deployment promises by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) heartbeat: Us,
    pub(crate) ttl: Us,
    pub(crate) grace: Us,
}

/// Why a user went offline, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cause {
    Bye,
    Closed,
    Silent,
    GatewayLost,
    Drained,
}

/// When a user's session stops counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) cause: Cause,
    /// What the deadlines count from.
    pub(crate) from: Moment,
    /// Offline may not be shown before this.
    pub(crate) not_before: Us,
    /// Nor online after this.
    pub(crate) latest: Us,
    /// Why `latest` is later than that, if it is.
    pub(crate) excuse: Option<Excuse>,
}

/// Why a change may be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// A fault that ended then.
    Healed(Us),
    /// The gateway that knew of it died.
    Untold,
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
    /// How often the user came back in time: `(left, back)`.
    pub(crate) returns: Vec<(Us, Us)>,
}

impl Rules {
    /// How long after a fault its excuse ends.
    pub(crate) fn relief(&self) -> Us {
        HEAL + self.grace
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
        end_holds_by_bye(sessions, &mut departures);
        let present = self.present(sessions, &departures, faults, watcher);
        Timeline {
            returns: returns(sessions, &departures),
            absent: absences(sessions, &departures),
            present,
        }
    }

    /// When a session stops counting; none while it lives.
    pub(crate) fn departure(
        &self,
        facts: &Facts,
        faults: &[Fault],
        watcher: Place,
    ) -> Option<Departure> {
        let (end, ending) = facts.end?;
        let Self { ttl, grace, .. } = *self;
        let silent = facts.beat.after + ttl;
        let killed = faults.iter().find(|fault| kills(fault, facts.place, end));
        let (cause, from, not_before, latest) = match (ending, killed) {
            (Ending::Bye, _) => (Cause::Bye, end, end.after, end.by + PROMPT),
            (Ending::Closed, _) => (Cause::Closed, end, end.after + grace, end.by + grace + PROMPT),
            (Ending::Frozen, _) | (Ending::Cut(Some(NO_HEARTBEAT)), None) => {
                let deaf = deaf_time(faults, facts.place, facts.beat.by, ttl);
                (
                    Cause::Silent,
                    facts.beat,
                    silent,
                    (facts.beat.by + ttl + grace + PROMPT).saturating_add(deaf),
                )
            }
            (Ending::Cut(_), Some(kill)) => {
                let heard = facts.heard_before(kill.from.after) + ttl;
                (Cause::GatewayLost, kill.from, heard, kill.from.by + ttl + grace + PROMPT)
            }
            (Ending::Cut(_), None) => {
                let heard = facts.beat_before + ttl;
                (Cause::Drained, end, heard, end.by + ttl + grace + PROMPT)
            }
        };
        let mut departure = Departure { cause, from, not_before, latest, excuse: None };
        self.move_by_faults(&mut departure, facts, faults, watcher);
        Some(departure)
    }

    fn move_by_faults(
        &self,
        departure: &mut Departure,
        facts: &Facts,
        faults: &[Fault],
        watcher: Place,
    ) {
        let left_behind = matches!(departure.cause, Cause::GatewayLost | Cause::Drained);
        let start = departure.from.after;
        for fault in faults {
            let untold = is_death(fault, facts.place)
                && fault.from.after <= departure.latest
                && fault.until() >= start;
            if untold && departure.cause != Cause::GatewayLost {
                let lapsed = fault.from.by.max(departure.from.by) + self.ttl + self.grace + PROMPT;
                if lapsed > departure.latest {
                    (departure.latest, departure.excuse) = (lapsed, Some(Excuse::Untold));
                }
            }
            let lost = fault.kind == FaultKind::RedisKill && left_behind;
            if lost && fault.from.by >= start && fault.from.after < departure.not_before {
                departure.not_before = fault.from.after;
            }
            let here = [facts.place, watcher];
            if let Some(excused) = self.excuse(fault, here, start, departure.latest) {
                (departure.latest, departure.excuse) =
                    (excused, Some(Excuse::Healed(fault.until())));
            }
        }
    }

    /// Until when a change that began at `start` and was due by `latest` may be late.
    fn excuse(&self, fault: &Fault, places: [Place; 2], start: Us, latest: Us) -> Option<Us> {
        let touches = match fault.kind {
            FaultKind::GatewayKill | FaultKind::GatewayRestart => false,
            FaultKind::GatewayPause => fault.place.is_some_and(|place| places.contains(&place)),
            _ => true,
        };
        let relieved = fault.until().saturating_add(self.relief());
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
        for (span, facts) in firm {
            if let Some(last) = present.last_mut().filter(|last| span.start <= last.span.end) {
                last.span.end = last.span.end.max(span.end);
                continue;
            }
            let since = span.start - RETURN_MARGIN;
            let (told, excused) = self.told(since, faults, [facts.place, watcher]);
            let span = Span { start: told, end: span.end };
            present.push(Presence { span, since, hello: facts.hello, excused });
        }
        present.retain(|presence| !presence.span.is_empty());
        present
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
        let mut spans = vec![Span { start: welcome + RETURN_MARGIN, end }];
        for silence in &facts.silences {
            cut(&mut spans, silence.start + self.ttl, silence.end + self.relief());
        }
        for pause in faults.iter().filter(|fault| is_at(fault, FaultKind::GatewayPause, facts)) {
            let doubt = pause.from.after + self.ttl - self.heartbeat;
            if pause.until() > doubt {
                cut(&mut spans, doubt, pause.until().saturating_add(self.relief()));
            }
        }
        spans.retain(|span| !span.is_empty());
        spans
    }
}

impl Facts {
    /// The last sign of life that a gateway which was gone at `gone` can have heard.
    fn heard_before(&self, gone: Us) -> Us {
        if self.beat.after <= gone { self.beat.after } else { self.beat_before.min(gone) }
    }
}

/// The close code of a session that was silent for the TTL.
const NO_HEARTBEAT: u16 = 4004;

fn is_at(fault: &Fault, kind: FaultKind, facts: &Facts) -> bool {
    fault.kind == kind && fault.place == Some(facts.place)
}

/// The gateway at this place ends by the fault, and what it knew is known to nobody.
fn is_death(fault: &Fault, place: Place) -> bool {
    matches!(fault.kind, FaultKind::GatewayKill | FaultKind::GatewayRestart)
        && fault.place == Some(place)
}

/// A session that broke at `end` did so because its gateway was killed.
fn kills(fault: &Fault, place: Place, end: Moment) -> bool {
    fault.kind == FaultKind::GatewayKill
        && fault.place == Some(place)
        && fault.from.after <= end.by
        && end.after <= fault.from.by + BREAK_MAX
}

/// For how long the gateway was stopped while it should have noticed a silence.
fn deaf_time(faults: &[Fault], place: Place, silent_since: Us, ttl: Us) -> Us {
    let pauses = faults.iter().filter(|fault| fault.kind == FaultKind::GatewayPause);
    let mut deaf: Us = 0;
    for pause in pauses.filter(|pause| pause.place == Some(place)) {
        let noticed = (silent_since + ttl).saturating_add(deaf);
        if pause.from.after <= noticed && pause.until() > silent_since {
            let stopped = pause.until().saturating_sub(pause.from.after.max(silent_since));
            deaf = deaf.saturating_add(stopped);
        }
    }
    deaf
}

fn end_holds_by_bye(sessions: &[&Facts], departures: &mut [Option<Departure>]) {
    for bye in sessions.iter().filter_map(|facts| facts.end) {
        let (at, Ending::Bye) = bye else { continue };
        for (facts, departure) in sessions.iter().zip(departures.iter_mut()) {
            let ended = facts.end.is_some_and(|(end, _)| end.after <= at.by);
            if let Some(departure) = departure.as_mut().filter(|_| ended) {
                departure.not_before = departure.not_before.min(at.after);
            }
        }
    }
}

/// Takes `[start, end)` out of the spans.
fn cut(spans: &mut Vec<Span>, start: Us, end: Us) {
    let rest = |span: &Span| {
        [
            Span { start: span.start, end: span.end.min(start) },
            Span { start: span.start.max(end), end: span.end },
        ]
    };
    *spans = spans.iter().flat_map(rest).filter(|span| !span.is_empty()).collect();
}

/// The times in which no session can be taken for alive.
fn absences(sessions: &[&Facts], departures: &[Option<Departure>]) -> Vec<Absence> {
    let mut possible: Vec<(Span, Option<Departure>)> = Vec::new();
    for (facts, departure) in sessions.iter().zip(departures) {
        let end = departure.map_or(Us::MAX, |departure| departure.latest);
        possible.push((Span { start: facts.hello, end }, *departure));
    }
    possible.sort_unstable_by_key(|(span, _)| span.start);
    let mut absences = Vec::new();
    let (mut gone, mut last) = (0, None);
    for (span, departure) in possible {
        if span.start > gone {
            absences.push(Absence { span: Span { start: gone, end: span.start }, after: last });
        }
        let began = |departure: Option<Departure>| departure.map(|departure| departure.from.by);
        if (span.end, began(departure)) > (gone, began(last)) {
            (gone, last) = (span.end, departure);
        }
    }
    if gone < Us::MAX {
        absences.push(Absence { span: Span { start: gone, end: Us::MAX }, after: last });
    }
    absences
}

/// When the user's last session was lost, and another began in time.
fn returns(sessions: &[&Facts], departures: &[Option<Departure>]) -> Vec<(Us, Us)> {
    let mut returns = Vec::new();
    for (facts, departure) in sessions.iter().zip(departures) {
        let (Some((end, _)), Some(departure)) = (facts.end, departure) else { continue };
        let covered = sessions.iter().any(|other| {
            other.welcome.is_some_and(|welcome| welcome <= end.after)
                && other.end.is_none_or(|(other, _)| other.after > end.after)
        });
        let back = sessions.iter().filter_map(|other| other.welcome);
        let back = back.filter(|welcome| *welcome > end.after).min();
        if let Some(back) = back.filter(|back| back + RETURN_MARGIN <= departure.not_before)
            && !covered
        {
            returns.push((end.after, back));
        }
    }
    returns
}

#[cfg(test)]
mod tests;
