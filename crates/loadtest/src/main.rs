//! The `presence-loadtest` binary: reads the command line and leaves the rest to the library.

use std::process::ExitCode;

use clap::Parser;
use presence_loadtest::args::Cli;

/// Many small objects that live long: half the fragmentation of the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    presence_loadtest::execute(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("presence-loadtest: {error:#}");
        ExitCode::from(2)
    })
}
