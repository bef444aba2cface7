//! The words and tables of a page, one function a section.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::markup::{Table, escape};
use crate::report::promises::{Finding, Outcome};
use crate::report::verdict::{Tone, Verdict};
use crate::report::{Distribution, Footprint, PhaseSpan, Report, Server, names, written};

pub(super) fn verdict(verdict: &Verdict) -> String {
    let (class, mark) = match verdict.tone {
        Tone::Clean => ("clean", "✓"),
        Tone::Flawed => ("flawed", "!"),
        Tone::Broken => ("broken", "✗"),
    };
    let mut html = format!(
        "<div class=\"verdict {class}\"><span class=\"mark\" aria-hidden=\"true\">{mark}</span>\
         <div><strong>{}</strong>",
        escape(&verdict.headline)
    );
    for remark in &verdict.remarks {
        // A string takes any text, so writing to one does not fail.
        let _ = write!(html, "<p>{}</p>", escape(remark));
    }
    html + "</div></div>"
}

pub(super) fn promises(findings: &[Finding]) -> String {
    let mut table = Table::new("What the gateway promises", &["promise", "found", "verdict"]);
    for finding in findings {
        let (class, word) = match finding.outcome {
            Outcome::Kept => ("kept", "kept"),
            Outcome::Broken => ("not-kept", "broken"),
            Outcome::NotTried => ("not-tried", "not tried"),
        };
        let verdict = format!("<span class=\"{class}\">{word}</span>");
        table.row_of_html(&escape(finding.promise), &[escape(&finding.found), verdict]);
    }
    table.finish()
}

pub(super) fn phases(phases: &[PhaseSpan]) -> String {
    let mut html = "<ol class=\"phases\" aria-label=\"Phases of the run\">".to_owned();
    for (place, phase) in phases.iter().enumerate() {
        let span = |at: f64| format!("{}:{:02}", at as u64 / 60, at as u64 % 60);
        let _ = write!(
            html,
            "<li><b>{}</b> {} <span>{} to {}</span></li>",
            place + 1,
            escape(&names::spoken(&phase.name)),
            span(phase.from_s),
            span(phase.to_s),
        );
    }
    html + "</ol>"
}

pub(super) fn timings(timings: &[Distribution]) -> String {
    if timings.iter().all(|timing| timing.count == 0) {
        return "<p class=\"soft\">Nothing was timed.</p>".to_owned();
    }
    let head = ["what", "count", "p50", "p90", "p99", "p99.9", "longest"];
    let mut table = Table::new("The whole run", &head);
    for timing in timings.iter().filter(|timing| timing.count > 0) {
        let values = [timing.p50_ms, timing.p90_ms, timing.p99_ms, timing.p999_ms, timing.max_ms];
        let mut cells = vec![written::count(timing.count)];
        cells.extend(values.map(written::ms));
        let name = escape(&names::spoken(&timing.name));
        let name = format!("{name}<small>{}</small>", escape(&timing.meaning));
        table.row_of_html(&name, &cells);
    }
    table.finish()
}

pub(super) fn footprints(report: &Report) -> String {
    let head = [
        "whose",
        "before",
        "at the peak",
        "after",
        "a connection",
        "CPU time",
        "a connection",
        "cores",
    ];
    let mut table = Table::new("Resident memory and CPU", &head);
    for server in &report.servers {
        if let Some(of_server) = &server.footprint {
            let name = format!("{} ({})", server.kind, server.processes);
            table.row(&name, &footprint(of_server, report));
        }
    }
    let name = format!("this tester ({})", report.workers);
    table.row(&name, &footprint(&report.tester, report));
    table.finish()
}

fn footprint(footprint: &Footprint, report: &Report) -> Vec<String> {
    let bytes = |bytes: u64| written::bytes(bytes as f64);
    let each = footprint.bytes_per_connection;
    let cpu_us = footprint.cpu_us_per_connection(report);
    let seconds = report.seconds;
    let cores = if seconds > 0.0 { footprint.cpu_secs / seconds } else { 0.0 };
    vec![
        bytes(footprint.rss_before),
        bytes(footprint.rss_peak),
        bytes(footprint.rss_after),
        each.map_or_else(|| "–".to_owned(), |each| written::bytes(each as f64)),
        format!("{} s", written::number(footprint.cpu_secs)),
        cpu_us.map_or_else(|| "–".to_owned(), |us| format!("{} µs", written::number(us))),
        written::number(cores),
    ]
}

/// What servers count themselves; behind a summary, as there is much of it.
pub(super) fn server_figures(servers: &[Server]) -> String {
    let mut html = String::new();
    for server in servers.iter().filter(|server| !server.figures.is_empty()) {
        let caption = format!("What {} counted in the run", server.kind);
        let mut table = Table::new(&caption, &["figure", "in the run"]);
        for (name, value) in &server.figures {
            table.row(&names::spoken(name), &[written::number(*value)]);
        }
        let summary = format!("<summary>{}</summary>", escape(&caption));
        let _ = write!(html, "<details>{summary}{}</details>", table.finish());
    }
    html
}

/// A table of counts; nothing where nothing was counted.
pub(super) fn counts(caption: &str, counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(caption, &["what", "count"]);
    for (name, count) in counts {
        table.row(&names::spoken(name), &[written::count(*count)]);
    }
    table.finish()
}
