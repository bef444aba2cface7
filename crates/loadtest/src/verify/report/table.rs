//! The report of a check for people: plain text, so that it can be pasted anywhere.

use std::fmt::{self, Write as _};

use crate::report::written::counted;
use crate::verify::judge::{Extreme, Promise};
use crate::verify::record::Us;
use crate::verify::report::{Report, Verdict};
use crate::verify::truth::{Cause, HEAL, PROMPT};

/// When this tool was late by more, it is said.
const LAG_WORTH_A_WORD_MS: f64 = 100.0;

/// The longest title of a row, and two blanks.
const TITLE_LEN: usize = 48;

/// Whether verdicts are coloured, as on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Coloured,
}

impl Report {
    /// Writes it in lines.
    pub(super) fn write_lines(&self, table: &mut Table<'_>) -> fmt::Result {
        self.write_stories(table.text)?;
        writeln!(table.text)?;
        table.line(["promise", "checked", "worst", "bound", "verdict"])?;
        self.write_offline(table)?;
        self.write_online(table)?;
        self.write_counts(table)?;
        self.write_end(table)
    }

    fn write_stories(&self, text: &mut String) -> fmt::Result {
        for story in &self.stories {
            writeln!(text, "\n{}\n{}", story.title, story.history.trim_end())?;
        }
        Ok(())
    }

    fn write_offline(&self, table: &mut Table<'_>) -> fmt::Result {
        let (ttl, grace) = (self.rules.ttl, self.rules.grace);
        let rows = [
            (Cause::Bye, "bye", None, PROMPT),
            (Cause::Closed, "its socket closed", Some(grace), grace + PROMPT),
            (Cause::Silent, "its last sign of life", Some(ttl), ttl + grace + PROMPT),
            (Cause::GatewayLost, "its gateway was killed", None, ttl + grace + PROMPT),
            (Cause::Drained, "its gateway sent it away", None, ttl + grace + PROMPT),
        ];
        for (cause, after, not_before, bound) in rows {
            let found = self.latest.get(&cause).copied().unwrap_or_default();
            table.latest(after, found, bound)?;
            if let Some((found, not_before)) = self.earliest.get(&cause).zip(not_before) {
                let title = format!("offline after {after}, earliest");
                let worst = format!("{} ms", found.worst_us / 1000);
                let bound = limit("≥", not_before);
                table.row(&title, found.checked, &worst, &bound, found.broken)?;
            }
        }
        let lapsed = ttl + grace + PROMPT;
        table.latest("silence, gateway stopped", self.after_deafness, lapsed)?;
        table.latest("its gateway ended untold", self.untold, lapsed)?;
        table.latest("a fault healed", self.after_faults, self.rules.relief())?;
        table.latest("a hung primary woke", self.after_hangs, self.rules.relief_of_hang())?;
        self.write_count(
            table,
            Promise::EarlyOffline,
            "offline earlier than promised",
            self.absences,
        )
    }

    fn write_online(&self, table: &mut Table<'_>) -> fmt::Result {
        let online = &self.online;
        let rows = [("p50", online.p50_ms), ("p99", online.p99_ms), ("latest", online.max_ms)];
        for (name, found_ms) in rows.iter().filter(|_| online.count > 0) {
            let title = format!("online after hello, {name}");
            table.line([
                &title,
                &online.count.to_string(),
                &format!("{found_ms:.0} ms"),
                "",
                "measured",
            ])?;
        }
        self.write_count(table, Promise::LateOnline, "online later than promised", self.presences)
    }

    fn write_counts(&self, table: &mut Table<'_>) -> fmt::Result {
        let rows = [
            (Promise::Flap, "returns within grace that were shown", self.returns),
            (Promise::FalseOffline, "shown offline though alive", self.presences),
            (Promise::Ghost, "ghosts: shown online though gone", self.absences),
            (Promise::Backward, "versions that went backwards", self.states),
            (Promise::LostChange, "lost changes: wrong views when quiet", self.views),
            (Promise::WrongAnswer, "wrong answers to the backend", self.answers),
            (Promise::SocketLost, "sockets closed without a reason", self.presences),
        ];
        for (promise, title, checked) in rows {
            self.write_count(table, promise, title, checked)?;
        }
        let missing = self.broken_times(Promise::KeysMissing);
        let checked = self.keys_back.checked + missing;
        if checked > 0 {
            let worst =
                if self.keys_back.checked > 0 { ms(self.keys_back) } else { "-".to_owned() };
            let bound = limit("≤", HEAL);
            table.row("all keys back in Redis", checked, &worst, &bound, missing)?;
        }
        Ok(())
    }

