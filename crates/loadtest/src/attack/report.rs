//! What came of the attacks: for each, how the hostile were answered, what the gateway counted of it, and what the crowd
//! beside it saw, before and meanwhile.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::args::{AttackArgs, Kind};
use super::crowd::Seen;
use super::hostile::Came;
use crate::report::written;
use crate::reported::Reported;

/// The counters that limits have. Who leaves by itself says nothing of a limit.
const OF_LIMITS: [&str; 6] = [
    "accept_pauses_total",
    "answers_dropped_total",
    "closes_total",
    "refused_connections_total",
    "refused_messages_total",
    "silent_deaths_total",
];
const OF_PEERS: &str = "closes_total{reason=\"peer\"}";

/// A gateway's counters, by name and labels.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Counters(pub(super) BTreeMap<String, f64>);

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    url: String,
    connections: u32,
    watch: u32,
    changes_per_second: f64,
    acts_per_second: f64,
    slack_ms: f64,
    pub(super) attacks: Vec<Attack>,
}

/// One attack.
#[derive(Debug, Serialize)]
pub(crate) struct Attack {
    kind: Kind,
    acts: u64,
    answered: BTreeMap<String, u64>,
    counted: Counters,
    before: Pushes,
    during: Pushes,
    /// What the crowd saw that it must not, before and meanwhile.
    errors: BTreeMap<String, u64>,
}

/// How late the crowd was told of its changes.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pushes {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// How late this process was with the changes themselves.
    tester_p99_ms: f64,
}

impl Counters {
    /// What grew of what limits count.
    pub(super) fn since(self, before: &Self) -> Self {
        let of_limit =
            |name: &str| name != OF_PEERS && OF_LIMITS.iter().any(|limit| name.starts_with(limit));
        let grown = self.0.into_iter().filter(|(name, _)| of_limit(name)).map(|(name, now)| {
            let more = now - before.0.get(&name).copied().unwrap_or_default();
            (name, more)
        });
        Self(grown.filter(|(_, more)| *more > 0.0).collect())
    }
}

impl Pushes {
    fn of(seen: &Seen) -> Self {
        let ms =
            |histogram: &Histogram<u64>, share| histogram.value_at_quantile(share) as f64 / 1_000.0;
        Self {
            count: seen.pushes.len(),
            p50_ms: ms(&seen.pushes, 0.5),
            p99_ms: ms(&seen.pushes, 0.99),
            max_ms: ms(&seen.pushes, 1.0),
            tester_p99_ms: ms(&seen.turns, 0.99),
        }
    }
}

impl Attack {
    pub(super) fn new(
        kind: Kind,
        came: Came,
        counted: Counters,
        before: &Seen,
        during: Seen,
    ) -> Self {
        let Came { acts, answered } = came;
        let (then, now) = (Pushes::of(before), Pushes::of(&during));
        let mut errors = during.errors;
        for (error, count) in &before.errors {
            *errors.entry(error.clone()).or_default() += count;
        }
        Self { kind, acts, answered, counted, before: then, during: now, errors }
    }

    /// The crowd saw no error, and was told hardly later than before.
    fn is_clean(&self, slack_ms: f64) -> bool {
        let is_in_time =
            self.during.count > 0 && self.during.p99_ms <= self.before.p99_ms + slack_ms;
        self.errors.is_empty() && is_in_time
    }

    fn write(&self, text: &mut String, slack_ms: f64) -> fmt::Result {
        let Self { before, during, .. } = self;
        let change = |then, now| format!("{} -> {}", written::number(then), written::number(now));
        let verdict = if self.is_clean(slack_ms) { "held" } else { "NOT HELD" };
        writeln!(
            text,
            "{:<20}{:>8}{:>18}{:>18}{:>18}{:>8}  {verdict}",
            self.kind.name(),
            written::count(self.acts),
            change(before.p50_ms, during.p50_ms),
            change(before.p99_ms, during.p99_ms),
            change(before.tester_p99_ms, during.tester_p99_ms),
            written::count(self.errors.values().sum()),
        )?;
        for (answer, count) in &self.answered {
            writeln!(text, "    answered  {:>7} x {answer}", written::count(*count))?;
        }
        for (name, more) in &self.counted.0 {
            writeln!(text, "    counted   {:>7} x {name}", written::count(*more as u64))?;
        }
        for (error, count) in &self.errors {
            writeln!(text, "    ERROR     {:>7} x {error}", written::count(*count))?;
        }
        Ok(())
    }
}

