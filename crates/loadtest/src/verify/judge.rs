//! Holds what watchers were told against the truth. Pure: facts in, findings out.

mod figures;
mod look;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

pub(crate) use figures::{Extreme, Widened};
pub(crate) use look::Look;
use view::View;

use crate::verify::lag::Lag;
use crate::verify::record::{
    Backward, Ending, Facts, Fault, FaultKind, Place, Seen, Span, Us, User,
};
use crate::verify::truth::{Cause, Departure, Excuse, Rules, Timeline};

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
    /// The last time that anybody asked to watch.
    pub(crate) asked: Us,
    pub(crate) faults: Vec<Fault>,
    pub(crate) watchers: Vec<Watcher>,
}

impl Round {
    /// When the last thing is due that must still be told to somebody: also that one of several
    /// sessions began or ended, since devices and status are told as well.
    pub(crate) fn last_deadline(&self, rules: &Rules) -> Us {
        let places: BTreeSet<Place> =
            self.sessions.values().flatten().map(|facts| facts.place).collect();
        let mut last = 0;
        for sessions in self.sessions.values() {
            let all: Vec<&Facts> = sessions.iter().collect();
            for &place in &places {
                let timeline = rules.timeline(&all, &self.faults, place);
                let present = timeline.present.iter().map(|presence| presence.span.start);
                let settled = all.iter().map(|facts| rules.settled(facts, &self.faults, place));
                last = present.chain(settled).max().unwrap_or(0).max(last);
            }
        }
        let answered = places.iter().map(|&place| rules.answered(self.asked, &self.faults, place));
        answered.max().unwrap_or(0).max(last)
    }
}

/// What was measured and found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Offline after the cause: the longest, where no fault excuses it.
    pub(crate) latest: BTreeMap<Cause, Extreme>,
    /// The shortest, where nothing but the cause decides.
    pub(crate) earliest: BTreeMap<Cause, Extreme>,
    /// Silences before a stopped gateway, without the time in which it could not notice.
    pub(crate) after_deafness: Extreme,
    /// What a gateway took with it when it ended, after that.
    pub(crate) untold: Extreme,
    /// Changes that a fault delayed, after its end.
    pub(crate) after_faults: Extreme,
    /// Changes that a hung primary delayed, after it woke.
    pub(crate) after_hangs: Extreme,
    /// What was right only since the machine was busy.
    pub(crate) widened: Widened,
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
                let sessions: Vec<&Facts> =
                    round.sessions.get(&user).into_iter().flatten().collect();
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

    /// Where it is measured how late an offline was.
    fn lateness(&mut self, departure: &Departure) -> &mut Extreme {
        match departure.excuse {
            None => self.latest.entry(departure.cause).or_default(),
            Some(Excuse::Deaf(_)) => &mut self.after_deafness,
            Some(Excuse::Untold(_)) => &mut self.untold,
            Some(Excuse::Healed(_)) => &mut self.after_faults,
            Some(Excuse::Woken(_)) => &mut self.after_hangs,
        }
    }
}

/// A time of the check, for people.
pub(crate) fn secs(at: Us) -> String {
    format!("{:.3} s", at as f64 / 1e6)
}

#[cfg(test)]
mod tests;
