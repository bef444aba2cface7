//! The `presence-gateway` binary: settings, logs, start, wait for a signal, drain.

use std::process::ExitCode;

use anyhow::{Context, Result};
use presence_gateway::auth::sign;
use presence_gateway::settings::{Command, Settings};
use presence_gateway::{Gateway, logs, open_files};
use presence_protocol::UserId;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

/// Small objects of many sockets, made and freed on all cores: half the fragmentation of the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many sessions may be served before it is looked again whose sockets have something to read: when a user comes, all
/// who watch it are told at once, and whoever asks meanwhile would wait for up to 61 of them, as tokio has it by itself.
const SESSIONS_BETWEEN_LOOKS: u32 = 8;

fn main() -> ExitCode {
    let settings = Settings::load().unwrap_or_else(|error| error.exit());
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With its causes, on one line.
            eprintln!("presence-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> Result<()> {
    match &settings.command {
        Some(Command::Key { user }) => {
            print_keys(&settings, user);
            Ok(())
        }
        Some(Command::Token { user, expires }) => {
            println!("{}", sign(&settings, user, *expires)?);
            Ok(())
        }
        None => serve(settings),
    }
}

fn print_keys(settings: &Settings, user: &UserId) {
    let keys = presence::store::redis::keys_of(&settings.prefix, user);
    println!("{}", keys.user);
    println!("{}", keys.seen);
}

fn serve(settings: Settings) -> Result<()> {
    let mut runtime = Builder::new_multi_thread();
    runtime.enable_all().event_interval(SESSIONS_BETWEEN_LOOKS);
    let runtime = runtime.build().context("cannot start the threads")?;
    runtime.block_on(serve_until_stopped(settings))
}

async fn serve_until_stopped(mut settings: Settings) -> Result<()> {
    let logs = logs::start(&settings)?;
    let lowered = open_files::fit(&mut settings);
    let mut stop = Stop::listen()?;
    let drain = settings.drain;
    let page_scheme = settings.dev.then_some(if settings.tls.is_some() { "https" } else { "http" });
    let gateway = Gateway::start(settings).await?;
    logs.tell_start(&gateway.summary());
    if let Some(lowered) = lowered {
        info!("{lowered}");
    }
    info!(addr = %gateway.addr(), "listening");
    if let Some(scheme) = page_scheme {
        info!("demo page: {scheme}://{}/", gateway.addr());
    }
    stop.requested().await;
    info!(
        seconds = drain.as_secs_f32(),
        "stopping: clients are sent elsewhere; a second signal stops at once"
    );
    tokio::select! {
        () = gateway.drain(drain) => {}
        () = stop.requested() => warn!("stopped at once"),
    }
    Ok(())
}

/// The signals that stop the gateway: SIGTERM and SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
