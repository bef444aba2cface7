//! How a command ends that makes a report: that is printed, written to the files that were asked for, and makes the exit code.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::runtime::Builder;

/// What came of a command.
pub(crate) trait Reported: Serialize {
    /// Writes it in lines, for people.
    fn write(&self, text: &mut String) -> fmt::Result;

    /// Whether nothing went wrong.
    fn is_clean(&self) -> bool;

    /// A page for a browser, where there is one.
    fn page(&self) -> Result<String> {
        bail!("there is no page of it")
    }

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

/// Works on a runtime of this kind, and tells what came of it.
pub(crate) fn work_and_tell<R: Reported>(
    mut runtime: Builder,
    work: impl Future<Output = Result<R>>,
    files: Files,
) -> Result<ExitCode> {
    let runtime = runtime.enable_all().build()?;
    let report = runtime.block_on(work);
    // What goes on is not waited for.
    runtime.shutdown_background();
    tell(&report?, files)
}

/// Prints a report, and writes it to the files as well.
pub(crate) fn tell(report: &impl Reported, files: Files) -> Result<ExitCode> {
    print!("{}", report.table());
    files.write(report)?;
    Ok(report.exit_code())
}

/// Where a report is written. The files are opened before anything is begun: what was measured would
/// be lost with one that cannot be written. One that was not there is made once there is a report.
#[derive(Debug)]
pub(crate) struct Files {
    json: Option<Output>,
    html: Option<Output>,
}

impl Files {
    /// What they hold is left as it is until there is something else to write.
    pub(crate) fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self> {
        let open = |flag: &'static str, path: Option<&Path>| {
            path.map(|path| Output::open(path).context(flag)).transpose()
        };
        Ok(Self { json: open("--json", json)?, html: open("--html", html)? })
    }

    /// Where one cannot be written, the other is all the same.
    fn write(self, report: &impl Reported) -> Result<()> {
        let json = || Ok(serde_json::to_vec_pretty(report)?);
        let html = || Ok(report.page()?.into_bytes());
        let json = self.json.map_or(Ok(()), |output| output.write(json()));
        let html = self.html.map_or(Ok(()), |output| output.write(html()));
        match (json, html) {
            (Err(json), Err(html)) => bail!("{json:#}; {html:#}"),
            (json, html) => json.and(html),
        }
    }
}

#[derive(Debug)]
struct Output {
    path: PathBuf,
    /// None where there was none before.
    file: Option<File>,
}

impl Output {
    fn open(path: &Path) -> Result<Self> {
        let was_there = path.symlink_metadata().is_ok();
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path);
        let file = file.with_context(|| format!("writing {}", path.display()))?;
        let is_kept = was_there || fs::remove_file(path).is_err();
        Ok(Self { path: path.to_owned(), file: is_kept.then_some(file) })
    }

    fn write(self, content: Result<Vec<u8>>) -> Result<()> {
        let written = content.and_then(|content| {
            let Some(mut file) = self.file else { return Ok(fs::write(&self.path, content)?) };
            // Only of a file there can be anything left from before.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file.write_all(&content)?)
        });
        written.with_context(|| format!("writing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_only_once_there_is_a_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let output = Output::open(&path).unwrap();
        assert!(!path.exists());
        output.write(Ok(b"a report".to_vec())).unwrap();
        let output = Output::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a report");
        output.write(Ok(b"another".to_vec())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"another");
    }
}
