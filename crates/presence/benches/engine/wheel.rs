//! The wheel: one tick with 100,000 sessions, and the 500 heartbeats that come in its time.

use std::time::Duration;

use criterion::Criterion;
use presence::{Config, Session};
use tokio::time::advance;

use crate::house::{House, user};

const SESSIONS: usize = 100_000;

/// The wheel's own step.
const TICK: Duration = Duration::from_millis(50);

pub(crate) fn bench(criterion: &mut Criterion) {
    // Vouching, which is the store's business, is far away.
    let config = Config { ttl: Duration::from_hours(1), ..Config::default() };
    let house = House::paused(&config);
    let sessions: Vec<Session> = (0..SESSIONS).map(|number| house.join(user(number))).collect();
    let ticks_per_heartbeat = (config.heartbeat.as_millis() / TICK.as_millis()) as usize;
    let mut turns = sessions.chunks(SESSIONS / ticks_per_heartbeat).cycle();
    let mut tick = || {
        for session in turns.next().expect("they go round") {
            session.heard();
        }
        house.runtime.block_on(advance(TICK));
    };
    // All joined at one moment; after this, each is looked at when its own heartbeat is due.
    (0..2 * ticks_per_heartbeat).for_each(|_| tick());
    criterion.bench_function("engine/a tick of the wheel, 100,000 sessions", |bencher| {
        bencher.iter(&mut tick);
    });
}
