//! A load tester for the presence gateway: a million sockets from some processes of one machine or
//! several.
//!
//! Open loop: what is done, and when, is fixed before the run and does not wait for the server, so
//! that a slow server shows as latency and not as a smaller load. The one thing it measures of
//! itself is how late it was; when that is large, the other numbers are not the server's.
//!
//! Read in this order: `args`, `scenario`, `contacts` and `plan` (what to do, and whether this
//! machine can), `coordinator` (who does it), `wire` (what is said between processes), `worker`
//! (does it), `sources`, `ledger` (what is true), `measures` (what happened), `report` (what is told
//! of it), `reported` (how that ends a command), `stop` (what ends it before), and `observe`, with `process` and `fetch` (looks at the servers meanwhile). `local`, `sim`,
//! `verify` and `attack` are the other commands, each with its own guide: a run that starts what it
//! loads, the simulation without sockets, the promise check, and the attacks. The latter two have
//! `dial`; all but the first count in `tally`.

pub mod args;
mod contacts;
mod limits;
mod plan;
mod scenario;

mod coordinator;
mod wire;
mod worker;

mod failure;
mod ledger;
mod sources;
mod token;

mod people;

mod measures;
mod report;
mod reported;
mod stop;

mod fetch;
mod observe;
mod process;
mod tls;

mod local;

mod dial;
mod tally;

mod attack;
mod sim;
mod verify;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use args::{Cli, Command, RunArgs};
use plan::Plan;
use report::{Report, compare};
use reported::{Files, tell};

/// Does what the command line says; fails when a connection did.
pub fn execute(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run(&args),
        Command::Worker(args) => worker::work(&args),
        Command::Local(args) => local::local(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Attack(args) => attack::attack(&args),
        Command::Attacker(args) => attack::attacker(&args),
        Command::Sim(args) => sim::simulate(&args),
        Command::Compare(args) => {
            print!("{}", compare::compare(&args.before, &args.after)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Page(args) => {
            let report = compare::read(&args.report);
            let report = report.with_context(|| args.report.display().to_string())?;
            write_page(&report, &args.page)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = Plan::of(args)?;
    let files = Files::open(args.json.as_deref(), args.html.as_deref())?;
    run_once(&plan, files, |_| {})
}

/// `on_begin` is called when it is known when the scenario begins.
fn run_once(plan: &Plan, files: Files, on_begin: impl FnOnce(Instant)) -> Result<ExitCode> {
    tell(&coordinator::run(plan, on_begin)?, files)
}

fn write_page(report: &Report, path: &Path) -> Result<()> {
    fs::write(path, report.html()?).with_context(|| format!("writing {}", path.display()))
}
