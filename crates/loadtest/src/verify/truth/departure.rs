//! When a session stops counting: the table of the promised times, and what faults make of it. Pure.

use crate::verify::record::{Ending, Facts, Fault, FaultKind, Moment, Place, Us};
use crate::verify::truth::{HEAL, PROMPT, Rules, is_death};

/// A TCP connection that breaks because of a kill breaks at most so long after it.
const BREAK_MAX: Us = 2_000_000;

/// The close code of a session that was silent for the TTL.
const NO_HEARTBEAT: u16 = 4004;

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

/// Why a change may be late, and what its time counts from instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// A fault that ended then.
    Healed(Us),
    /// The gateway that knew of it died.
    Untold(Us),
    /// Its gateway was stopped, and could not notice the silence: that counts from later.
    Deaf(Us),
    /// A primary that hung, and woke then.
    Woken(Us),
}

impl Departure {
    /// What `latest` counts from.
    pub(crate) fn counts_from(&self) -> Us {
        match self.excuse {
            None => self.from.by,
            Some(
                Excuse::Healed(from)
                | Excuse::Untold(from)
                | Excuse::Deaf(from)
                | Excuse::Woken(from),
            ) => from,
        }
    }
}

impl Rules {
    /// When a session stops counting; none while it lives.
    pub(super) fn departure(
        &self,
        facts: &Facts,
        faults: &[Fault],
        watcher: Place,
    ) -> Option<Departure> {
        let (end, ending) = facts.end?;
        let Self { ttl, grace, .. } = *self;
        let silent = facts.beat.after + ttl;
        let killed = faults.iter().find(|fault| kills(fault, facts.place, end));
        let mut excuse = None;
        let (cause, from, not_before, latest) = match (ending, killed) {
            (Ending::Bye, _) => (Cause::Bye, end, end.after, end.by + PROMPT),
            (Ending::Closed, _) => (Cause::Closed, end, end.after + grace, end.by + grace + PROMPT),
            (Ending::Frozen, _) | (Ending::Cut(Some(NO_HEARTBEAT)), None) => {
                let deaf = deaf_time(faults, facts.place, facts.beat.by, ttl);
                let heard_until = facts.beat.by.saturating_add(deaf);
                excuse = (deaf > 0).then_some(Excuse::Deaf(heard_until));
                let latest = heard_until.saturating_add(ttl + grace + PROMPT);
                (Cause::Silent, facts.beat, silent, latest)
            }
            (Ending::Cut(_), Some(kill)) => {
                let heard = facts.heard_before(kill.from.after) + ttl;
                (Cause::GatewayLost, kill.from, heard, kill.from.by + ttl + grace + PROMPT)
            }
            (Ending::Cut(_), None) => {
                // A client that does not read learns of it when its gateway has long ended.
                let gone = drained_by(faults, facts);
                let sent_away = Moment { after: end.after.min(gone), ..end };
                let heard = facts.beat_before.min(gone) + ttl;
                (Cause::Drained, sent_away, heard, end.by + ttl + grace + PROMPT)
            }
        };
        let mut departure = Departure { cause, from, not_before, latest, excuse };
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
        let start = departure.from.after;
        let mut deaths = faults.iter().filter(|fault| is_death(fault, facts.place));
        let left_behind = matches!(departure.cause, Cause::GatewayLost | Cause::Drained)
            || deaths.any(|death| is_around(death, start, departure.latest));
        for fault in faults {
            let untold = is_death(fault, facts.place) && is_around(fault, start, departure.latest);
            if untold && departure.cause != Cause::GatewayLost {
                let gone = departure.from.by.max(gone(fault, faults));
                let lapsed = gone.saturating_add(self.ttl + self.grace + PROMPT);
                if lapsed > departure.latest {
                    (departure.latest, departure.excuse) = (lapsed, Some(Excuse::Untold(gone)));
                }
            }
            // Also if Redis was back just before: the gateway had no time to tell it everything again.
            let lost = left_behind && self.forgets(fault);
            if lost && is_around(fault, start.saturating_sub(HEAL), departure.not_before) {
                departure.not_before = fault.from.after.max(start);
            }
            let untold = fault.kind == FaultKind::RedisKill
                && is_around(fault, start.saturating_sub(HEAL), start);
            if untold {
                departure.not_before = departure.not_before.min(start.max(fault.until()));
            }
            let here = [facts.place, watcher];
            if let Some(excused) = self.excuse(fault, here, start, departure.latest) {
                let excuse = match fault.kind {
                    FaultKind::ClusterHang => Excuse::Woken(fault.until()),
                    _ => Excuse::Healed(fault.until()),
                };
                (departure.latest, departure.excuse) = (excused, Some(excuse));
            }
        }
    }
}

impl Rules {
    /// Redis does not know any more after this fault who was alive before it.
    fn forgets(&self, fault: &Fault) -> bool {
        match fault.kind {
            FaultKind::RedisKill => true,
            // Keys are renewed every 3/4 of the TTL, and expire; a replica is told of them by its primary.
            FaultKind::RedisPause | FaultKind::ClusterHang => {
                fault.until() > fault.from.after + self.ttl / 4
            }
            _ => false,
        }
    }
}

impl Facts {
    /// The last sign of life that a gateway which was gone at `gone` can have heard.
    fn heard_before(&self, gone: Us) -> Us {
        if self.beat.after <= gone { self.beat.after } else { self.beat_before.min(gone) }
    }
}

/// It began by the end of this time, and was not over at its beginning.
fn is_around(fault: &Fault, start: Us, end: Us) -> bool {
    fault.from.after <= end && fault.until() >= start
}

/// When a gateway that ends by this fault is surely gone. One that drains while Redis is away may find nobody to tell of
/// its users, and lives until then all the same.
fn gone(death: &Fault, faults: &[Fault]) -> Us {
    let is_away = |fault: &Fault| {
        matches!(fault.kind, FaultKind::RedisKill | FaultKind::RedisPause)
            && is_around(fault, death.from.after.saturating_sub(HEAL), death.until())
    };
    let drains = death.kind == FaultKind::GatewayRestart && faults.iter().any(is_away);
    if drains { death.until() } else { death.from.by }
}

/// When the gateway of a session had drained and ended; never where it did not.
fn drained_by(faults: &[Fault], facts: &Facts) -> Us {
    let drains = faults.iter().filter(|fault| {
        fault.kind == FaultKind::GatewayRestart
            && fault.place == Some(facts.place)
            && fault.from.after >= facts.hello
    });
    drains.map(Fault::until).min().unwrap_or(Us::MAX)
}

/// A session that broke at `end` did so because its gateway was killed.
fn kills(fault: &Fault, place: Place, end: Moment) -> bool {
    fault.kind == FaultKind::GatewayKill
        && fault.place == Some(place)
        && fault.from.after <= end.by
        && end.after <= fault.from.by + BREAK_MAX
}

/// For how long the gateway was stopped, or worked off what had come meanwhile, while it should have noticed a silence.
fn deaf_time(faults: &[Fault], place: Place, silent_since: Us, ttl: Us) -> Us {
    let pauses = faults.iter().filter(|fault| fault.kind == FaultKind::GatewayPause);
    let mut deaf: Us = 0;
    for pause in pauses.filter(|pause| pause.place == Some(place)) {
        let noticed = (silent_since + ttl).saturating_add(deaf);
        if pause.from.after <= noticed && pause.until() > silent_since {
            let stopped = pause.until().saturating_sub(pause.from.after.max(silent_since));
            deaf = deaf.saturating_add(stopped).saturating_add(PROMPT);
        }
    }
    deaf
}