impl Report {
    pub(super) fn new(args: &AttackArgs) -> Self {
        Self {
            url: args.force.url.to_string(),
            connections: args.connections,
            watch: args.watch,
            changes_per_second: args.changes.per_second(),
            acts_per_second: args.force.rate.per_second(),
            slack_ms: args.slack.0.as_secs_f64() * 1_000.0,
            attacks: Vec::new(),
        }
    }
}

impl Reported for Report {
    fn is_clean(&self) -> bool {
        self.attacks.iter().all(|attack| attack.is_clean(self.slack_ms))
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let Self { connections, watch, changes_per_second, acts_per_second, slack_ms, .. } = self;
        writeln!(
            text,
            "\n{connections} clients that behave, each of whom watches {watch}; {changes_per_second} \
             changes a second.\nAttacks at {acts_per_second} acts a second, of a process that gives \
             way to all others (nice 19) and shares this machine.\n"
        )?;
        let [attack, acts, errors] = ["attack", "acts", "errors"];
        let [p50, p99, tester] = ["push p50, ms", "push p99, ms", "tester p99, ms"];
        writeln!(text, "{attack:<20}{acts:>8}{p50:>18}{p99:>18}{tester:>18}{errors:>8}")?;
        for attack in &self.attacks {
            attack.write(text, *slack_ms)?;
        }
        let verdict = if self.is_clean() {
            "All were held: nobody who behaves saw an error, and pushes came within"
        } else {
            "NOT ALL WERE HELD: somebody who behaves saw an error, or pushes came later than"
        };
        writeln!(text, "\n{verdict} {slack_ms} ms of before (p99).")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(late_us: u64) -> Seen {
        let mut seen = Seen::default();
        (0..100).for_each(|_| seen.pushes.record(late_us).unwrap());
        seen
    }

    fn attack(late_us: u64, error: Option<&str>) -> Attack {
        let mut during = seen(late_us);
        during.errors.extend(error.map(|error| (error.to_owned(), 1)));
        let answered = [("closed with 4006 rate_limited".to_owned(), 7)].into();
        let counters = |closes, peers| {
            let counter = |name: &str, count| (name.to_owned(), count);
            let limited = counter("closes_total{reason=\"rate_limited\"}", closes);
            Counters([limited, counter(OF_PEERS, peers), counter("pings_sent_total", peers)].into())
        };
        let counted = counters(9.0, 50.0).since(&counters(2.0, 0.0));
        Attack::new(Kind::Pings, Came { acts: 12_345, answered }, counted, &seen(1_000), during)
    }

    #[test]
    fn an_attack_is_held_when_nobody_saw_an_error_or_was_told_much_later() {
        assert!(attack(5_900, None).is_clean(5.0));
        assert!(!attack(6_200, None).is_clean(5.0));
        assert!(!attack(1_000, Some("somebody was shown offline")).is_clean(5.0));
    }

    #[test]
    fn the_table_tells_answers_counters_and_errors() {
        let mut text = String::new();
        attack(2_000, Some("somebody was shown offline")).write(&mut text, 5.0).unwrap();
        for part in [
            "pings",
            "12,345",
            "1.00 -> 2.00",
            "7 x closed with 4006 rate_limited",
            "7 x closes_total{reason=\"rate_limited\"}",
            "1 x somebody was shown offline",
            "NOT HELD",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("peer") && !text.contains("pings_sent"), "{text}");
    }
}
