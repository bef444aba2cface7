//! Holds what watchers were told against the truth. Pure: facts in, findings out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use presence_protocol::Show;
use serde::Serialize;

use crate::verify::lag::Lag;
use crate::verify::record::{
    Backward, Ending, Facts, Fault, FaultKind, Place, Seen, SetStatus, Sight, Span, Us, User,
};
use crate::verify::truth::{Absence, Cause, Departure, Excuse, Presence, Rules, Timeline};

/// Two statuses that were set so close together have no order that others must agree on.
const STATUS_ORDER_MIN: Us = 1_000_000;

/// A client that did not read for a while has read all after so long.
const CATCH_UP: Us = 500_000;

/// What can be found broken. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Promise {
    /// Offline is told in time.
    LateOffline,
    /// Offline is not told too early.
    EarlyOffline,
    /// Online is told in time.
    LateOnline,
    /// Who comes back within grace was never away.
    Flap,
    /// Nobody who lives is shown offline.
    FalseOffline,
    /// Nobody who is gone is shown online.
    Ghost,
    Backward,
    /// Once all is quiet, every view is the truth.
    LostChange,
    /// The backend's look-up is the truth too.
    WrongAnswer,
    /// No gateway closes a living client's socket.
    SocketLost,
    /// Redis knows every user again soon after it is back.
    KeysMissing,
}

/// A promise that was broken, for a user and before a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) user: Option<User>,
    /// The connection that was told, as it is numbered in the round.
    pub(crate) watcher: Option<usize>,
    pub(crate) at: Us,
    /// What was seen, and what would have been right.
    pub(crate) what: String,
}

/// The connection of a watcher, and all that it was told in a round.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) seen: Vec<Seen>,
    pub(crate) backward: Vec<Backward>,
    /// Times in which it did not read.
    pub(crate) stalls: Vec<Span>,
    /// When it stopped reading for good.
    pub(crate) until: Us,
}

/// All that is known of a round that has become quiet.
#[derive(Debug)]
pub(crate) struct Round {
    /// Until when it is judged.
    pub(crate) end: Us,
    pub(crate) sessions: HashMap<User, Vec<Facts>>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) watchers: Vec<Watcher>,
}

impl Round {
    /// When the last thing is due that must still be told to somebody.
    pub(crate) fn last_deadline(&self, rules: &Rules) -> Us {
        let places = self.sessions.values().flatten().map(|facts| facts.place);
        let places: BTreeSet<Place> = places.collect();
        let mut last = 0;
        for sessions in self.sessions.values() {
            let sessions: Vec<&Facts> = sessions.iter().collect();
            for &place in &places {
                let timeline = rules.timeline(&sessions, &self.faults, place);
                let present = timeline.present.iter().map(|presence| presence.span.start);
                let absent = timeline.absent.iter().map(|absence| absence.span.start);
                last = present.chain(absent).max().unwrap_or(0).max(last);
            }
        }
        last
    }
}

/// How early or late something was, against its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Extreme {
    pub(crate) checked: u64,
    pub(crate) worst_us: Us,
}

/// What was measured and found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Offline after the cause: the longest, where no fault excuses it.
    pub(crate) latest: BTreeMap<Cause, Extreme>,
    /// The shortest.
    pub(crate) earliest: BTreeMap<Cause, Extreme>,
    /// Changes that a fault delayed, after its end.
    pub(crate) after_faults: Extreme,
    /// From `hello` to a watcher's push, each.
    pub(crate) online_us: Vec<Us>,
    /// Returns within grace, as watchers had them before their eyes.
    pub(crate) returns: u64,
    /// States that were told.
    pub(crate) states: u64,
    /// Times in which users had to be seen online, by all watchers together.
    pub(crate) presences: u64,
    pub(crate) absences: u64,
}

impl Extreme {
    pub(crate) fn latest(&mut self, late: Us) {
        self.checked += 1;
        self.worst_us = self.worst_us.max(late);
    }

    fn earliest(&mut self, early: Us) {
        self.checked += 1;
        self.worst_us = if self.checked == 1 { early } else { self.worst_us.min(early) };
    }

    /// Takes in what another round found.
    pub(crate) fn merge(&mut self, other: Self, worse: fn(Us, Us) -> Us) {
        self.worst_us = match (self.checked, other.checked) {
            (0, _) => other.worst_us,
            (_, 0) => self.worst_us,
            _ => worse(self.worst_us, other.worst_us),
        };
        self.checked += other.checked;
    }
}

/// Judges a round.
pub(crate) fn judge(rules: &Rules, lag: &Lag, round: &Round) -> Findings {
    let mut findings = Findings::default();
    lost_sockets(rules, round, &mut findings);
    let mut timelines: HashMap<(User, Place), Timeline> = HashMap::new();
    for (number, watcher) in round.watchers.iter().enumerate() {
        findings.backward(number, watcher);
        let mut seen = watcher.seen.clone();
        seen.sort_by_key(|seen| seen.user);
        for of_user in seen.chunk_by(|a, b| a.user == b.user) {
            let user = of_user[0].user;
            let timeline = timelines.entry((user, watcher.place)).or_insert_with(|| {
                let sessions: Vec<&Facts> = round.sessions.get(&user).into_iter().flatten().collect();
                rules.timeline(&sessions, &round.faults, watcher.place)
            });
            let until = watcher.until.min(round.end);
            let stalls = &watcher.stalls;
            View { rules, lag, timeline, stalls, number, user, until, seen: of_user }
                .judge(&mut findings);
        }
    }
    findings
}

