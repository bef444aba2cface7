//! The promise check: starts a deployment of its own, drives it with a history that follows from a
//! seed, breaks it, and reports every promise as kept or broken.
//!
//! It keeps its own model of the truth, made of nothing but what its clients really did, and never
//! asks a gateway or Redis who is online.
//!
//! Read in this order: `args` and `plan`, `history` (what is done), `record` (what is written down),
//! `truth` (what follows from that), `judge` (what was broken), `deployment`, `client`, `actor` and
//! `breaker` (which really do it), `check` (round by round), `report` and `story`. What is pure:
//! `history`, `record`, `truth`, `judge`, `lag`, `report`, `story`.

pub(crate) mod args;
mod plan;

mod history;
mod record;

mod judge;
mod lag;
mod truth;

mod actor;
mod breaker;
mod client;
mod deployment;
mod http;
mod starved;
mod world;

mod check;
mod narrator;
mod report;
mod story;

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::coordinator::INTERRUPTED;
use args::VerifyArgs;
use plan::Plan;
use report::Paint;

/// Runs a check; fails when a promise was broken.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let plan = Plan::of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(check::check(args, plan));
    runtime.shutdown_background();
    let report = report?;
    let paint = if stdout().is_terminal() { Paint::Coloured } else { Paint::Plain };
    print!("{}", report.table(paint));
    if let Some(path) = &args.json {
        crate::write_json(&report, path).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(match (report.is_kept(), report.stopped) {
        (true, false) => ExitCode::SUCCESS,
        // Nobody shall take it for a check that was done.
        (true, true) => INTERRUPTED.into(),
        (false, _) => ExitCode::FAILURE,
    })
}
