//! The report of a check for people: plain text, so that it can be pasted anywhere.

use std::fmt::{self, Write as _};

use crate::verify::judge::{Extreme, Promise};
use crate::verify::record::Us;
use crate::verify::report::Report;
use crate::verify::truth::{Cause, HEAL, PROMPT};

/// When this tool was late by more, it is said.
const LAG_WORTH_A_WORD_MS: f64 = 100.0;

const ONLINE_AGAIN: &str = "shown offline though alive";

impl Report {
    /// The whole report in lines.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes any text");
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        self.write_stories(text)?;
        writeln!(
            text,
            "\n{:<42}{:>10}{:>14}{:>14}  verdict",
            "promise", "checked", "worst", "bound"
        )?;
        self.write_offline(text)?;
        self.write_online(text)?;
        self.write_counts(text)?;
        self.write_end(text)
    }

    fn write_stories(&self, text: &mut String) -> fmt::Result {
        for story in &self.stories {
            writeln!(text, "\n{}\n{}", story.title, story.history.trim_end())?;
        }
        Ok(())
    }

    fn write_offline(&self, text: &mut String) -> fmt::Result {
        let (ttl, grace) = (self.rules.ttl, self.rules.grace);
        let rows = [
            (Cause::Bye, "bye", 0, PROMPT),
            (Cause::Closed, "its socket closed", grace, grace + PROMPT),
            (Cause::Silent, "its last sign of life", ttl, ttl + grace + PROMPT),
            (Cause::GatewayLost, "its gateway was killed", 0, ttl + grace + PROMPT),
            (Cause::Drained, "its gateway sent it away", 0, ttl + grace + PROMPT),
        ];
        let mut late = self.broken_times(Promise::LateOffline);
        let mut early = self.broken_times(Promise::EarlyOffline);
        for (cause, after, not_before, bound) in rows {
            if let Some(found) = self.latest.get(&cause) {
                // A broken bound shows in its row; what a fault excused may be over it.
                let broken = if found.worst_us > bound { std::mem::take(&mut late) } else { 0 };
                let title = format!("offline after {after}, latest");
                row(text, &title, found.checked, &ms(*found), &limit("≤", bound), broken)?;
            }
            if let Some(found) = self.earliest.get(&cause).filter(|_| not_before > 0) {
                let broken =
                    if found.worst_us < not_before { std::mem::take(&mut early) } else { 0 };
                let title = format!("offline after {after}, earliest");
                row(text, &title, found.checked, &ms(*found), &limit("≥", not_before), broken)?;
            }
        }
        if self.after_faults.checked > 0 {
            let bound = limit("≤", HEAL + grace);
            let found = self.after_faults;
            row(text, "offline after a fault healed", found.checked, &ms(found), &bound, 0)?;
        }
        row(text, "offline later than promised", self.absences, &late.to_string(), "0", late)?;
        row(text, "offline earlier than promised", self.absences, &early.to_string(), "0", early)
    }

    fn write_online(&self, text: &mut String) -> fmt::Result {
        let online = &self.online;
        let late = self.broken_times(Promise::LateOnline);
        if online.count > 0 {
            let p50 = format!("{:.0} ms", online.p50_ms);
            row(text, "online push, from hello, p50", online.count, &p50, "", 0)?;
            let p99 = format!("{:.0} ms", online.p99_ms);
            row(text, "online push, from hello, p99", online.count, &p99, "", 0)?;
            let max = format!("{:.0} ms", online.max_ms);
            row(text, "online push, from hello, latest", online.count, &max, "", 0)?;
        }
        row(text, "online later than promised", self.presences, &late.to_string(), "0", late)
    }

    fn write_counts(&self, text: &mut String) -> fmt::Result {
        let rows = [
            (Promise::Flap, "returns within grace that were shown", self.returns),
            (Promise::FalseOffline, ONLINE_AGAIN, self.presences),
            (Promise::Ghost, "ghosts: shown online though gone", self.absences),
            (Promise::Backward, "versions that went backwards", self.states),
            (Promise::LostChange, "lost changes: wrong views when quiet", self.views),
            (Promise::WrongAnswer, "wrong answers to the backend", self.answers),
            (Promise::SocketLost, "sockets closed without a reason", self.presences),
        ];
        for (promise, title, checked) in rows {
            let broken = self.broken_times(promise);
            row(text, title, checked, &broken.to_string(), "0", broken)?;
        }
        let missing = self.broken_times(Promise::KeysMissing);
        if self.keys_back.checked + missing > 0 {
            let worst = ms(self.keys_back);
            let bound = limit("≤", HEAL);
            row(
                text,
                "all keys back in Redis",
                self.keys_back.checked + missing,
                &worst,
                &bound,
                missing,
            )?;
        }
        Ok(())
    }

    fn write_end(&self, text: &mut String) -> fmt::Result {
        for (refusal, count) in &self.refusals {
            writeln!(text, "{count:>8}  {refusal}")?;
        }
        if self.lag_ms + self.starved_ms > LAG_WORTH_A_WORD_MS {
            writeln!(
                text,
                "\nThis machine was busy: this tool was late by up to {:.0} ms, and the gateways \
                 and Redis together waited up to\n{:.0} ms of a second for a CPU. The bounds were \
                 widened by as much where that was so.",
                self.lag_ms, self.starved_ms
            )?;
        }
        let verdict = match (self.is_kept(), self.stopped) {
            (false, _) => format!("PROMISES WERE BROKEN, {} times", self.violations()),
            (true, false) => "Every promise was kept".to_owned(),
            (true, true) => "Stopped early; every promise was kept so far".to_owned(),
        };
        writeln!(
            text,
            "\n{verdict}: {} states told, {} changes checked, in {:.0} s.",
            self.states,
            self.presences + self.absences,
            self.seconds
        )?;
        writeln!(text, "Again: {}", self.replay)
    }

    fn broken_times(&self, promise: Promise) -> u64 {
        self.broken.get(&promise).copied().unwrap_or(0)
    }
}

fn row(
    text: &mut String,
    title: &str,
    checked: u64,
    worst: &str,
    bound: &str,
    broken: u64,
) -> fmt::Result {
    let verdict = match (broken, checked) {
        (0, 0) => "not checked".to_owned(),
        (0, _) => "kept".to_owned(),
        (times, _) => format!("BROKEN ({times})"),
    };
    writeln!(text, "{title:<42}{checked:>10}{worst:>14}{bound:>14}  {verdict}")
}

fn ms(found: Extreme) -> String {
    if found.checked == 0 {
        return "-".to_owned();
    }
    format!("{} ms", found.worst_us / 1000)
}

fn limit(sign: &str, bound: Us) -> String {
    format!("{sign} {} ms", bound / 1000)
}