/// A gateway may close a socket when it drains, and when nothing was heard of the client for TTL.
fn lost_sockets(rules: &Rules, round: &Round, findings: &mut Findings) {
    for facts in round.sessions.values().flatten() {
        let Some((end, Ending::Cut(code))) = facts.end else { continue };
        if facts.welcome.is_none() {
            continue;
        }
        let excused = round.faults.iter().any(|fault| {
            let ends = matches!(fault.kind, FaultKind::GatewayKill | FaultKind::GatewayRestart);
            let deaf = fault.kind == FaultKind::GatewayPause;
            (ends || deaf)
                && fault.place == Some(facts.place)
                && fault.from.after <= end.by
                && end.after <= fault.until().saturating_add(rules.relief())
        });
        let silent = facts.silences.iter().any(|silence| silence.end + rules.ttl > end.after)
            || end.by > facts.beat.after + rules.ttl;
        if !excused && !silent {
            let code = code.map_or_else(|| "no close frame".to_owned(), |code| code.to_string());
            findings.violations.push(Violation {
                promise: Promise::SocketLost,
                user: Some(facts.user),
                watcher: None,
                at: end.by,
                what: format!("gateway {} closed a living session ({code})", facts.place + 1),
            });
        }
    }
}

/// What one connection was told of one user.
struct View<'a> {
    rules: &'a Rules,
    lag: &'a Lag,
    timeline: &'a Timeline,
    stalls: &'a [Span],
    number: usize,
    user: User,
    until: Us,
    seen: &'a [Seen],
}

impl View<'_> {
    fn judge(&self, findings: &mut Findings) {
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
        let watched = |&&(left, back): &&(Us, Us)| {
            self.shown_at(left) == Some(Sight::Online) && back < self.until
        };
        findings.returns += self.timeline.returns.iter().filter(watched).count() as u64;
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
        due + self.lag.around(due)
    }

    fn judge_offline(&self, seen: &Seen, findings: &mut Findings) {
        let read = self.told(seen.at);
        let wrong = self.timeline.present.iter().find(|presence| covers(&presence.span, &read));
        let Some(presence) = wrong else { return };
        // Told before, and repeated only: that it is late is judged where it was due.
        if self.shown_at(seen.at - 1) == Some(Sight::Offline) {
            return;
        }
        let around = |&&(left, back): &&(Us, Us)| {
            left <= seen.at && seen.at <= back + self.rules.relief()
        };
        let returned = self.timeline.returns.iter().find(around);
        let (promise, what) = match returned {
            Some(&(left, back)) => (
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
            None => (
                Promise::EarlyOffline,
                format!("shown offline before {}", secs(presence.span.end)),
            ),
        };
        findings.broken(promise, self, seen.at, what);
    }

    fn judge_online(&self, seen: &Seen, findings: &mut Findings) {
        let read = self.told(seen.at);
        let wrong = self.timeline.absent.iter().find(|absence| covers(&absence.span, &read));
        let Some(absence) = wrong else { return };
        if self.shown_at(seen.at - 1) == Some(Sight::Online) {
            return;
        }
        let what = format!("shown online though gone since {}", secs(absence.span.start));
        findings.broken(Promise::Ghost, self, seen.at, what);
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
        if let Some(at) = pushed.filter(|at| was_off && *at < presence.span.end) {
            if !presence.excused && self.stall_at(at).is_none() {
                findings.online_us.push(at - presence.hello);
            }
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
            let seen = told.map_or("still online".to_owned(), |at| format!("offline at {}", secs(at)));
            let what = format!(
                "{} at {}, due offline by {}, {seen}",
                departure.cause.verb(),
                secs(departure.from.by),
                secs(absence.span.start)
            );
            let promise = if told.is_none() { Promise::Ghost } else { Promise::LateOffline };
            findings.broken(promise, self, due, what);
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

/// A time of the check, for people.
pub(crate) fn secs(at: Us) -> String {
    format!("{:.3} s", at as f64 / 1e6)
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

impl Findings {
    fn backward(&mut self, number: usize, watcher: &Watcher) {
        for backward in &watcher.backward {
            self.states += 1;
            self.violations.push(Violation {
                promise: Promise::Backward,
                user: Some(backward.user),
                watcher: Some(number),
                at: backward.at,
                what: format!("version {} after {}", backward.version, backward.newer),
            });
        }
    }

    fn broken(&mut self, promise: Promise, view: &View<'_>, at: Us, what: String) {
        let (user, watcher) = (Some(view.user), Some(view.number));
        self.violations.push(Violation { promise, user, watcher, at, what });
    }
}

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
        statuses.sort_unstable_by_key(|status| std::cmp::Reverse(status.set.after));
        let status = match statuses.as_slice() {
            [] => Some((Show::Online, String::new())),
            [latest, next, ..] if next.set.by + STATUS_ORDER_MIN > latest.set.after => None,
            [latest, ..] => Some((latest.show, latest.text.clone())),
        };
        Some(Self { online: living().next().is_some(), devices, status })
    }

    /// What is wrong with a state, if anything is.
    pub(crate) fn mismatch(&self, state: &presence_protocol::UserState) -> Option<String> {
        let online = state.state == presence_protocol::Availability::Online;
        let devices: Vec<&str> = state.devices.iter().map(|device| device.as_str()).collect();
        let show = state.show.unwrap_or(Show::Online);
        let text = state.text.as_ref().map_or("", |text| text.as_str());
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

#[cfg(test)]
mod tests;
