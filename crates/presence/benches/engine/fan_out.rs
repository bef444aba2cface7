//! Telling: one user's change goes through the store to 10,000 sessions, and each has its frame taken.

use criterion::{Criterion, Throughput};
use presence::Config;
use presence_protocol::{Show, Status};

use crate::house::{House, next_frame, user};

const WATCHERS: usize = 10_000;

pub(crate) fn bench(criterion: &mut Criterion) {
    let house = House::new(&Config::default());
    let watched = house.join(user(0));
    let watchers: Vec<_> = (1..=WATCHERS).map(|number| house.join(user(number))).collect();
    for watcher in &watchers {
        house.watch(watcher, vec![user(0)]);
    }
    let mut shows = [Show::Away, Show::Busy].into_iter().cycle();
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Elements(WATCHERS as u64));
    group.bench_function("a change told to 10,000 watchers", |bencher| {
        bencher.iter(|| {
            let show = shows.next().expect("they go round");
            house.runtime.block_on(async {
                watched.set_status(Status { show, text: None });
                for watcher in &watchers {
                    next_frame(watcher).await;
                }
            });
        });
    });
    group.finish();
}
