//! Users who are vouched for, and those for whom nobody does any more.

use std::time::Duration;

use presence::store::Cause;
use presence_protocol::Show;
use presence_testkit::eventually;
use tokio::time::{Instant, sleep};

use super::{assert_about, wall_ms};
use crate::world::{PATIENCE, World, labels, set_status, user};

pub(crate) async fn refreshing_answers_the_users_that_are_not_known(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.join("bo", "ios").await;
    g.leave("bo", Cause::Closed).await;
    let mut missing = g.refresh(&["ana", "bo", "cy"]).await;
    missing.sort();
    assert_eq!(missing, [user("bo"), user("cy")]);
}

pub(crate) async fn a_gateway_whose_part_lapsed_is_to_join_again_though_another_kept_the_user_alive(
    world: World,
) {
    let (stalled, other) = (world.gateway("stalled").await, world.gateway("other").await);
    stalled.join("ana", "ios").await;
    other.join("ana", "web").await;
    eventually("the part lapses", PATIENCE, async || {
        assert!(other.refresh(&["ana"]).await.is_empty());
        let ana = other.look("ana").await.view;
        Some(()).filter(|()| ana.gateways == ["other"])
    })
    .await;
    assert_eq!(stalled.refresh(&["ana"]).await, [user("ana")]);
    stalled.join("ana", "ios").await;
    assert!(stalled.refresh(&["ana"]).await.is_empty(), "it is told once");
    assert_eq!(other.look("ana").await.view.gateways, ["other", "stalled"]);
}

pub(crate) async fn a_gateway_whose_user_expired_and_came_elsewhere_is_to_join_it_again(
    world: World,
) {
    let (stalled, other) = (world.gateway("stalled").await, world.gateway("other").await);
    stalled.join("ana", "ios").await;
    // Nobody looks at ana: another, who joined later, tells that her time is over.
    stalled.join("bo", "ios").await;
    other.look_until("bo is offline", "bo", |standing| !standing.view.is_online()).await;
    other.join("ana", "web").await;
    assert_eq!(stalled.refresh(&["ana"]).await, [user("ana")]);
}

pub(crate) async fn refreshing_keeps_a_user_online_past_the_ttl(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.join("bo", "ios").await;
    // One who is not refreshed tells how much time has passed.
    let refresh = async || {
        assert!(g.refresh(&["ana"]).await.is_empty(), "ana lapsed between two refreshes");
        Some(()).filter(|()| false)
    };
    let pass = async || {
        refresh().await;
        let bo = g.look("bo").await;
        Some(()).filter(|()| !bo.view.is_online() && bo.held.is_none())
    };
    eventually("bo is offline", PATIENCE, pass).await;
    let ana = g.look("ana").await;
    assert!(ana.view.is_online());
    assert_eq!(ana.held, None);
}

pub(crate) async fn who_lives_on_unchanged_is_remembered_and_who_is_gone_for_long_is_not(
    world: World,
) {
    let g = world.gateway("g").await;
    g.join("ana", "web").await;
    g.join("bo", "web").await;
    g.join("cy", "web").await;
    let came = g.look("ana").await.view;
    g.leave("bo", Cause::Bye).await;
    // Nothing tells that cy is still here.
    g.apply(set_status("cy", "web", Show::Invisible, "", Duration::ZERO)).await;
    let forgotten = async || {
        assert!(g.refresh(&["ana", "cy"]).await.is_empty());
        assert_eq!(g.look("ana").await.view, came);
        let are = [g.look("bo").await.view.is_no_trace(), g.look("cy").await.view.is_no_trace()];
        are.iter().all(|is_no_trace| *is_no_trace).then_some(())
    };
    eventually("bo and cy are forgotten", PATIENCE, forgotten).await;
    let deadline = Instant::now() + world.config.last_seen;
    while Instant::now() < deadline {
        forgotten().await.expect("for good");
        sleep(world.config.ttl / 8).await;
    }
}

pub(crate) async fn a_user_whose_gateway_stopped_is_found_offline_with_last_seen(world: World) {
    let (mut g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g2.join("ana", "ios").await;
    let joined_ms = wall_ms();
    let version = g1.heard("ana").await.view.version;
    let gone = g1
        .look_until("ana is offline", "ana", |standing| {
            !standing.view.is_online() && standing.held.is_none()
        })
        .await;
    assert!(gone.view.version > version);
    assert_about(gone.view.since, joined_ms);
    assert!(gone.view.since <= Some(joined_ms + 50), "not later than the last sign of life");
    let told = g1.heard("ana").await;
    assert_eq!(told.cause(), Some(Cause::Expired));
    assert_eq!(told.view, gone.view);
    assert_eq!(g2.refresh(&["ana"]).await, [user("ana")]);
}

pub(crate) async fn a_lapsed_user_is_held_back_for_the_grace(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    let before = g.look("ana").await.view;
    let lapsed = g.look_until("ana lapses", "ana", |standing| !standing.view.is_online()).await;
    let held = lapsed.held.expect("it is held back");
    assert_eq!(held.before, before);
    assert!(held.remaining <= world.config.grace && held.remaining > world.config.grace / 2);
}

pub(crate) async fn one_gateway_of_two_that_stops_takes_only_its_devices(world: World) {
    let (living, dead) = (world.gateway("living").await, world.gateway("dead").await);
    dead.join("ana", "ios").await;
    living.join("ana", "web").await;
    let alone = eventually("the dead one's device is gone", PATIENCE, async || {
        assert!(living.refresh(&["ana"]).await.is_empty());
        let standing = living.look("ana").await;
        assert!(standing.view.is_online());
        Some(standing).filter(|standing| labels(&standing.view) == ["web"])
    })
    .await;
    assert_eq!(alone.view.gateways, ["living"]);
}

pub(crate) async fn a_gateway_that_lapsed_for_a_user_of_two_is_told_by_its_refresh(world: World) {
    let (living, stalled) = (world.gateway("living").await, world.gateway("stalled").await);
    stalled.join("ana", "ios").await;
    living.join("ana", "web").await;
    eventually("the stalled one's device is gone", PATIENCE, async || {
        assert!(living.refresh(&["ana"]).await.is_empty());
        let standing = living.look("ana").await;
        Some(()).filter(|()| labels(&standing.view) == ["web"])
    })
    .await;
    // Something else makes it vouch for the bucket again.
    stalled.join("ana2", "ios").await;
    assert_eq!(stalled.refresh(&["ana"]).await, [user("ana")]);
}
