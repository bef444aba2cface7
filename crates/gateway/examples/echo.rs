//! Echoes on the address that is given, for the conformance tests that `make autobahn` runs.

use std::env;

use anyhow::{Context, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let listen = env::args().nth(1).context("say where to listen, such as 127.0.0.1:9001")?;
    presence_gateway::echo::serve(listen.parse()?).await
}
