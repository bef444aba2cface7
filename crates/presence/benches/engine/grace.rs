//! Grace: 1,000 watched users drop and are back at once. Their losses are held back and cancelled, and
//! nobody is told.

use criterion::{Criterion, Throughput};
use presence::{Config, Session};

use crate::house::{House, user};

const USERS: usize = 1_000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let house = House::new(&Config::default());
    let join_all =
        || -> Vec<Session> { (0..USERS).map(|number| house.begin(user(number))).collect() };
    let mut sessions = join_all();
    let watcher = house.join(user(USERS));
    house.watch(&watcher, (0..USERS).map(user).collect());
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Elements(USERS as u64));
    group.bench_function("1,000 users drop and are back", |bencher| {
        bencher.iter(|| {
            house.runtime.block_on(async {
                let heard = house.counter("transitions_total");
                let hidden = house.counter("flaps_hidden_total");
                sessions.clear();
                house.run_until("transitions_total", heard + USERS as u64).await;
                sessions = join_all();
                house.run_until("flaps_hidden_total", hidden + USERS as u64).await;
            });
        });
    });
    group.finish();
}
