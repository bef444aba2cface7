//! The command lines that have to do with reports that were written.

use std::path::PathBuf;

use clap::Args;

/// Tell what changed between two reports, and what got worse by more than noise.
///
/// A latency changed when it did by more than 10 % and 0.2 ms, and ten samples lie beyond the percentile; memory by more
/// than 5 % and 50 bytes a connection; cores by more than 10 % and 0.05; failures and broken promises when there is one
/// more. The exit code is 0 whatever changed.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// A report, as `run --json` and `local --json` write it.
    #[arg(value_name = "A.json")]
    pub(crate) before: PathBuf,
    /// The report of a later run.
    #[arg(value_name = "B.json")]
    pub(crate) after: PathBuf,
}

/// Write a report as a page for a browser: one file, which can be sent to anybody.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// A report, as `run --json` and `local --json` write it.
    #[arg(value_name = "REPORT.json")]
    pub(crate) report: PathBuf,
    /// The page to be written.
    #[arg(value_name = "PAGE.html")]
    pub(crate) page: PathBuf,
}
