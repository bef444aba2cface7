//! One watcher's view of one user, held against the user's timeline. Pure.

use crate::verify::judge::{CATCH_UP, Findings, Promise, Widened, secs};
use crate::verify::lag::Lag;
use crate::verify::record::{Seen, Sight, Span, Us, User};
use crate::verify::truth::{Absence, Cause, Departure, Loss, Presence, Rules, Timeline};

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

    /// When that may have been told which was read at `at`, by a tool that is never late.
    fn told(&self, at: Us) -> Span {
        Span { start: self.stall_at(at).map_or(at, |stall| stall.start), end: at }
    }

    /// The same for this tool on this machine.
    fn told_at_widest(&self, at: Us) -> Span {
        let late = at.saturating_sub(self.lag.around(at));
        Span { start: self.told(at).start.min(late), end: at }
    }

    /// When it must be seen what is due at `due`, and what is shown then; none where that is not
    /// judged. Notes where it is `wrong` only by the bound of an idle machine.
    fn shown_when_due(
        &self,
        due: Us,
        end: Us,
        wrong: Sight,
        widened: &mut Widened,
    ) -> Option<(Us, Sight)> {
        let exact = self.stall_at(due).map_or(due, |stall| stall.end + CATCH_UP);
        if exact >= end {
            return None;
        }
        let read_by = self.lag.read_by(exact, self.rules.relief());
        let shown = if read_by < end { self.shown_at(read_by) } else { None };
        if self.shown_at(exact) == Some(wrong) && shown != Some(wrong) {
            let right = self.seen.iter().find(|seen| seen.at > exact && seen.what != wrong);
            widened.note(right.map_or(end, |seen| seen.at.min(end)) - exact);
        }
        Some((read_by, shown?))
    }

    fn judge_offline(&self, seen: &Seen, findings: &mut Findings) {
        let told = self.told(seen.at);
        let wrong = self.timeline.present.iter().find(|presence| covers(&presence.span, &told));
        let Some(presence) = wrong else { return };
        // Told before, and repeated only: that it is late is judged where it was due.
        if self.shown_at(seen.at - 1) == Some(Sight::Offline) {
            return;
        }
        if !covers(&presence.span, &self.told_at_widest(seen.at)) {
            findings.widened.note(told.start - presence.span.start);
            return;
        }
        let last = self.last_departure(seen.at);
        let after = last.map_or_else(String::new, |departure| {
            let (verb, at) = (departure.cause.verb(), secs(departure.from.by));
            format!(", after a session {verb} at {at}")
        });
        let (promise, what) = match self.return_before(seen.at) {
            Some((left, back)) => {
                let (left, back) = (secs(left), secs(back));
                (Promise::Flap, format!("shown offline though it left at {left}, back at {back}"))
            }
            None if presence.span.end == Us::MAX => {
                (Promise::FalseOffline, format!("shown offline though a session lives{after}"))
            }
            None => {
                let end = secs(presence.span.end);
                (Promise::EarlyOffline, format!("shown offline before {end}{after}"))
            }
        };
        findings.broken(promise, self, seen.at, what);
    }

    fn judge_online(&self, seen: &Seen, findings: &mut Findings) {
        let told = self.told(seen.at);
        let wrong = self.timeline.absent.iter().find(|absence| covers(&absence.span, &told));
        let Some(absence) = wrong else { return };
        if self.shown_at(seen.at - 1) == Some(Sight::Online) {
            return;
        }
        if !covers(&absence.span, &self.told_at_widest(seen.at)) {
            findings.widened.note(told.start - absence.span.start);
            return;
        }
        let what = format!("shown online though gone since {}", secs(absence.span.start));
        findings.broken(Promise::Ghost, self, seen.at, what);
    }

    fn judge_presence(&self, presence: &Presence, findings: &mut Findings) {
        let end = presence.span.end.min(self.until);
        let (start, widened) = (presence.span.start, &mut findings.widened);
        let judged = self.shown_when_due(start, end, Sight::Offline, widened);
        let Some((due, shown)) = judged else { return };
        findings.presences += 1;
        let pushed = self.first_after(presence.hello, Sight::Online);
        let was_off = self.shown_at(presence.hello) == Some(Sight::Offline);
        // A later one is judged, and may be excused.
        let counts = |at: &Us| *at <= presence.span.start && self.stall_at(*at).is_none();
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
            findings.broken(Promise::LateOnline, self, due, what);
        }
    }

    fn judge_absence(&self, absence: &Absence, findings: &mut Findings) {
        let Some(departure) = absence.after else { return };
        let end = absence.span.end.min(self.until);
        let (start, widened) = (absence.span.start, &mut findings.widened);
        let judged = self.shown_when_due(start, end, Sight::Online, widened);
        let Some((due, shown)) = judged else { return };
        findings.absences += 1;
        let watched_before = self.shown_at(departure.from.after) == Some(Sight::Online);
        if watched_before {
            self.measure_earliest(&departure, end, findings);
        }
        if shown == Sight::Offline {
            let at = self.shown_since(due);
            if watched_before && at <= departure.latest && self.stall_at(at).is_none() {
                let late = at.saturating_sub(departure.counts_from());
                findings.lateness(&departure).latest(late);
            }
            return;
        }
        let told = self.first_after(due, Sight::Offline).filter(|at| *at < end);
        let (promise, seen) = match told {
            None => (Promise::Ghost, "still online".to_owned()),
            Some(at) => {
                let found = findings.lateness(&departure);
                found.latest(at - departure.counts_from());
                found.broken += 1;
                (Promise::LateOffline, format!("offline at {}", secs(at)))
            }
        };
        let what = format!(
            "{} at {}, due offline by {}, {seen}",
            departure.cause.verb(),
            secs(departure.from.by),
            secs(absence.span.start)
        );
        findings.broken(promise, self, due, what);
    }

    /// The end of a session that was the last before a time.
    fn last_departure(&self, at: Us) -> Option<&Departure> {
        self.timeline.departures.iter().rfind(|departure| departure.from.after <= at)
    }

    /// When the user left and was back in time, if that is what an offline told at `at` is about: nothing
    /// ended since, and it would have been told by then.
    fn return_before(&self, at: Us) -> Option<(Us, Us)> {
        let loss = self.timeline.losses.iter().rfind(|loss| loss.left <= at)?;
        let ended_since = self.last_departure(at)?.from.after > loss.left;
        let back = loss.back.filter(|_| !ended_since && at <= loss.latest)?;
        Some((loss.left, back))
    }

    /// How long after its cause an offline was told, where only that cause decides.
    fn measure_earliest(&self, departure: &Departure, end: Us, findings: &mut Findings) {
        let held = match departure.cause {
            Cause::Closed => self.rules.grace,
            Cause::Silent => self.rules.ttl,
            _ => return,
        };
        let (from, not_before) = (departure.from.after, departure.not_before);
        let decides = |presence: &&Presence| {
            presence.span.end == not_before && presence.span.has(from) && from + held == not_before
        };
        let Some(presence) = self.timeline.present.iter().find(decides) else { return };
        let told = self.first_after(from, Sight::Offline).filter(|at| *at < end);
        let Some(at) = told else { return };
        let broken = covers(&presence.span, &self.told_at_widest(at));
        if broken || (at >= not_before && self.stall_at(at).is_none()) {
            let found = findings.earliest.entry(departure.cause).or_default();
            found.earliest(at - from);
            found.broken += u64::from(broken);
        }
    }

    /// Since when is shown without a break what is shown at a time.
    fn shown_since(&self, at: Us) -> Us {
        let before = self.seen.partition_point(|seen| seen.at <= at);
        let last = self.seen[..before].last().map(|seen| seen.what);
        let run = self.seen[..before].iter().rev().take_while(|seen| Some(seen.what) == last);
        run.last().map_or(at, |seen| seen.at)
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
