//! The cases of the contract. Each takes an empty store.

#[path = "cases/batches.rs"]
mod batches;
#[path = "cases/comings.rs"]
mod comings;
#[path = "cases/gateways.rs"]
mod gateways;
#[path = "cases/lapses.rs"]
mod lapses;
#[path = "cases/looks.rs"]
mod looks;

use std::time::Duration;

use presence::store::view::View;

pub(crate) use crate::notices::{
    every_gateway_hears_every_notice_as_it_was_told,
    orders_are_read_in_pages_and_forgotten_when_they_are_old,
    orders_are_remembered_with_the_latest_of_their_dates,
};
pub(crate) use batches::*;
pub(crate) use comings::*;
pub(crate) use gateways::*;
pub(crate) use lapses::*;
pub(crate) use looks::*;

const HOUR: Duration = Duration::from_hours(1);
const HOUR_MS: u64 = 3_600_000;

/// How far apart two moments may be that are meant to be the same, in ms.
const SLACK_MS: u64 = 10_000;

fn wall_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_millis() as u64
}

fn assert_about(found: Option<u64>, expected: u64) {
    let found = found.expect("a since");
    assert!(found.abs_diff(expected) < SLACK_MS, "{found} is not about {expected}");
}

/// What a watcher can tell apart, with the version and the age.
fn seen(view: &View) -> View {
    View { gateways: Vec::new(), ..view.clone() }
}