    fn write_count(
        &self,
        table: &mut Table<'_>,
        promise: Promise,
        title: &str,
        checked: u64,
    ) -> fmt::Result {
        let broken = self.broken_times(promise);
        table.row(title, checked, &broken.to_string(), "0", broken)
    }

    fn write_end(&self, table: &mut Table<'_>) -> fmt::Result {
        let text = &mut *table.text;
        for (refusal, count) in &self.refusals {
            writeln!(text, "{count:>8}  {refusal}")?;
        }
        let late_ms = self.lag_ms + self.starved_ms;
        if late_ms > LAG_WORTH_A_WORD_MS || self.widened.verdicts > 0 {
            writeln!(
                text,
                "\nThis machine was busy: this tool was late by up to {:.0} ms, and a gateway or \
                 Redis waited for a CPU for\nup to {:.0} ms of a second. The bounds were \
                 widened by as much where that was so: {}.",
                self.lag_ms,
                self.starved_ms,
                self.hung()
            )?;
        }
        let verdict = match self.verdict() {
            Verdict::Kept => table.kept("Every promise was kept"),
            Verdict::Broken => {
                let times = counted(self.violations(), "time");
                table.broken(&format!("PROMISES WERE BROKEN, {times}"))
            }
            Verdict::TooBusy => {
                let times = counted(self.widened.too_far, "time");
                table.broken(&format!("THIS MACHINE WAS TOO BUSY TO JUDGE, {times}"))
            }
            Verdict::Stopped => "Stopped early; every promise was kept so far".to_owned(),
        };
        writeln!(
            table.text,
            "\n{verdict}: {} told, {} checked, in {:.0} s.\nAgain: {}",
            counted(self.states, "state"),
            counted(self.presences + self.absences, "change"),
            self.seconds,
            self.replay,
        )
    }

    /// What came of widening the bounds.
    fn hung(&self) -> String {
        match self.widened.verdicts {
            0 => "no verdict hung on it".to_owned(),
            times => format!(
                "{} hung on it, by up to {} ms, and no row has their figures",
                counted(times, "verdict"),
                self.widened.most_us.div_ceil(1000)
            ),
        }
    }

    fn broken_times(&self, promise: Promise) -> u64 {
        self.broken.get(&promise).copied().unwrap_or(0)
    }
}

/// The text so far, and how to go on.
pub(super) struct Table<'a> {
    pub(super) text: &'a mut String,
    pub(super) paint: Paint,
}

impl Table<'_> {
    fn latest(&mut self, after: &str, found: Extreme, bound: Us) -> fmt::Result {
        if found.checked == 0 {
            return Ok(());
        }
        let title = format!("offline after {after}, latest");
        self.row(&title, found.checked, &ms(found), &limit("≤", bound), found.broken)
    }

    fn row(
        &mut self,
        title: &str,
        checked: u64,
        worst: &str,
        bound: &str,
        broken: u64,
    ) -> fmt::Result {
        let verdict = match (broken, checked) {
            (0, 0) => "not checked".to_owned(),
            (0, _) => self.kept("kept"),
            (times, _) => self.broken(&format!("BROKEN ({times})")),
        };
        self.line([title, &checked.to_string(), worst, bound, &verdict])
    }

    fn line(&mut self, [title, checked, worst, bound, verdict]: [&str; 5]) -> fmt::Result {
        writeln!(self.text, "{title:<TITLE_LEN$}{checked:>10}{worst:>14}{bound:>14}  {verdict}")
    }

    /// Green.
    fn kept(&self, verdict: &str) -> String {
        self.painted(verdict, "32")
    }

    /// Bold red.
    fn broken(&self, verdict: &str) -> String {
        self.painted(verdict, "1;31")
    }

    fn painted(&self, text: &str, colour: &str) -> String {
        match self.paint {
            Paint::Plain => text.to_owned(),
            Paint::Coloured => format!("\x1b[{colour}m{text}\x1b[0m"),
        }
    }
}

/// Rounded up, so that what is late by less than a millisecond is not shown as its bound.
fn ms(found: Extreme) -> String {
    format!("{} ms", found.worst_us.div_ceil(1000))
}

fn limit(sign: &str, bound: Us) -> String {
    format!("{sign} {} ms", bound / 1000)
}

#[cfg(test)]
mod tests;
