//! The Rust client against real gateways: it comes back by itself, and what it shows is right.

use presence_client::{Client as RustClient, Credential, Freshness, Known, Options};
use presence_protocol::{Availability, Format};
use presence_testkit::eventually;
use std::time::Duration;

use crate::client::{Client, PATIENCE, user};
use crate::house::{SLOW, prefix, shared_redis};
use crate::process::Process;

/// A client that comes back quickly.
fn connect(gateway: &Process) -> RustClient {
    let url = format!("ws://{}/ws", gateway.addr).parse().expect("a URL");
    RustClient::connect(Options {
        backoff_min: Duration::from_millis(20),
        backoff_max: Duration::from_millis(200),
        ..Options::new(url, Credential::User(user("a")))
    })
}

/// Waits until the client shows a user so, as heard on its present connection.
async fn until_shown(client: &RustClient, name: &str, wanted: Availability) -> Known {
    let shown = async || {
        let known = client.state(&user(name))?;
        (known.state.state == wanted && known.freshness == Freshness::Live).then_some(known)
    };
    eventually(&format!("{name} is shown {wanted:?}"), PATIENCE, shown).await
}

#[tokio::test]
async fn the_rust_client_comes_back_by_itself_and_shows_what_changed_meanwhile() {
    let prefix = prefix();
    let other = Process::start(shared_redis(), &prefix, SLOW, &[]).await;
    let first = Process::start(shared_redis(), &prefix, SLOW, &[]).await;
    let again = format!("--listen={}", first.addr);
    let client = connect(&first);
    client.watch(["b", "c"].map(user));
    let _b = Client::join(other.addr, Format::Json, "b").await;
    let c = Client::join(other.addr, Format::MsgPack, "c").await;
    let before = until_shown(&client, "b", Availability::Online).await;
    until_shown(&client, "c", Availability::Online).await;

    first.signal("KILL").await;
    let stale = async || (client.state(&user("b"))?.freshness == Freshness::Stale).then_some(());
    eventually("the lost connection is noticed", PATIENCE, stale).await;
    c.bye().await;
    let _first = Process::start(shared_redis(), &prefix, SLOW, &[&again]).await;

    until_shown(&client, "c", Availability::Offline).await;
    let after = until_shown(&client, "b", Availability::Online).await;
    assert_eq!(after.state, before.state, "b never changed");
    client.bye().await;
}
