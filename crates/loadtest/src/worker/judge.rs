//! What a state that a watcher was told means, beside what is true of the user. Pure.

use crate::ledger::Truth;
use crate::measures::Timing;

/// How long an *offline* may still arrive after somebody is online again: it was on its way.
const IN_FLIGHT_US: u64 = 1_000_000;

/// Who is back this close to the end of its grace is promised nothing.
const CLOSE_US: u64 = 100_000;

/// The store rounds to milliseconds.
const ROUNDING_US: u64 = 2_000;

/// How long a change may take at the end of a run, when all has been quiet.
const SETTLED_US: u64 = 2_000_000;

/// The gateway's times, as it tells them in `welcome`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) ttl_us: u64,
    pub(crate) grace_us: u64,
}

/// What an *offline* that was pushed is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// So late after the ideal moment, in µs.
    Late(Timing, u64),
    Early,
    FalseOffline,
    FlapShown,
    /// Nothing was promised.
    Unjudged,
}

/// What a view must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Online,
    Offline,
    Either,
}

impl Rules {
    /// When a user who left is shown offline, ideally; never, before it leaves.
    pub(crate) fn ideal_offline(self, truth: Truth) -> u64 {
        match truth {
            Truth::Bye { at } => at,
            Truth::Closed { at } => at + self.grace_us,
            Truth::Silent { at } | Truth::Cut { at } => at + self.ttl_us + self.grace_us,
            Truth::Never => 0,
            Truth::Joining { .. } | Truth::Online { .. } | Truth::Returned { .. } => u64::MAX,
        }
    }

    /// Whether a session is over that gave no sign of life since then.
    pub(crate) fn is_ttl_over(self, alive_us: u64, now: u64) -> bool {
        now + ROUNDING_US >= alive_us + self.ttl_us
    }

    /// What the sessions of a user amount to: online while any is, otherwise as the last one ended.
    pub(crate) fn standing(self, sessions: impl Iterator<Item = Truth>) -> Truth {
        sessions.max_by_key(|truth| self.session_end(*truth)).unwrap_or(Truth::Never)
    }

    /// When a session is over for the gateway.
    fn session_end(self, truth: Truth) -> u64 {
        match truth {
            Truth::Bye { at } | Truth::Closed { at } => at,
            Truth::Silent { at } | Truth::Cut { at } => at + self.ttl_us,
            Truth::Never => 0,
            Truth::Joining { .. } | Truth::Online { .. } | Truth::Returned { .. } => u64::MAX,
        }
    }

    /// What is true of a user whose `hello` was sent at `since` and who was welcomed `now`, after
    /// `before` was true.
    pub(crate) fn welcomed(self, before: Truth, since: u64, now: u64) -> Truth {
        let welcome_after_ms = (now.saturating_sub(since) / 1_000) as u32;
        let graced_until = match before {
            Truth::Closed { .. } | Truth::Silent { .. } => self.ideal_offline(before),
            // Whose session ended, and who was given grace, is the gateway's to know: this long at least.
            Truth::Cut { at } => at + self.grace_us,
            _ => 0,
        };
        if now + CLOSE_US <= graced_until {
            Truth::Returned { since, welcome_after_ms }
        } else {
            let after_offline = self.must_have_been_told(before, since);
            Truth::Online { since, welcome_after_ms, after_offline }
        }
    }

    /// Whether every watcher must know by `now` that a user has left.
    pub(crate) fn must_have_been_told(self, truth: Truth, now: u64) -> bool {
        truth != Truth::Never && self.due(truth, now) == Due::Offline
    }

    /// Judges an *offline* that is read `now`, and may have been there since `heard`: what was
    /// right then is right.
    pub(crate) fn judge_offline(self, truth: Truth, heard: u64, now: u64) -> Verdict {
        let ideal = self.ideal_offline(truth);
        let late = |timing, allowed: u64| {
            if now + ROUNDING_US < allowed {
                Verdict::Early
            } else {
                Verdict::Late(timing, heard.saturating_sub(ideal))
            }
        };
        match truth {
            Truth::Bye { .. } => late(Timing::OfflineBye, ideal),
            Truth::Closed { .. } => late(Timing::OfflineClosed, ideal),
            Truth::Silent { at } => late(Timing::OfflineSilent, at + self.ttl_us),
            Truth::Online { since, welcome_after_ms, .. } => {
                if heard > welcomed_at(since, welcome_after_ms) + IN_FLIGHT_US {
                    Verdict::FalseOffline
                } else {
                    Verdict::Unjudged
                }
            }
            Truth::Returned { since, welcome_after_ms } => {
                let of_the_return = welcomed_at(since, welcome_after_ms) + self.grace_us;
                if heard > of_the_return + IN_FLIGHT_US {
                    Verdict::FalseOffline
                } else {
                    Verdict::FlapShown
                }
            }
            Truth::Never | Truth::Joining { .. } | Truth::Cut { .. } => Verdict::Unjudged,
        }
    }

