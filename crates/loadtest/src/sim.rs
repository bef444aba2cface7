//! The simulation: virtual sessions without sockets, driven straight into presence engines and a real
//! Redis, to see what the way from a heartbeat to the store costs by itself.
//!
//! What a socket does to a session is done by calls: it joins, is heard, is asked for its frames, and
//! ends. One loop does that for all of them, and must stay cheaper than what it drives: there is no
//! task, timer or channel for a session here.
//!
//! Read in this order: `args` and `plan` (what to do), `rhythm` and `turns` (when), `gateways` and
//! `crowd` (the engines, and who sits in them), `seen` (what their clients are told), `set_ex` (the
//! same heartbeats without engines, to compare), `meter` (what that took), `stages` (one after the
//! other), `progress` and `report`.

pub(crate) mod args;
mod plan;

mod rhythm;
mod turns;

mod crowd;
mod gateways;
mod seen;
mod set_ex;

mod meter;
mod tally;

mod stages;

mod progress;
mod report;

use std::process::ExitCode;

use anyhow::{Result, bail};
use presence_testkit::{RedisServer, redis_is_missing};
use tokio::runtime::Builder;

use crate::reported::{Files, work_and_tell};
use args::SimArgs;
use plan::Plan;

/// Simulates; fails when anybody who was online was shown or read offline, or a session was ended.
pub(crate) fn simulate(args: &SimArgs) -> Result<ExitCode> {
    let plan = Plan::of(args)?;
    let files = Files::open(args.json.as_deref(), None)?;
    let own_server;
    let url = if let Some(url) = &args.redis_url {
        url.clone()
    } else {
        if let Some(why) = redis_is_missing() {
            bail!("{why}, or name one that runs by --redis-url");
        }
        own_server = RedisServer::start();
        own_server.url()
    };
    // The clients have a thread and timers of their own: what they take is not the engines'.
    let engines = Builder::new_multi_thread().enable_all().build()?;
    let told = work_and_tell(
        Builder::new_current_thread(),
        stages::run(&plan, &url, engines.handle()),
        files,
    );
    engines.shutdown_background();
    told
}
