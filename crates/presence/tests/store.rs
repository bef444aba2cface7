//! The store, held to its contract: the same cases for the embedded one, for Redis and for a Redis Cluster, and what
//! only a Redis can do to us. One binary; Redis servers are started by the tests.

#[path = "store/cases.rs"]
mod cases;
#[path = "store/cluster.rs"]
mod cluster;
#[path = "store/contract.rs"]
mod contract;
#[path = "store/equivalence.rs"]
mod equivalence;
#[path = "store/faults.rs"]
mod faults;
#[path = "store/keys.rs"]
mod keys;
#[path = "store/leases.rs"]
mod leases;
#[path = "store/lost_keys.rs"]
mod lost_keys;
#[path = "store/notices.rs"]
mod notices;
#[path = "store/opening.rs"]
mod opening;
#[path = "store/permissions.rs"]
mod permissions;
#[path = "store/sentinel.rs"]
mod sentinel;
#[path = "store/tls.rs"]
mod tls;
#[path = "store/world.rs"]
mod world;
