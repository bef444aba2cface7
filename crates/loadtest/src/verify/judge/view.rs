//! One watcher's view of one user, held against the user's timeline. Pure.

use crate::verify::judge::{CATCH_UP, Findings, Promise, secs};
use crate::verify::lag::Lag;
use crate::verify::record::{Seen, Sight, Span, Us, User};
use crate::verify::truth::{Absence, Cause, Departure, Excuse, Loss, Presence, Rules, Timeline};

/// What one connection was told of one user.
pub(super) struct View<'a> {
    pub(super) rules: &'a Rules,
    pub(super) lag: &'a Lag,
    pub(super) timeline: &'a Timeline,
    pub(super) stalls: &'a [Span],
    /// Of the watcher's connection.
    pub(super) number: usize,
    pub(super) user: User,
    pub(super) until: Us,
    pub(super) seen: &'a [Seen],
}

impl View<'_> {
    pub(super) fn judge(&self, findings: &mut Findings) {
        for seen in self.seen {
            match seen.what {
                Sight::Offline => self.judge_offline(seen, findings),
                Sight::Online => self.judge_online(seen, findings),
                Sight::Unwatched => continue,
            }
            findings.states += 1;
        }
        for presence in &self.timeline.present {
            self.judge_presence(presence, findings);
        }
        for absence in &self.timeline.absent {
            self.judge_absence(absence, findings);
        }
        let shown = |loss: &&Loss| {
            self.shown_at(loss.left) == Some(Sight::Online)
                && loss.back.is_some_and(|back| back < self.until)
        };
        findings.returns += self.timeline.losses.iter().filter(shown).count() as u64;
    }

    /// What the watcher had before its eyes at a time; none while it did not watch the user.
    fn shown_at(&self, at: Us) -> Option<Sight> {
        let before = self.seen.partition_point(|seen| seen.at <= at);
        let last = self.seen[..before].last()?;
        (last.what != Sight::Unwatched).then_some(last.what)
    }

    /// The stall, or what it left to be caught up with, that a time falls into.
    fn stall_at(&self, at: Us) -> Option<&Span> {
        self.stalls.iter().find(|stall| stall.start <= at && at < stall.end + CATCH_UP)
    }

    /// When that may have been told which was read at `at`.
    fn told(&self, at: Us) -> Span {
        let late = at.saturating_sub(self.lag.around(at));
        Span { start: self.stall_at(at).map_or(late, |stall| late.min(stall.start)), end: at }
    }

    /// When the watcher must have read what was told by `at`.
    fn read_by(&self, at: Us) -> Us {
        let due = self.stall_at(at).map_or(at, |stall| stall.end + CATCH_UP);
        self.lag.read_by(due, self.rules.relief())
    }

    fn judge_offline(&self, seen: &Seen, findings: &mut Findings) {
        let read = self.told(seen.at);
        let wrong = self.timeline.present.iter().find(|presence| covers(&presence.span, &read));
        let Some(presence) = wrong else { return };
        // Told before, and repeated only: that it is late is judged where it was due.
        if self.shown_at(seen.at - 1) == Some(Sight::Offline) {
            return;
        }
        let last = self.timeline.losses.iter().rfind(|loss| loss.left <= seen.at);
        let (promise, what) = match last.and_then(|loss| Some((loss.left, loss.back?))) {
            Some((left, back)) => (
                Promise::Flap,
                format!(
                    "shown offline though it left at {} and was back at {}",
                    secs(left),
                    secs(back)
                ),
            ),
            None if presence.span.end == Us::MAX => {
                (Promise::FalseOffline, "shown offline though a session lives".to_owned())
            }
            None => {
                (Promise::EarlyOffline, format!("shown offline before {}", secs(presence.span.end)))
            }
        };
        findings.broken(promise, None, self, seen.at, what);
    }

    fn judge_online(&self, seen: &Seen, findings: &mut Findings) {
        let read = self.told(seen.at);
        let wrong = self.timeline.absent.iter().find(|absence| covers(&absence.span, &read));
        let Some(absence) = wrong else { return };
        if self.shown_at(seen.at - 1) == Some(Sight::Online) {
            return;
        }
        let what = format!("shown online though gone since {}", secs(absence.span.start));
        findings.broken(Promise::Ghost, None, self, seen.at, what);
    }

    fn judge_presence(&self, presence: &Presence, findings: &mut Findings) {
        let due = self.read_by(presence.span.start);
        if due >= presence.span.end.min(self.until) {
            return;
        }
        let Some(shown) = self.shown_at(due) else { return };
        findings.presences += 1;
        let pushed = self.first_after(presence.hello, Sight::Online);
        let was_off = self.shown_at(presence.hello) == Some(Sight::Offline);
        let counts = |at: &Us| *at < presence.span.end && self.stall_at(*at).is_none();
        if let Some(at) = pushed.filter(counts).filter(|_| was_off && !presence.excused) {
            findings.online_us.push(at - presence.hello);
        }
        if shown == Sight::Offline {
            let seen = pushed.map_or("never".to_owned(), |at| format!("at {}", secs(at)));
            let what = format!(
                "signed in at {}, due by {}, shown online {seen}",
                secs(presence.since),
                secs(presence.span.start)
            );
            findings.broken(Promise::LateOnline, None, self, due, what);
        }
    }

    fn judge_absence(&self, absence: &Absence, findings: &mut Findings) {
        let Some(departure) = absence.after else { return };
        let due = self.read_by(absence.span.start);
        let end = absence.span.end.min(self.until);
        if due >= end {
            return;
        }
        let Some(shown) = self.shown_at(due) else { return };
        findings.absences += 1;
        let watched_before = self.shown_at(departure.from.after) == Some(Sight::Online);
        let told = self.first_after(departure.from.after, Sight::Offline).filter(|at| *at < end);
        if let Some(at) = told.filter(|at| watched_before && self.stall_at(*at).is_none()) {
            match departure.excuse {
                None => {
                    let late = at.saturating_sub(departure.from.by);
                    findings.latest.entry(departure.cause).or_default().latest(late);
                }
                Some(Excuse::Healed(healed)) => {
                    findings.after_faults.latest(at.saturating_sub(healed));
                }
                Some(Excuse::Untold) => {}
            }
            if let Some(early) = self.unhurried(&departure, at) {
                findings.earliest.entry(departure.cause).or_default().earliest(early);
            }
        }
        if shown == Sight::Online {
            let seen =
                told.map_or("still online".to_owned(), |at| format!("offline at {}", secs(at)));
            let what = format!(
                "{} at {}, due offline by {}, {seen}",
                departure.cause.verb(),
                secs(departure.from.by),
                secs(absence.span.start)
            );
            let promise = if told.is_none() { Promise::Ghost } else { Promise::LateOffline };
            findings.broken(promise, Some(departure.cause), self, due, what);
        }
    }

    /// How long after its cause an offline was told, where only that cause decides.
    fn unhurried(&self, departure: &Departure, at: Us) -> Option<Us> {
        let held = match departure.cause {
            Cause::Closed => self.rules.grace,
            Cause::Silent => self.rules.ttl,
            _ => return None,
        };
        (departure.not_before == departure.from.after + held).then(|| at - departure.from.after)
    }

    fn first_after(&self, at: Us, what: Sight) -> Option<Us> {
        let after = self.seen.iter().find(|seen| seen.at > at && seen.what == what);
        after.map(|seen| seen.at)
    }
}

/// The whole of `inner` is in `outer`.
fn covers(outer: &Span, inner: &Span) -> bool {
    outer.has(inner.start) && outer.has(inner.end)
}

impl Cause {
    fn verb(self) -> &'static str {
        match self {
            Self::Bye => "said bye",
            Self::Closed => "closed its socket",
            Self::Silent => "fell silent",
            Self::GatewayLost => "lost its gateway",
            Self::Drained => "was sent away by its gateway",
        }
    }
}