    /// What every view must show when nothing has been done for a while.
    pub(crate) fn due(self, truth: Truth, now: u64) -> Due {
        match truth {
            Truth::Never => Due::Offline,
            Truth::Joining { .. } => Due::Either,
            Truth::Online { since, welcome_after_ms, .. }
            | Truth::Returned { since, welcome_after_ms } => {
                let welcomed = welcomed_at(since, welcome_after_ms);
                if now > welcomed + SETTLED_US { Due::Online } else { Due::Either }
            }
            left => {
                let settled = self.ideal_offline(left) + SETTLED_US;
                if now > settled { Due::Offline } else { Due::Either }
            }
        }
    }
}

/// Whether what was asked for at this moment has long been answered.
pub(crate) fn is_settled(asked_us: u64, now_us: u64) -> bool {
    now_us > asked_us + SETTLED_US
}

/// Whether a watcher must have been told offline to whom somebody is told online again `now`,
/// online as before. It knows all whom it watches since `listens_us`.
pub(crate) fn is_offline_untold(truth: Truth, listens_us: u64, now: u64) -> bool {
    match truth {
        Truth::Joining { since, after_offline } => after_offline && is_settled(listens_us, since),
        // Later it is not the return that is told.
        Truth::Online { since, welcome_after_ms, after_offline } => {
            after_offline
                && is_settled(listens_us, since)
                && !is_settled(welcomed_at(since, welcome_after_ms), now)
        }
        _ => false,
    }
}

