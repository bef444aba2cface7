//! What a reader sees of a check: figures, bounds and verdicts that agree.

use std::process::ExitCode;

use clap::Parser;

use super::*;
use crate::args::{Cli, Command};
use crate::reported::Reported;
use crate::verify::judge::{Violation, Widened};

fn report() -> Report {
    let cli = Cli::parse_from(["presence-loadtest", "verify", "--seed", "7"]);
    let Command::Verify(args) = cli.command else { unreachable!() };
    Report::new(&args)
}

fn drawn(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    report.write_lines(&mut Table { text: &mut text, paint }).unwrap();
    text
}

#[test]
fn all_rows_have_their_columns_in_the_same_places() {
    let mut report = report();
    let found = Extreme { checked: 1, worst_us: 1_234_567, broken: 0 };
    for cause in [Cause::Bye, Cause::Closed, Cause::Silent, Cause::GatewayLost, Cause::Drained] {
        report.latest.insert(cause, found);
        report.earliest.insert(cause, found);
    }
    (report.after_faults, report.keys_back) = (found, found);
    (report.after_deafness, report.untold) = (found, found);
    report.after_hangs = found;
    report.online.count = 1;
    let table = drawn(&report, Paint::Plain);
    let rows: Vec<&str> = table.trim_start().lines().take_while(|row| !row.is_empty()).collect();
    assert!(rows.len() > 21, "{table}");
    for row in rows {
        let verdict: String = row.chars().skip(TITLE_LEN + 38).collect();
        assert!(
            ["  verdict", "  kept", "  measured", "  not checked"].contains(&verdict.as_str()),
            "{table}"
        );
    }
}

#[test]
fn a_kept_promise_has_its_worst_figure_beside_its_bound() {
    let mut report = report();
    report.latest.insert(Cause::Closed, Extreme { checked: 12, worst_us: 1_234_567, broken: 0 });
    report.absences = 12;
    let table = drawn(&report, Paint::Plain);
    let row = table.lines().find(|line| line.contains("its socket closed")).unwrap();
    for part in ["12", "1235 ms", "≤ 2000 ms", "kept"] {
        assert!(row.contains(part), "{part} is not in {row}");
    }
    assert!(table.contains("Every promise was kept"), "{table}");
    assert!(table.contains("presence-loadtest verify --seed 7"), "{table}");
    assert!(drawn(&report, Paint::Coloured).contains("\x1b[32mkept"));
}

#[test]
fn a_broken_promise_is_counted_and_told_with_its_history_unless_that_was_told() {
    let mut report = report();
    for (user, at) in [(0, 9.0), (1, 9.5), (2, 12.0), (2, 20.0), (3, 20.0)] {
        let violation = Violation {
            promise: Promise::LateOffline,
            user: Some(user),
            watcher: Some(3),
            at: (at * 1e6) as Us,
            what: "said bye".to_owned(),
        };
        report.add_violation(&violation, || "the history".to_owned());
    }
    let table = drawn(&report, Paint::Plain);
    assert_eq!(table.matches("the history").count(), 3);
    assert!(table.contains("late offline of user 0 at 9.000 s"), "{table}");
    assert!(table.contains("PROMISES WERE BROKEN, 5 times"), "{table}");
    assert!(!report.is_clean());
}

#[test]
fn a_figure_outside_its_bound_is_shown_with_a_broken_verdict() {
    let mut report = report();
    let found = |worst_us| Extreme { checked: 9, worst_us, broken: 2 };
    report.latest.insert(Cause::Bye, found(1_000_400));
    report.earliest.insert(Cause::Closed, found(999_900));
    report.after_faults = found(6_100_000);
    let table = drawn(&report, Paint::Plain);
    for (row, worst, bound) in [
        ("offline after bye, latest", "1001 ms", "≤ 1000 ms"),
        ("offline after its socket closed, earliest", "999 ms", "≥ 1000 ms"),
        ("offline after a fault healed, latest", "6100 ms", "≤ 6000 ms"),
    ] {
        let row = table.lines().find(|line| line.contains(row)).unwrap();
        for part in [worst, bound, "BROKEN (2)"] {
            assert!(row.contains(part), "{part} is not in {row}");
        }
    }
}

#[test]
fn what_a_widening_excused_is_said() {
    let mut report = report();
    assert!(!drawn(&report, Paint::Plain).contains("hung on it"));
    report.starved_ms = 300.0;
    assert!(drawn(&report, Paint::Plain).contains("no verdict hung on it"));
    report.widened = Widened { verdicts: 3, most_us: 48_100, too_far: 0 };
    let table = drawn(&report, Paint::Plain);
    assert!(table.contains("3 verdicts hung on it, by up to 49 ms"), "{table}");
}

#[test]
fn a_machine_that_was_too_busy_keeps_no_promise_and_excuses_no_broken_one() {
    let mut report = report();
    report.widened = Widened { verdicts: 3, most_us: 1_200_000, too_far: 2 };
    let table = drawn(&report, Paint::Plain);
    assert!(table.contains("TOO BUSY TO JUDGE, 2 times"), "{table}");
    assert!(!table.contains("Every promise was kept"), "{table}");
    assert_eq!(report.exit_code(), ExitCode::from(3));
    report.broken.insert(Promise::Ghost, 1);
    assert_eq!(report.exit_code(), ExitCode::FAILURE);
}
