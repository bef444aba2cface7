//! What tests, the promise check and the simulation need and a gateway does not: a Redis of their own, servers and links
//! that misbehave, and waiting without sleeps.
//!
//! Everything here panics with a sentence when it fails, and ends with the test process, however that ends.

mod authority;
mod cluster;
mod fake;
mod keeper;
mod link;
mod redis;
mod resp;
mod sentinel;
mod tls;
mod wait;

pub use authority::Authority;
pub use cluster::RedisCluster;
pub use fake::FakeRedis;
pub use keeper::{KeptProcess, Scratch, redis_is_missing};
pub use link::FaultyLink;
pub use redis::{RedisServer, free_port};
pub use sentinel::RedisSentinel;
pub use tls::{ClientCertificates, TlsRedis};
pub use wait::eventually;