fn welcomed_at(since: u64, welcome_after_ms: u32) -> u64 {
    since + u64::from(welcome_after_ms) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { ttl_us: 30_000_000, grace_us: 3_000_000 };
    const SECOND: u64 = 1_000_000;

    fn online(since: u64, welcome_after_ms: u32) -> Truth {
        Truth::Online { since, welcome_after_ms, after_offline: false }
    }

    /// Of an *offline* that is read as soon as it is there.
    fn judged(truth: Truth, now: u64) -> Verdict {
        RULES.judge_offline(truth, now, now)
    }

    #[test]
    fn what_was_right_when_it_came_is_right_when_it_is_read_late() {
        let at = 100 * SECOND;
        let back = online(at + 5 * SECOND, 0);
        let read = at + 9 * SECOND;
        assert_eq!(RULES.judge_offline(back, at + 4 * SECOND, read), Verdict::Unjudged);
        assert_eq!(RULES.judge_offline(back, at + 7 * SECOND, read), Verdict::FalseOffline);
        let closed = Truth::Closed { at };
        let late = |us| Verdict::Late(Timing::OfflineClosed, us);
        assert_eq!(RULES.judge_offline(closed, at + 3 * SECOND + 7, read), late(7));
        assert_eq!(RULES.judge_offline(closed, at, read), late(0), "nor was it early");
    }

    #[test]
    fn lateness_counts_from_the_ideal_moment_of_each_cause() {
        let at = 100 * SECOND;
        let table = [
            (Truth::Bye { at }, at + 500, Timing::OfflineBye, 500),
            (Truth::Closed { at }, at + 3 * SECOND + 7, Timing::OfflineClosed, 7),
            (Truth::Silent { at }, at + 34 * SECOND, Timing::OfflineSilent, SECOND),
            (Truth::Silent { at }, at + 31 * SECOND, Timing::OfflineSilent, 0),
        ];
        for (truth, now, timing, late) in table {
            assert_eq!(judged(truth, now), Verdict::Late(timing, late), "{truth:?}");
        }
    }

    #[test]
    fn nobody_may_be_shown_offline_before_the_time() {
        let at = 100 * SECOND;
        let early =
            [(Truth::Closed { at }, at + 2 * SECOND), (Truth::Silent { at }, at + 29 * SECOND)];
        for (truth, now) in early {
            assert_eq!(judged(truth, now), Verdict::Early, "{truth:?}");
        }
    }

    #[test]
    fn who_is_back_within_grace_must_not_be_shown_offline_and_later_it_is_false() {
        let closed = Truth::Closed { at: 100 * SECOND };
        let back = RULES.welcomed(closed, 102 * SECOND, 102 * SECOND + 5_000);
        assert_eq!(back, Truth::Returned { since: 102 * SECOND, welcome_after_ms: 5 });
        assert_eq!(judged(back, 103 * SECOND), Verdict::FlapShown);
        assert_eq!(judged(back, 109 * SECOND), Verdict::FalseOffline);
        let late = RULES.welcomed(closed, 102 * SECOND, 103 * SECOND);
        assert_eq!(late, online(102 * SECOND, 1_000));
        assert_eq!(judged(late, 103 * SECOND + 1), Verdict::Unjudged);
        assert_eq!(judged(late, 105 * SECOND), Verdict::FalseOffline);
        let cut = Truth::Cut { at: 100 * SECOND };
        let back = RULES.welcomed(cut, 102 * SECOND, 102 * SECOND);
        assert_eq!(back, Truth::Returned { since: 102 * SECOND, welcome_after_ms: 0 });
        let late = RULES.welcomed(cut, 104 * SECOND, 104 * SECOND);
        assert_eq!(late, online(104 * SECOND, 0));
        let after_bye = RULES.welcomed(Truth::Bye { at: 100 }, 200, 300);
        assert_eq!(after_bye, online(200, 0));
    }

    #[test]
    fn who_was_gone_for_long_must_have_been_shown_offline_to_those_who_listened() {
        let since = 100 * SECOND;
        let back = |before| RULES.welcomed(before, since, since + SECOND);
        let is_untold = |truth| is_offline_untold(truth, 0, since + 2 * SECOND);
        let table = [
            (Truth::Never, false),
            (Truth::Bye { at: 97 * SECOND }, true),
            (Truth::Bye { at: 98 * SECOND }, false),
            (Truth::Closed { at: 94 * SECOND }, true),
            (Truth::Closed { at: 96 * SECOND }, false),
            (Truth::Closed { at: 99 * SECOND }, false),
            (Truth::Silent { at: 64 * SECOND }, true),
            (Truth::Cut { at: 66 * SECOND }, false),
        ];
        for (before, untold) in table {
            assert_eq!(is_untold(back(before)), untold, "{before:?}");
        }
        let joining = |after_offline| Truth::Joining { since, after_offline };
        assert!(is_untold(joining(true)) && !is_untold(joining(false)));
        assert!(!is_offline_untold(joining(true), 98 * SECOND, since));
        let gone = back(Truth::Bye { at: 97 * SECOND });
        let is_untold = |listens_us, now| is_offline_untold(gone, listens_us, now);
        assert!(is_untold(97 * SECOND, since + SECOND));
        assert!(!is_untold(98 * SECOND, since + SECOND));
        assert!(!is_untold(97 * SECOND, since + 4 * SECOND));
    }

    #[test]
    fn of_several_sessions_one_that_lives_or_else_the_last_to_end_decides() {
        let at = 100 * SECOND;
        let online = online(1, 0);
        let bye = Truth::Bye { at: at + SECOND };
        let table = [
            ([Truth::Never, Truth::Never], Truth::Never),
            ([online, bye], online),
            ([Truth::Closed { at }, bye], bye),
            ([bye, Truth::Closed { at: at + 2 * SECOND }], Truth::Closed { at: at + 2 * SECOND }),
            ([Truth::Silent { at }, bye], Truth::Silent { at }),
            ([Truth::Never, Truth::Cut { at }], Truth::Cut { at }),
        ];
        for (sessions, standing) in table {
            assert_eq!(RULES.standing(sessions.into_iter()), standing, "{sessions:?}");
        }
    }

    #[test]
    fn at_the_end_views_must_show_what_is_true_and_settled() {
        let now = 100 * SECOND;
        let table = [
            (Truth::Never, Due::Offline),
            (Truth::Joining { since: 0, after_offline: false }, Due::Either),
            (online(0, 0), Due::Online),
            (online(99 * SECOND, 0), Due::Either),
            (Truth::Bye { at: 97 * SECOND }, Due::Offline),
            (Truth::Closed { at: 97 * SECOND }, Due::Either),
            (Truth::Silent { at: 64 * SECOND }, Due::Offline),
            (Truth::Cut { at: 90 * SECOND }, Due::Either),
        ];
        for (truth, due) in table {
            assert_eq!(RULES.due(truth, now), due, "{truth:?}");
        }
    }
}
