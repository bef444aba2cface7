//! Watching: a session adds 200 users to its list, is answered from memory, and forgets them again.

use criterion::Criterion;
use presence::{Config, Request, Veils};

use crate::house::{House, ready_frame, user};

const CONTACTS: usize = 200;

pub(crate) fn bench(criterion: &mut Criterion) {
    let house = House::new(&Config::default());
    let users: Vec<_> = (0..CONTACTS).map(user).collect();
    // Since somebody else watches them, they are known here, and the store is not asked.
    let other = house.join(user(CONTACTS));
    house.watch(&other, users.clone());
    let session = house.join(user(CONTACTS + 1));
    criterion.bench_function("engine/watch 200 known users and forget them", |bencher| {
        bencher.iter(|| {
            session.request(Request::Watch { users: users.clone(), veils: Veils::new(), id: None });
            let snapshot = ready_frame(&session);
            session.request(Request::Unwatch { users: users.clone() });
            snapshot
        });
    });
}
