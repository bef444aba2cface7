//! What a run amounts to, in one sentence for who reads no further.
//!
//! The page, the table and the exit code all take it from here, so that they agree.

use super::promises::Outcome;
use super::{Ending, PLANNED, Report, names, written};

/// When the tester itself was this late, latencies are not the server's alone.
pub(crate) const LATENESS_WORTH_A_WORD_MS: f64 = 20.0;

/// One look at the whole run.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) tone: Tone,
    pub(crate) headline: String,
    /// What the headline has to be read with.
    pub(crate) remarks: Vec<String>,
}

/// How good the news is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// All promises were kept, nothing failed, and the run was complete.
    Clean,
    /// No promise was broken, but something else went wrong.
    Flawed,
    Broken,
}

impl Report {
    pub(crate) fn verdict(&self) -> Verdict {
        let findings = self.findings();
        let broken = findings.iter().filter(|finding| finding.outcome == Outcome::Broken);
        let broken: Vec<_> = broken.collect();
        let went_wrong = self.went_wrong();
        let remarks = self.remarks();
        if !broken.is_empty() {
            let were =
                if broken.len() == 1 { "promise was broken" } else { "promises were broken" };
            let headline = format!("{} {were}.", broken.len());
            let broken = broken
                .iter()
                .map(|finding| format!("“{}”: found {}.", finding.promise, finding.found));
            let also = went_wrong.iter().map(|what| format!("Also, {what}."));
            let remarks = broken.chain(also).chain(remarks).collect();
            return Verdict { tone: Tone::Broken, headline, remarks };
        }
        let kept = if findings.iter().all(|finding| finding.outcome == Outcome::NotTried) {
            "No promise was put to the test"
        } else {
            "Every promise was kept"
        };
        if went_wrong.is_empty() {
            let headline = format!("{kept}, and no connection was lost.");
            return Verdict { tone: Tone::Clean, headline, remarks };
        }
        let headline = format!("{kept}, but {}.", went_wrong.join(" and "));
        Verdict { tone: Tone::Flawed, headline, remarks }
    }

    /// What is no broken promise, and should not have been.
    fn went_wrong(&self) -> Vec<String> {
        let ending = match self.ending {
            Ending::Complete => None,
            Ending::Interrupted if self.never_up() == 0 => None,
            Ending::Interrupted => {
                Some("the run was stopped before every connection came up".to_owned())
            }
            Ending::NobodyLeft => Some("in the end no connection was left".to_owned()),
            Ending::WorkerLost => Some("a process of the tester was lost".to_owned()),
        };
        let nobody =
            (self.count(names::CONNECTED) == 0).then(|| "nobody ever connected".to_owned());
        // Of a run that was stopped, and of a process that died, it is not known what would have been.
        let never_up = match self.ending {
            Ending::Complete | Ending::NobodyLeft => self.never_up(),
            Ending::Interrupted | Ending::WorkerLost => 0,
        };
        let failed = self.count(names::FAILED);
        let [dropped, lost] = [names::DROPPED, names::LOST].map(|name| self.count(name));
        let [watches, messages, pings] =
            [names::WATCHES_REFUSED, names::MESSAGES_REFUSED, names::UNANSWERED_PINGS]
                .map(|name| self.count(name));
        let counted = [
            (failed, "connection failed to connect", "connections failed to connect"),
            (
                never_up.saturating_sub(failed),
                "connection never came up",
                "connections never came up",
            ),
            (dropped, "connection was lost", "connections were lost"),
            (lost, "connection was lost and came again", "connections were lost and came again"),
            (watches, "watch was refused", "watches were refused"),
            (messages, "message was refused", "messages were refused"),
            (pings, "Ping was not answered", "Pings were not answered"),
        ];
        let counted = counted.iter().filter(|(number, ..)| *number > 0);
        let counted = counted.map(|(number, one, many)| {
            format!("{} {}", written::count(*number), if *number == 1 { one } else { many })
        });
        ending.into_iter().chain(nobody).chain(counted).collect()
    }

    /// Connections that were to be made, and were there at no time.
    fn never_up(&self) -> u64 {
        self.count(PLANNED).saturating_sub(self.count(names::CAME_UP))
    }

    fn remarks(&self) -> Vec<String> {
        let late = self.timing(names::TESTER_LATE);
        let late = late.filter(|late| late.p99_ms > LATENESS_WORTH_A_WORD_MS);
        let late = late.map(|late| {
            format!(
                "The tester was late itself, by {} at the 99th percentile: latencies are not the \
                 server's alone.",
                written::ms(late.p99_ms)
            )
        });
        let is_early = self.ending == Ending::Interrupted && self.never_up() == 0;
        let early = is_early.then(|| "The run was stopped early.".to_owned());
        early.into_iter().chain(late).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_run_in_which_nothing_went_wrong_is_clean() {
        let verdict = sample::report().verdict();
        assert_eq!(verdict.tone, Tone::Clean);
        assert_eq!(verdict.headline, "Every promise was kept, and no connection was lost.");
        assert!(verdict.remarks.is_empty());
    }

    #[test]
    fn what_went_wrong_without_breaking_a_promise_is_in_the_headline() {
        let mut report = sample::report();
        report.ending = Ending::Interrupted;
        report.counts.insert(names::CAME_UP.to_owned(), 700);
        report.counts.insert(names::FAILED.to_owned(), 1_200);
        let verdict = report.verdict();
        assert_eq!(verdict.tone, Tone::Flawed);
        assert_eq!(
            verdict.headline,
            "Every promise was kept, but the run was stopped before every connection came up and \
             1,200 connections failed to connect."
        );
    }

    #[test]
    fn a_run_that_was_stopped_early_is_clean_once_every_connection_was_up() {
        let mut report = sample::report();
        report.ending = Ending::Interrupted;
        let verdict = report.verdict();
        assert_eq!(verdict.tone, Tone::Clean);
        assert_eq!(verdict.remarks, ["The run was stopped early."]);
        report.counts.insert(names::CAME_UP.to_owned(), 999);
        // Others have come twice.
        report.counts.insert(names::CONNECTED.to_owned(), 1_200);
        assert_eq!(report.verdict().tone, Tone::Flawed);
    }

    #[test]
    fn whatever_went_wrong_is_told_and_makes_a_run_no_success() {
        for (count, number, told) in [
            (names::CAME_UP, 999, "1 connection never came up"),
            (names::LOST, 2, "2 connections were lost and came again"),
            (names::WATCHES_REFUSED, 1_000, "1,000 watches were refused"),
            (names::MESSAGES_REFUSED, 1, "1 message was refused"),
            (names::UNANSWERED_PINGS, 1, "1 Ping was not answered"),
        ] {
            let mut report = sample::report();
            report.counts.insert(count.to_owned(), number);
            let verdict = report.verdict();
            assert_eq!(verdict.tone, Tone::Flawed);
            assert!(verdict.headline.contains(told), "{verdict:?}");
        }
    }

    #[test]
    fn a_late_tester_is_told() {
        let mut report = sample::report();
        sample::timing(&mut report, names::TESTER_LATE).p99_ms = 35.0;
        assert!(report.verdict().remarks[0].contains("35.0 ms"));
    }
}
