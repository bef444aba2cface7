//! What the engine's own work costs, without sockets and with the store in this process: watching,
//! telling watchers, holding losses back, and turning the wheel. Uses only what a gateway uses.
//!
//!     make bench ARGS=engine

mod fan_out;
mod grace;
mod house;
mod watch;
mod wheel;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    watch::bench(&mut criterion);
    fan_out::bench(&mut criterion);
    grace::bench(&mut criterion);
    wheel::bench(&mut criterion);
    criterion.final_summary();
}
