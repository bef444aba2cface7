//! The report as one page that needs nothing else: no network, no other file.
//!
//! All that is said in words and tables is written here, so that it is there without JavaScript;
//! `page.js` only draws the charts. Nothing is reckoned here that the table does not tell as well.

mod markup;
mod sections;
mod tiles;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Report, promises, written};
use markup::escape;

const PAGE: &str = include_str!("html/page.html");

const UPLOT_JS: &str = include_str!("../../../../assets/uplot-1.6.32/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../../../assets/uplot-1.6.32/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../../../assets/uplot-1.6.32/LICENSE");

/// What `page.js` draws from.
#[derive(Serialize)]
struct Data<'a> {
    report: &'a Report,
    /// Counts of which each is a broken promise, for the chart of errors.
    never: Vec<&'static str>,
}

impl Report {
    /// The whole page.
    pub(crate) fn html(&self) -> Result<String> {
        let never = promises::never().collect();
        let data = serde_json::to_string(&Data { report: self, never })?;
        let started = self.started();
        let places: [(&str, String); 20] = [
            ("title", escape(&format!("{}: load test of {started}", self.name))),
            ("uplot_css", UPLOT_CSS.to_owned()),
            ("page_css", include_str!("html/page.css").to_owned()),
            ("name", escape(&self.name)),
            ("about", self.about(&started)),
            ("verdict", sections::verdict(&self.verdict())),
            ("tiles", tiles::tiles(self)),
            ("promises", sections::promises(&self.findings())),
            ("phases", sections::phases(&self.phases)),
            ("timings", sections::timings(&self.timings)),
            ("footprints", sections::footprints(self)),
            ("server_figures", sections::server_figures(&self.servers)),
            ("counts", sections::counts("What happened", &self.counts)),
            ("errors", sections::counts("Errors", &self.errors)),
            ("closes", sections::counts("Close codes received", &self.closes)),
            ("targets", escape(&format!("All connections led to {}.", self.gateways()))),
            ("scenario", escape(&self.scenario)),
            ("data", in_script(&data)),
            ("uplot_licence", UPLOT_LICENCE.to_owned()),
            ("uplot_js", UPLOT_JS.to_owned()),
        ];
        let script = [("page_js", include_str!("html/page.js").to_owned())];
        fill(PAGE, &[&places[..], &script[..]].concat())
    }

    /// The moment of the start, as `2026-11-30 03:12:00 UTC`.
    pub(crate) fn started(&self) -> String {
        let start = std::time::UNIX_EPOCH + std::time::Duration::from_millis(self.started_at_ms);
        let text = humantime::format_rfc3339_seconds(start).to_string();
        text.replace('T', " ").replace('Z', " UTC")
    }

    fn about(&self, started: &str) -> String {
        let workers = if self.workers == 1 { "process" } else { "processes" };
        format!(
            "Load test of {started}: {}, by {} {workers}.",
            written::span(self.seconds),
            self.workers
        )
    }
}

/// JSON inside a script element: no `<` is left in it, so nothing can end the element early. JSON has
/// none outside of strings, where the escape means the same.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Puts a text in each `{{place}}` of the template, and looks at no text again.
fn fill(template: &str, places: &[(&str, String)]) -> Result<String> {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("a place in the template is open")?;
        let found = places.iter().find(|(place, _)| *place == name);
        let (_, text) = found.with_context(|| format!("nothing for {name}"))?;
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    Ok(page + rest)
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn the_page_says_the_verdict_and_the_figures_without_a_script() {
        let page = sample::report().html().unwrap();
        let (words, _) = page.split_once("<script").unwrap();
        for part in [
            "Every promise was kept, and no connection was lost.",
            "<h1>morning</h1>",
            "Load test of 2026-11-30",
            "online push",
            "19,000",
            "3.07 KiB",
        ] {
            assert!(words.contains(part), "{part} is not in\n{words}");
        }
    }

    #[test]
    fn nothing_is_fetched() {
        let page = sample::report().html().unwrap();
        for part in ["src=", "href=", "@import", "url(", "fetch(", "{{"] {
            assert!(!page.contains(part), "{part} is in the page");
        }
    }

    #[test]
    fn hostile_text_stays_text() {
        let hostile = "</script><script>alert(1)</script><!-- {{data}}";
        let mut report = sample::report();
        hostile.clone_into(&mut report.name);
        hostile.clone_into(&mut report.scenario);
        report.urls = vec![hostile.to_owned()];
        report.errors.insert(hostile.to_owned(), 1);
        report.servers[0].kind = hostile.to_owned();
        let page = report.html().unwrap();
        assert!(!page.contains("<script>alert"), "it got out");
        assert_eq!(page.matches("</script>").count(), 3);
        let (_, json) = page.split_once(r#"id="data">"#).unwrap();
        let (json, _) = json.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(data["report"]["name"], hostile);
    }

    #[test]
    fn an_empty_report_has_a_page_too() {
        let mut report = sample::report();
        report.timeline.clear();
        report.timings.clear();
        report.counts.clear();
        report.servers.clear();
        report.phases.clear();
        report.urls.clear();
        let page = report.html().unwrap();
        assert!(page.contains("No promise was put to the test, but nobody ever connected."));
    }
}
