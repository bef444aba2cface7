//! Two runs side by side, for people: plain text, so that it can be pasted anywhere.

use std::fmt::{self, Write as _};

use super::figures::{self, Change, Figure};
use crate::report::{Ending, Report, written};

/// The whole comparison in lines.
pub(super) fn table(before: &Report, after: &Report) -> String {
    let mut text = String::new();
    write(&mut text, before, after).expect("a string takes any text");
    text
}

fn write(text: &mut String, before: &Report, after: &Report) -> fmt::Result {
    for (letter, report) in [('A', before), ('B', after)] {
        let (name, started) = (&report.name, report.started());
        let (seconds, ending) = (written::span(report.seconds), ending(report.ending));
        writeln!(text, "{letter}  {name}, {started}, {seconds}, {ending}")?;
    }
    write_differences(text, &before.scenario, &after.scenario)?;
    let (before, after) = (figures::of(before), figures::of(after));
    writeln!(text, "\n{:<44}{:>14}{:>14}{:>10}", "", "A", "B", "B / A")?;
    let mut tally = Tally::default();
    for row in rows(&before, &after) {
        write_row(text, row, &mut tally)?;
    }
    writeln!(text, "\n{}", tally.sentence())
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Complete => "complete",
        Ending::Interrupted => "stopped early",
        Ending::NobodyLeft => "ended early: no connection was left",
        Ending::WorkerLost => "ended early: a process of the tester was lost",
    }
}

/// The lines that only one of the scenarios has.
fn write_differences(text: &mut String, before: &str, after: &str) -> fmt::Result {
    if before == after {
        return Ok(());
    }
    writeln!(text, "\nThe scenarios differ, so the figures may for that reason alone:")?;
    let missing = |from: &str, line: &str| !from.lines().any(|other| other == line);
    for line in before.lines().filter(|line| missing(after, line)) {
        writeln!(text, "  A  {line}")?;
    }
    for line in after.lines().filter(|line| missing(before, line)) {
        writeln!(text, "  B  {line}")?;
    }
    Ok(())
}

type Row<'a> = (Option<&'a Figure>, Option<&'a Figure>);

/// Figures of the same name side by side; those of B alone come last.
fn rows<'a>(before: &'a [Figure], after: &'a [Figure]) -> impl Iterator<Item = Row<'a>> {
    let of = |figures: &'a [Figure], name: &str| figures.iter().find(|other| other.name == name);
    let both = before.iter().map(move |figure| (Some(figure), of(after, &figure.name)));
    let new = after.iter().filter(move |figure| of(before, &figure.name).is_none());
    both.chain(new.map(|figure| (None, Some(figure))))
}

fn write_row(text: &mut String, row: Row<'_>, tally: &mut Tally) -> fmt::Result {
    let Some(named) = row.0.or(row.1) else { return Ok(()) };
    let written = |figure: Option<&Figure>| figure.map_or("–".to_owned(), Figure::written);
    let (ratio, mark) = match row {
        (Some(before), Some(after)) => {
            (ratio(before.value, after.value), mark(before, after, tally))
        }
        _ => (String::new(), ""),
    };
    let line = format!(
        "{:<44}{:>14}{:>14}{ratio:>10}  {mark}",
        named.name,
        written(row.0),
        written(row.1),
    );
    writeln!(text, "{}", line.trim_end())
}

fn ratio(before: f64, after: f64) -> String {
    if before > 0.0 { format!("{:.2}", after / before) } else { String::new() }
}

fn mark(before: &Figure, after: &Figure, tally: &mut Tally) -> &'static str {
    match before.change(after) {
        Change::Noise => "",
        Change::Worse => {
            tally.worse += 1;
            "WORSE"
        }
        Change::Better => {
            tally.better += 1;
            "better"
        }
    }
}

#[derive(Default)]
struct Tally {
    worse: usize,
    better: usize,
}

impl Tally {
    fn sentence(&self) -> String {
        match (self.worse, self.better) {
            (0, 0) => "Nothing changed by more than noise.".to_owned(),
            (0, better) => format!("Nothing got worse by more than noise; {better} better."),
            (worse, 0) => format!("{worse} got worse by more than noise."),
            (worse, better) => format!("{worse} got worse by more than noise, {better} better."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn what_got_worse_is_marked_and_counted() {
        let mut after = sample::report();
        sample::timing(&mut after, "ping").p99_ms = 6.0;
        after.counts.insert("failed".to_owned(), 3);
        let table = table(&sample::report(), &after);
        let row = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(name));
            line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("ping, p99 "), "ping, p99 4.00 ms 6.00 ms 1.50 WORSE");
        assert_eq!(row("failed"), "failed 0 3 WORSE");
        assert_eq!(row("ping, p50"), "ping, p50 1.00 ms 1.00 ms 1.00");
        assert!(table.ends_with("2 got worse by more than noise.\n"), "{table}");
    }

    #[test]
    fn different_scenarios_are_told_first_line_by_line() {
        let mut after = sample::report();
        after.scenario = after.scenario.replace("seed = 1", "seed = 2");
        let table = table(&sample::report(), &after);
        let (first, _) = table.split_once("B / A").unwrap();
        assert!(first.contains("  A  seed = 1\n  B  seed = 2\n"), "{first}");
        assert!(!first.contains("  A  name"), "{first}");
    }

    #[test]
    fn a_figure_that_one_run_lacks_stands_alone() {
        let mut before = sample::report();
        before.servers.clear();
        let table = table(&before, &sample::report());
        let line = table.lines().find(|line| line.starts_with("cores, redis")).unwrap();
        assert!(line.contains('–') && line.ends_with("0.200"), "{line:?}");
    }
}
