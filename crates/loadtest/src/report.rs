//! What is told of a run: plain data that is written as JSON, drawn as a table or a page, and compared.
//!
//! Nothing here measures; `merge` fills it in.

pub(crate) mod args;
pub(crate) mod compare;
mod html;
pub(crate) mod names;
mod promises;
#[cfg(test)]
mod sample;
mod summary;
mod table;
mod verdict;
pub(crate) mod written;

pub(crate) use table::write_kinds;
pub(crate) use verdict::LATENESS_WORTH_A_WORD_MS;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reported::Reported;
use verdict::Tone;

/// The version of the JSON. `compare` refuses others.
pub(crate) const REPORT_VERSION: u32 = 1;

/// The name of the count of connections that were to be made.
pub(crate) const PLANNED: &str = "planned";

/// The name of the count of connections that were open at the end.
pub(crate) const OPEN: &str = "open";

/// The name of the count of connections that were on their way at the end.
pub(crate) const CONNECTING: &str = "connecting";

/// A finished run, in the order in which it is read.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    /// [`REPORT_VERSION`].
    pub(crate) version: u32,
    /// The scenario's name.
    pub(crate) name: String,
    /// The scenario, as TOML that makes the same run again.
    pub(crate) scenario: String,
    /// When it began, in ms since the Unix epoch.
    pub(crate) started_at_ms: u64,
    pub(crate) seconds: f64,
    pub(crate) ending: Ending,
    /// Where the connections led.
    pub(crate) urls: Vec<String>,
    /// Worker processes.
    pub(crate) workers: u32,
    pub(crate) phases: Vec<PhaseSpan>,
    /// Counts at the end, by name; see `measures`.
    pub(crate) counts: BTreeMap<String, u64>,
    /// Whole-run distributions.
    pub(crate) timings: Vec<Distribution>,
    /// Why connections failed or ended, and what messages were refused.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Close codes received.
    pub(crate) closes: BTreeMap<String, u64>,
    pub(crate) timeline: Vec<Second>,
    /// The tester itself, all workers together.
    pub(crate) tester: Footprint,
    /// The processes pointed at; none when none were named.
    pub(crate) servers: Vec<Server>,
}

impl Report {
    /// A count by its name; none counted, when it is not there.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or_default()
    }

    /// A distribution by its name; none where nothing was timed.
    pub(crate) fn timing(&self, name: &str) -> Option<&Distribution> {
        self.timings.iter().find(|found| found.name == name && found.count > 0)
    }

    /// Where the connections led, in words.
    pub(crate) fn gateways(&self) -> String {
        match self.urls.as_slice() {
            [] => "no gateway".to_owned(),
            [url] => url.clone(),
            [first, .., last] => format!("{} gateways, {first} to {last}", self.urls.len()),
        }
    }
}

impl Reported for Report {
    fn page(&self) -> anyhow::Result<String> {
        self.html()
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        self.write_lines(text)
    }

    /// As the verdict says.
    fn is_clean(&self) -> bool {
        self.verdict().tone == Tone::Clean
    }
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Complete,
    Interrupted,
    /// Every connection had failed or ended.
    NobodyLeft,
    /// A worker process died or hung; what it had told until then is included.
    WorkerLost,
}

/// When a phase ran, in seconds since the start.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PhaseSpan {
    pub(crate) name: String,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

/// A latency's distribution, in ms.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Distribution {
    pub(crate) name: String,
    /// What is measured, in a sentence.
    pub(crate) meaning: String,
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Pairs of a percentile, as 99.9, and the value there in ms; from the least to 100.
    pub(crate) curve: Vec<(f64, f64)>,
}

/// One second of the run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Second {
    /// Seconds since the start, at its end.
    pub(crate) at_s: u32,
    /// Connections signed in at its end.
    pub(crate) open: u64,
    /// How much each count grew in it; those that did not are left out.
    pub(crate) grew: BTreeMap<String, u64>,
    /// By the name of the timing; those with none are left out.
    pub(crate) timings: BTreeMap<String, Brief>,
}

/// A timing in one second, in ms.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Brief {
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// What one or several processes took for the run.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Footprint {
    pub(crate) rss_before: u64,
    /// The most there was at any time, as far as it was looked at (each second).
    pub(crate) rss_peak: u64,
    pub(crate) rss_after: u64,
    /// The growth until the most connections were open, shared by them, which may be before the peak;
    /// none when there were none.
    pub(crate) bytes_per_connection: Option<i64>,
    pub(crate) cpu_secs: f64,
}

impl Footprint {
    /// All the CPU time, shared by the connections that came up, returns included; in µs.
    pub(crate) fn cpu_us_per_connection(&self, report: &Report) -> Option<f64> {
        let connected = report.count(names::CONNECTED);
        (connected > 0).then(|| 1e6 * self.cpu_secs / connected as f64)
    }
}

/// A server's process, or several of one kind taken together.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Server {
    /// `gateways` or `redis`.
    pub(crate) kind: String,
    pub(crate) processes: u32,
    /// None where nobody told.
    pub(crate) footprint: Option<Footprint>,
    /// Named figures from `/metrics` or `INFO`: growth over the run, such as Redis's commands.
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) timeline: Vec<ServerSecond>,
}

/// A server at one moment.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ServerSecond {
    pub(crate) at_s: u32,
    pub(crate) rss: u64,
    /// Cores in use since the moment before: 1.0 is one full core.
    pub(crate) cores: f64,
}
