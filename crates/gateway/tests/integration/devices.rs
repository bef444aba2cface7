//! Any device: a user of many sessions, on one gateway and over two.

use std::time::Duration;

use presence_protocol::{Availability, Device, Format, UserState};
use tokio::time::Instant;

use crate::client::Client;
use crate::house::{House, Kind, LATE_MAX, QUICK, on_both_stores};
use crate::http::until_told;

on_both_stores!(
    closing_any_two_of_three_sessions_changes_nothing,
    the_late_end_of_an_old_session_never_overrides_a_newer_one,
    a_shorter_list_of_devices_is_held_back_for_grace,
    a_device_that_is_back_within_grace_causes_no_push,
    a_device_that_signs_out_is_taken_off_the_list_at_once,
);

async fn closing_any_two_of_three_sessions_changes_nothing(kind: Kind) {
    let house = House::new(kind, QUICK).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    let names = ["keeps-first", "keeps-second", "keeps-third"];
    watcher.watch(names).await;
    let mut kept = Vec::new();
    for (keeps, name) in names.into_iter().enumerate() {
        let mut sessions = Vec::new();
        for addr in [house.here(), house.there(), house.there()] {
            sessions.push(Client::join(addr, Format::MsgPack, name).await);
        }
        watcher.expect_online(name).await;
        until_told(house.there()).await;
        kept.push(sessions.remove(keeps));
        let [one, other] = sessions.try_into().ok().expect("two are left");
        one.bye().await;
        other.reset().await;
    }
    watcher.expect_nothing_for(house.times.ttl + house.times.grace * 2).await;
    for (last, name) in kept.into_iter().zip(names) {
        last.bye().await;
        watcher.expect_offline(name).await;
    }
}

async fn the_late_end_of_an_old_session_never_overrides_a_newer_one(kind: Kind) {
    let house = House::new(kind, QUICK).await;
    let mut watcher = Client::join(house.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut old = Client::join(house.here(), Format::Json, "b").await;
    watcher.expect_online("b").await;
    old.freeze().await;
    let _new = Client::join(house.there(), Format::Json, "b").await;
    watcher.expect_nothing_for(house.times.ttl + house.times.grace * 2).await;
    old.wake().await;
    old.expect_close(4004).await;
    watcher.expect_nothing_for(house.times.grace).await;
    assert_eq!(watcher.query(["b"]).await[0].state, Availability::Online);
}

/// A user with a phone here and a tab there, and a watcher who has seen both.
async fn phone_and_tab(house: &House) -> (Client, Client, Client) {
    let mut watcher = Client::join(house.here(), Format::MsgPack, "a").await;
    watcher.watch(["b"]).await;
    let mut phone = Client::dial(house.here(), Format::Json).await;
    phone.hello_from("b", "ios").await;
    assert_eq!(labels(&watcher.expect_online("b").await.state), ["ios"]);
    let mut tab = Client::dial(house.there(), Format::Json).await;
    tab.hello_from("b", "web").await;
    assert_eq!(labels(&watcher.expect_online("b").await.state), ["ios", "web"]);
    (watcher, phone, tab)
}

async fn a_shorter_list_of_devices_is_held_back_for_grace(kind: Kind) {
    let house = House::new(kind, QUICK).await;
    let (mut watcher, _phone, tab) = phone_and_tab(&house).await;
    let dropped = Instant::now();
    tab.reset().await;
    let push = watcher.expect_online("b").await;
    let after = push.at - dropped;
    assert_eq!(labels(&push.state), ["ios"]);
    assert!(after + Duration::from_millis(2) >= house.times.grace, "{after:?} is within the grace");
    assert!(after < house.times.grace + LATE_MAX, "{after:?} is too late");
    watcher.expect_nothing_for(house.times.grace).await;
}

async fn a_device_that_is_back_within_grace_causes_no_push(kind: Kind) {
    let house = House::new(kind, QUICK.grace(Duration::from_secs(1))).await;
    let (mut watcher, _phone, tab) = phone_and_tab(&house).await;
    tab.reset().await;
    let mut tab = Client::dial(house.here(), Format::Json).await;
    tab.hello_from("b", "web").await;
    watcher.expect_nothing_for(house.times.grace * 3 / 2).await;
    assert_eq!(labels(&watcher.query(["b"]).await[0]), ["ios", "web"]);
}

async fn a_device_that_signs_out_is_taken_off_the_list_at_once(kind: Kind) {
    let house = House::new(kind, QUICK.grace(Duration::from_mins(1))).await;
    let (mut watcher, phone, _tab) = phone_and_tab(&house).await;
    phone.bye().await;
    assert_eq!(labels(&watcher.expect_online("b").await.state), ["web"]);
}

fn labels(state: &UserState) -> Vec<&str> {
    state.devices.iter().map(Device::as_str).collect()
}
