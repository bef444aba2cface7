//! A load on gateways that are started for it, on this machine: from a check of the machine's limits
//! to the report, in one command.
//!
//! It starts and stops; what is run, and what is told of it, is not decided here. Everything that it
//! starts ends with this process, however that ends: by itself, by Ctrl-C, or killed.

pub(crate) mod args;
mod checks;
mod deployment;
mod machine;
mod plan;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use parking_lot::Mutex;
use presence_testkit::Scratch;

use crate::local::args::LocalArgs;
use crate::local::checks::Weight;
use crate::local::deployment::{Deployment, Logs};
use crate::local::machine::Machine;
use crate::local::plan::Plan;
use crate::observe::Targets;
use crate::people::People;
use crate::report::written;
use crate::reported::Files;

/// Checks, starts, runs, and stops.
pub(crate) fn local(args: &LocalArgs) -> Result<ExitCode> {
    let scenario = crate::plan::scenario(&args.run(Vec::new(), Targets::default()))?;
    scenario.check()?;
    if let Some(path) = &scenario.people {
        ensure!(
            !People::read(path, 0..u32::MAX)?.have_tokens(),
            "{}: leave the tokens out, the gateways that are started here take plain user names",
            path.display()
        );
    }
    let machine = Machine::read()?;
    let plan = Plan::of(args, &scenario, machine.open_files_max);
    check(&plan, &machine)?;
    eprintln!(
        "connections: {}; gateways: {}; processes of the tester: {}; memory: about {} of the {} \
         that are available",
        written::count(plan.connections),
        plan.gateways,
        plan.workers,
        written::bytes(plan.memory() as f64),
        written::bytes(machine.memory_available as f64),
    );
    let files = Files::open(args.json.as_deref(), args.html.as_deref())?;
    let logs = if args.keep_logs { Logs::kept()? } else { Logs::Passing(Scratch::new()) };
    if let Logs::Kept(folder) = &logs {
        eprintln!("the servers log to {}", folder.display());
    }
    let deployment = Deployment::start(args, &plan, logs)?;
    let run = args.run(deployment.urls(), deployment.targets());
    let deployment = Arc::new(Mutex::new(deployment));
    let restarts_us = scenario.restarts_us();
    crate::run_once(&crate::plan::Plan::of(&run)?, files, |began| {
        let deployment = deployment.clone();
        thread::spawn(move || restart_gateways(&deployment, began, &restarts_us));
    })
}

/// Restarts one gateway after the other, at these moments.
fn restart_gateways(deployment: &Mutex<Deployment>, began: Instant, restarts_us: &[u64]) {
    for (place, at_us) in restarts_us.iter().enumerate() {
        thread::sleep(
            (began + Duration::from_micros(*at_us)).saturating_duration_since(Instant::now()),
        );
        match deployment.lock().restart_gateway(place) {
            Ok(took) => eprintln!("gateway {} was restarted, in {took:.1?}", place + 1),
            Err(error) => eprintln!("gateway {} was not restarted: {error:#}", place + 1),
        }
    }
}

fn check(plan: &Plan, machine: &Machine) -> Result<()> {
    let shortfalls = checks::shortfalls(plan, machine);
    let (refused, doubtful): (Vec<_>, Vec<_>) =
        shortfalls.iter().partition(|shortfall| shortfall.weight == Weight::Refused);
    for shortfall in doubtful {
        eprintln!("warning: {shortfall}");
    }
    if !refused.is_empty() {
        let told: Vec<_> = refused.iter().map(ToString::to_string).collect();
        let connections = written::count(plan.connections);
        bail!("this machine cannot carry {connections} connections:\n  - {}", told.join("\n  - "));
    }
    Ok(())
}
