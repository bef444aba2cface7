//! A load tester for the presence gateway: many thousand sockets from one small process.
//!
//! Open loop: what is sent, and when, is fixed before the run and does not wait for the server, so
//! that a slow server shows as latency and not as a smaller load. The one thing it measures of
//! itself is how late it was; when that is large, the other numbers are not the server's.
//!
//! Read in this order: `args` and `plan` (what to do, and whether this machine can), `schedule`
//! (when), `run` (does it), `sources`, `dial` and `connection` (one socket), `beat` (its
//! heartbeats), `views` (what it knows), `tally` (what happened), `report` (what is told of it).
//! `verify` is the other command: the promise check, with its own guide.

pub mod args;
mod limits;
mod plan;
mod schedule;

mod run;

mod beat;
mod connection;
mod dial;
mod sources;
mod token;
mod views;

mod process;
mod progress;
mod report;
mod tally;

mod verify;

use std::fs::File;
use std::process::ExitCode;

use anyhow::{Context, Result};

use args::{Cli, Command, RunArgs};
use plan::Plan;
use serde::Serialize;

/// Does what the command line says; fails when a connection did.
pub fn execute(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run_once(&args),
        Command::Verify(args) => verify::verify(&args),
    }
}

fn run_once(args: &RunArgs) -> Result<ExitCode> {
    let plan = Plan::of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run::run(plan))?;
    // The sockets close with the runtime, after the report was made.
    runtime.shutdown_background();
    print!("{}", report.table());
    if let Some(path) = &args.json {
        write_json(&report, path).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_json(report: &impl Serialize, path: &std::path::Path) -> Result<()> {
    Ok(serde_json::to_writer_pretty(File::create(path)?, report)?)
}
