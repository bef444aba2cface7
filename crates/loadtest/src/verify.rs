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

use std::process::ExitCode;

use anyhow::Result;
use tokio::runtime::Builder;

use crate::reported::{Files, work_and_tell};
use args::VerifyArgs;
use plan::Plan;

/// Runs a check; fails when a promise was broken.
pub(crate) fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let plan = Plan::of(args)?;
    let files = Files::open(args.json.as_deref(), None)?;
    work_and_tell(Builder::new_multi_thread(), check::check(args, plan), files)
}
