//! The gateway from outside: real sockets, real processes, a real Redis started by the tests. One binary.
//!
//! Scenarios that any store must pass run twice, by `on_both_stores!`.

#[path = "integration/app.rs"]
mod app;
#[path = "integration/client.rs"]
mod client;
#[path = "integration/crowd.rs"]
mod crowd;
#[path = "integration/dial.rs"]
mod dial;
#[path = "integration/house.rs"]
mod house;
#[path = "integration/http.rs"]
mod http;
#[path = "integration/key_server.rs"]
mod key_server;
#[path = "integration/observer.rs"]
mod observer;
#[path = "integration/peace.rs"]
mod peace;
#[path = "integration/process.rs"]
mod process;
#[path = "integration/raw.rs"]
mod raw;
#[path = "integration/tokens.rs"]
mod tokens;

#[path = "integration/access.rs"]
mod access;
#[path = "integration/api.rs"]
mod api;
#[path = "integration/callback.rs"]
mod callback;
#[path = "integration/churn.rs"]
mod churn;
#[path = "integration/closes.rs"]
mod closes;
#[path = "integration/dashboard.rs"]
mod dashboard;
#[path = "integration/demo.rs"]
mod demo;
#[path = "integration/devices.rs"]
mod devices;
#[path = "integration/drain.rs"]
mod drain;
#[path = "integration/errors.rs"]
mod errors;
#[path = "integration/failovers.rs"]
mod failovers;
#[path = "integration/gateway_faults.rs"]
mod gateway_faults;
#[path = "integration/grants.rs"]
mod grants;
#[path = "integration/hostile.rs"]
mod hostile;
#[path = "integration/hostile_crowds.rs"]
mod hostile_crowds;
#[path = "integration/invisible.rs"]
mod invisible;
#[path = "integration/key_file.rs"]
mod key_file;
#[path = "integration/key_url.rs"]
mod key_url;
#[path = "integration/lateness.rs"]
mod lateness;
#[path = "integration/limits.rs"]
mod limits;
#[path = "integration/limits_of_http.rs"]
mod limits_of_http;
#[path = "integration/limits_of_memory.rs"]
mod limits_of_memory;
#[path = "integration/orders.rs"]
mod orders;
#[path = "integration/outages.rs"]
mod outages;
#[path = "integration/presence.rs"]
mod presence;
#[path = "integration/proxies.rs"]
mod proxies;
#[path = "integration/redis_away.rs"]
mod redis_away;
#[path = "integration/redis_link.rs"]
mod redis_link;
#[path = "integration/redis_refuses.rs"]
mod redis_refuses;
#[path = "integration/rust_client.rs"]
mod rust_client;
#[path = "integration/sessions.rs"]
mod sessions;
#[path = "integration/snapshots.rs"]
mod snapshots;
#[path = "integration/start.rs"]
mod start;
#[path = "integration/storms.rs"]
mod storms;
#[path = "integration/tls.rs"]
mod tls;
#[path = "integration/token_table.rs"]
mod token_table;
#[path = "integration/unseen.rs"]
mod unseen;
#[path = "integration/upgrade.rs"]
mod upgrade;
#[path = "integration/veiled.rs"]
mod veiled;
