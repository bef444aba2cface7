//! The promises that a run can break, and what became of each.

use super::{Report, names, written};

/// How late an offline may be shown after its ideal moment.
const OFFLINE_LATE_MAX_MS: f64 = 1000.0;

/// One promise, and what became of it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) promise: &'static str,
    /// What was found: how often it was broken, or the worst.
    pub(crate) found: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Kept,
    Broken,
    /// The run did nothing that could have broken it.
    NotTried,
}

/// A promise that something never is: the name of its count, what is promised, and the names of the
/// counts of what could have broken it, all together.
struct Never {
    count: &'static str,
    promise: &'static str,
    tried_by: &'static [&'static str],
}

const NEVER: [Never; 6] = [
    Never {
        count: names::FALSE_OFFLINE,
        promise: "Nobody is shown offline who is online",
        tried_by: &[names::SNAPSHOT_STATES],
    },
    Never {
        count: names::EARLY_OFFLINE,
        promise: "Nobody is shown offline early",
        tried_by: &[names::PUSHED_OFFLINE],
    },
    Never {
        count: names::FLAPS_SHOWN,
        promise: "Who comes back within grace causes no flicker",
        tried_by: &[names::RETURNED_IN_GRACE, names::SNAPSHOT_STATES],
    },
    Never {
        count: names::BACKWARD,
        promise: "No dot moves backwards in time",
        tried_by: &[names::SNAPSHOT_STATES],
    },
    Never {
        count: names::LOST_CHANGES,
        promise: "No change is lost: who is gone is shown offline, and every view is right in the end",
        tried_by: &[names::VIEWS],
    },
    Never {
        count: names::SILENT_UNTOLD,
        promise: "Every silent death is told",
        tried_by: &[names::SILENT_TOLD],
    },
];

/// The names of the counts of which each is a broken promise.
pub(crate) fn never() -> impl Iterator<Item = &'static str> {
    NEVER.iter().map(|never| never.count)
}

impl Finding {
    fn not_tried(promise: &'static str) -> Self {
        Self { promise, found: "–".to_owned(), outcome: Outcome::NotTried }
    }
}

impl Report {
    /// Every promise that a run can break.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let never = NEVER.iter().map(|&Never { count, promise, tried_by }| {
            let is_tried = tried_by.iter().all(|name| self.count(name) > 0);
            match self.count(count) {
                0 if !is_tried => Finding::not_tried(promise),
                0 => Finding { promise, found: "0".to_owned(), outcome: Outcome::Kept },
                found => {
                    let found = written::count(found);
                    Finding { promise, found, outcome: Outcome::Broken }
                }
            }
        });
        never.chain([self.offline_on_time()]).collect()
    }

    /// What the tester may have been late itself to hear of it is left out of the timings.
    fn offline_on_time(&self) -> Finding {
        let promise = "Offline is shown within 1 s of its time";
        let untold = self.count(names::OFFLINE_UNTOLD);
        if untold > 0 {
            let found = format!("{} never shown", written::count(untold));
            return Finding { promise, found, outcome: Outcome::Broken };
        }
        let late = self.timings.iter().filter(|timing| timing.count > 0);
        let late = late.filter(|timing| names::OFFLINE.contains(&timing.name.as_str()));
        let Some(worst_ms) = late.map(|timing| timing.max_ms).reduce(f64::max) else {
            return Finding::not_tried(promise);
        };
        let outcome = if worst_ms <= OFFLINE_LATE_MAX_MS { Outcome::Kept } else { Outcome::Broken };
        Finding { promise, found: written::ms(worst_ms), outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::verdict::Tone;
    use super::*;

    #[test]
    fn every_count_of_what_must_never_be_breaks_its_promise() {
        for Never { count, promise, .. } in NEVER {
            let mut report = sample::report();
            report.counts.insert(count.to_owned(), 2);
            let broken = report.findings();
            let broken: Vec<_> =
                broken.iter().filter(|finding| finding.outcome == Outcome::Broken).collect();
            assert_eq!((broken.len(), broken[0].promise), (1, promise));
            assert_eq!(report.verdict().tone, Tone::Broken);
        }
    }

    #[test]
    fn a_promise_that_nothing_could_have_broken_was_not_tried() {
        for Never { promise, tried_by, .. } in NEVER {
            for name in tried_by {
                let mut report = sample::report();
                report.counts.insert((*name).to_owned(), 0);
                let finding = report.findings().into_iter().find(|found| found.promise == promise);
                assert_eq!(finding.unwrap().outcome, Outcome::NotTried, "{promise}");
                assert_eq!(report.verdict().tone, Tone::Clean);
            }
        }
    }

    #[test]
    fn an_offline_may_be_late_by_a_second_however_late_the_tester_was_at_some_time() {
        let mut report = sample::report();
        let outcome = |report: &Report| report.offline_on_time().outcome;
        sample::timing(&mut report, names::TESTER_LATE).max_ms = 5_000.0;
        sample::timing(&mut report, "offline, closed").max_ms = 1_000.0;
        assert_eq!(outcome(&report), Outcome::Kept);
        sample::timing(&mut report, "offline, closed").max_ms = 1_001.0;
        assert_eq!(outcome(&report), Outcome::Broken);
        report.timings.retain(|timing| !names::OFFLINE.contains(&timing.name.as_str()));
        assert_eq!(outcome(&report), Outcome::NotTried);
        report.counts.insert(names::OFFLINE_UNTOLD.to_owned(), 1);
        assert_eq!(outcome(&report), Outcome::Broken, "it was never shown");
    }
}
