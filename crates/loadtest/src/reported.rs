//! How a command ends that makes a report: that is printed, written as JSON where it is asked for, and makes the exit code.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::runtime::Builder;

/// What came of a command.
pub(crate) trait Reported: Serialize {
    /// Writes it in lines, for people.
    fn write(&self, text: &mut String) -> fmt::Result;

    /// Whether nothing went wrong.
    fn is_clean(&self) -> bool;

    /// The whole report in lines.
    fn table(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes any text");
        text
    }

    fn exit_code(&self) -> ExitCode {
        if self.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Works on a runtime of its own, and tells what came of it.
pub(crate) fn work_and_tell<R: Reported>(
    work: impl Future<Output = Result<R>>,
    json: Option<&Path>,
) -> Result<ExitCode> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(work);
    // What goes on is not waited for.
    runtime.shutdown_background();
    tell(&report?, json)
}

/// Prints a report, and writes it to a file as well.
pub(crate) fn tell(report: &impl Reported, json: Option<&Path>) -> Result<ExitCode> {
    print!("{}", report.table());
    if let Some(path) = json {
        write_json(report, path).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(report.exit_code())
}

fn write_json(report: &impl Serialize, path: &Path) -> Result<()> {
    Ok(serde_json::to_writer_pretty(File::create(path)?, report)?)
}
