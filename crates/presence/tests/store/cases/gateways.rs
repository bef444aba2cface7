//! One user on several gateways, and on one that is drained.

use presence::store::{Cause, Claim};

use super::{HOUR, seen};
use crate::world::{World, join, labels, leave, user};

pub(crate) async fn a_user_of_two_gateways_is_online_until_the_last_leaves(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    let since = g1.look("ana").await.view.since;
    g2.join("ana", "web").await;
    let both = g1.look("ana").await.view;
    assert_eq!(labels(&both), ["ios", "web"]);
    assert_eq!(both.gateways, ["g1", "g2"]);
    g1.leave("ana", Cause::Bye).await;
    let one = g1.look("ana").await;
    assert!(one.view.is_online());
    assert_eq!((labels(&one.view), one.held), (vec!["web"], None));
    assert_eq!(one.view.since, since);
    g2.leave("ana", Cause::Bye).await;
    assert!(!g1.shown("ana").await.is_online());
}

pub(crate) async fn a_late_leave_of_an_old_gateway_does_not_override_a_newer_join(world: World) {
    let (old, new) = (world.gateway("old").await, world.gateway("new").await);
    old.join("ana", "ios").await;
    new.join("ana", "ios").await;
    let before = new.look("ana").await.view;
    old.apply(Claim { age: HOUR, ..leave("ana", Cause::Silent) }).await;
    let after = new.look("ana").await;
    assert_eq!((seen(&after.view), after.held), (seen(&before), None));
    assert_eq!(after.view.gateways, ["new"]);
}

pub(crate) async fn repeating_a_claim_changes_nothing(world: World) {
    let mut g = world.gateway("g").await;
    for claim in [join("ana", "ios"), leave("ana", Cause::Closed)] {
        g.apply(claim.clone()).await;
        let before = g.look("ana").await.view;
        g.apply(claim).await;
        assert_eq!(g.look("ana").await.view, before);
    }
    g.join("end", "ios").await;
    assert_eq!(g.heard("ana").await.cause(), Some(Cause::Joined));
    assert_eq!(g.heard("ana").await.cause(), Some(Cause::Closed));
    g.heard("end").await;
}

pub(crate) async fn the_hold_is_that_of_the_last_loss_in_whatever_order_they_are_told(
    world: World,
) {
    let (stopped, other) = (world.gateway("stopped").await, world.gateway("other").await);
    // Of one look, so that nothing is held back when the first of them is told.
    stopped.join("ana", "ios").await;
    other.join("ana", "ios").await;
    other.leave("ana", Cause::Closed).await;
    let grace = world.config.grace;
    stopped.apply(Claim { age: grace / 2, ..leave("ana", Cause::Closed) }).await;
    let held = stopped.look("ana").await.held;
    assert!(held.as_ref().is_some_and(|held| held.remaining > grace * 3 / 4), "{held:?}");
}

pub(crate) async fn a_loss_that_is_told_again_does_not_shorten_the_hold_of_a_later_one(
    world: World,
) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    g1.leave("ana", Cause::Closed).await;
    g2.join("ana", "web").await;
    g2.leave("ana", Cause::Closed).await;
    let grace = world.config.grace;
    g1.apply(Claim { age: grace / 2, ..leave("ana", Cause::Closed) }).await;
    let held = g1.look("ana").await.held;
    assert!(held.as_ref().is_some_and(|held| held.remaining > grace * 3 / 4), "{held:?}");
}

pub(crate) async fn losses_that_are_all_told_again_do_not_shorten_the_hold_of_the_last(
    world: World,
) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    let grace = world.config.grace;
    let earlier = || Claim { age: grace / 2, ..leave("ana", Cause::Closed) };
    g1.join("ana", "ios").await;
    g2.join("ana", "web").await;
    g2.leave("ana", Cause::Closed).await;
    g1.apply(earlier()).await;
    // A little of the hold is gone by then.
    g2.apply(Claim { age: grace / 100, ..leave("ana", Cause::Closed) }).await;
    g1.apply(earlier()).await;
    let held = g1.look("ana").await.held;
    assert!(held.as_ref().is_some_and(|held| held.remaining > grace * 3 / 4), "{held:?}");
}

pub(crate) async fn a_drained_user_stays_shown_and_is_dropped_by_a_bye_elsewhere(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    let before = g1.look("ana").await.view;
    g1.leave("ana", Cause::Drained).await;
    let drained = g2.look("ana").await;
    assert_eq!(drained.shown(), &before);
    assert!(drained.held.is_some_and(|held| held.remaining > world.config.ttl / 2));
    g2.join("ana", "ios").await;
    g2.leave("ana", Cause::Bye).await;
    let gone = g1.look("ana").await;
    assert_eq!(gone.held, None);
    assert!(!gone.view.is_online());
    assert_eq!(g1.refresh(&["ana"]).await, [user("ana")], "nothing is left of the drained gateway");
}

pub(crate) async fn a_place_that_a_drain_keeps_outlives_the_loss_of_another_session(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    g2.join("ana", "web").await;
    g1.leave("ana", Cause::Drained).await;
    // Its own hold is over already.
    g2.apply(Claim { age: world.config.grace, ..leave("ana", Cause::Closed) }).await;
    let gone = g2.look("ana").await;
    assert!(gone.shown().is_online());
    assert!(gone.held.is_some_and(|held| held.remaining > world.config.ttl / 2));
}

pub(crate) async fn a_drained_user_who_comes_back_elsewhere_never_changed(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    let before = g1.look("ana").await.view;
    g1.leave("ana", Cause::Drained).await;
    g2.join("ana", "ios").await;
    let back = g1.look("ana").await;
    assert_eq!(back.held, None);
    assert!(back.view.looks_like(&before));
    assert_eq!((back.view.since, back.view.gateways), (before.since, vec!["g2".to_owned()]));
}

pub(crate) async fn a_drained_user_who_does_not_come_back_is_offline_after_the_ttl(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.leave("ana", Cause::Drained).await;
    let over = g.look_until("the TTL ends", "ana", |standing| standing.held.is_none()).await;
    assert!(!over.view.is_online());
}
