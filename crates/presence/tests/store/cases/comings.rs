//! One user on one gateway, or on one after the other: comes, leaves, and is back.

use std::time::{Duration, Instant};

use presence::store::{Cause, Claim, Contribution, Standing};
use presence_protocol::Show;

use super::{HOUR, HOUR_MS, assert_about, wall_ms};
use crate::world::{ROUNDING, World, device, join, labels, leave, set_status};

pub(crate) async fn joining_shows_a_user_online_since_the_session_began(world: World) {
    let g = world.gateway("g").await;
    assert!(g.look("ana").await.view.is_no_trace());
    let contribution =
        Contribution { devices: vec![device("ios")], status: None, online_for: HOUR };
    g.apply(Claim { contribution: Some(contribution), ..join("ana", "ios") }).await;
    let standing = g.look("ana").await;
    assert!(standing.view.is_online());
    assert_eq!(standing.held, None);
    assert_eq!(labels(&standing.view), ["ios"]);
    assert_eq!(standing.view.gateways, ["g"]);
    assert_about(standing.view.since, wall_ms() - HOUR_MS);
    assert_about(Some(standing.view.version / 1000), wall_ms());
}

pub(crate) async fn a_bye_is_offline_at_once_with_last_seen(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    let online = g.look("ana").await.view;
    g.apply(Claim { silence: HOUR, ..leave("ana", Cause::Bye) }).await;
    let gone = g.look("ana").await;
    assert!(!gone.view.is_online());
    assert_eq!(gone.held, None);
    assert!(gone.view.version > online.version);
    assert!(gone.view.devices.is_empty() && gone.view.gateways.is_empty());
    assert_about(gone.view.since, wall_ms() - HOUR_MS);
}

pub(crate) async fn a_closed_socket_is_held_back_for_the_grace(world: World) {
    let g = world.gateway("g").await;
    for (name, cause) in [("ana", Cause::Closed), ("bo", Cause::Silent)] {
        g.join(name, "ios").await;
        let before = g.look(name).await.view;
        let left = Instant::now();
        g.apply(Claim { age: world.config.grace / 2, ..leave(name, cause) }).await;
        let standing = g.look(name).await;
        assert!(!standing.view.is_online());
        assert_eq!(standing.shown(), &before);
        let remaining = standing.held.expect("it is held back").remaining;
        assert!(remaining <= world.config.grace / 2 + ROUNDING, "{remaining:?}");
        assert!(remaining + left.elapsed() >= world.config.grace / 2, "{remaining:?}");
    }
}

pub(crate) async fn a_bye_that_comes_late_ends_the_hold(world: World) {
    let (g, mut other) = (world.gateway("g").await, world.gateway("other").await);
    g.join("ana", "ios").await;
    g.leave("ana", Cause::Closed).await;
    let held = g.look("ana").await;
    assert!(held.held.is_some());
    g.leave("ana", Cause::Bye).await;
    let standing = g.look("ana").await;
    assert_eq!((standing.held, standing.view.version), (None, held.view.version));
    for _ in 0..2 {
        other.heard("ana").await;
    }
    let told = other.heard("ana").await;
    assert_eq!((told.cause(), told.held), (Some(Cause::Bye), None));
}

pub(crate) async fn a_held_back_loss_is_over_after_the_grace(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.leave("ana", Cause::Closed).await;
    let over = g.look_until("the grace ends", "ana", |standing| standing.held.is_none()).await;
    assert!(!over.shown().is_online());
    assert_eq!(g.shown("ana").await, over.view);
}

pub(crate) async fn a_loss_that_is_older_than_the_grace_is_not_held_back(world: World) {
    let g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.apply(Claim { age: world.config.grace, ..leave("ana", Cause::Silent) }).await;
    assert_eq!(g.look("ana").await.held, None);
    assert!(!g.shown("ana").await.is_online());
}

pub(crate) async fn coming_back_within_grace_restores_the_view_and_its_since(world: World) {
    let g = world.gateway("g").await;
    let hour_ago = Contribution { devices: vec![device("ios")], status: None, online_for: HOUR };
    g.apply(Claim { contribution: Some(hour_ago), ..join("ana", "ios") }).await;
    let before = g.look("ana").await.view;
    g.leave("ana", Cause::Closed).await;
    g.join("ana", "ios").await;
    let back = g.look("ana").await;
    assert_eq!(back.held, None);
    assert!(back.view.looks_like(&before));
    assert_eq!(back.view.since, before.since);
    assert!(back.view.version > before.version);
}

pub(crate) async fn who_is_back_in_another_way_is_due_when_the_hold_ends(world: World) {
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.leave("ana", Cause::Closed).await;
    g.join("ana", "web").await;
    let is_back = |told: &Standing| told.view.is_online() && told.held.is_some();
    let mut told = g.heard("ana").await;
    while !is_back(&told) {
        told = g.heard("ana").await;
    }
    let due_ms = told.change.expect("news").due_ms;
    assert_about(Some(due_ms), wall_ms() + world.config.grace.as_millis() as u64);
}

pub(crate) async fn coming_back_elsewhere_within_grace_restores_the_view(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.apply(set_status("ana", "ios", Show::Busy, "call", HOUR)).await;
    let before = g1.look("ana").await.view;
    g1.leave("ana", Cause::Closed).await;
    // Piece by piece: the device first, then its status.
    g2.join("ana", "ios").await;
    assert_eq!(g1.shown("ana").await, before);
    g2.apply(set_status("ana", "ios", Show::Busy, "call", HOUR)).await;
    let back = g1.look("ana").await;
    assert_eq!(back.held, None);
    assert!(back.view.looks_like(&before));
    assert_eq!(back.view.since, before.since);
    assert_eq!(back.view.gateways, ["g2"]);
}

pub(crate) async fn versions_grow_with_every_visible_change_and_only_with_those(world: World) {
    let g = world.gateway("g").await;
    let mut version = 0;
    for claim in [
        join("ana", "ios"),
        join("ana", "web"),
        set_status("ana", "web", Show::Away, "", Duration::ZERO),
        set_status("ana", "web", Show::Away, "lunch", Duration::ZERO),
        leave("ana", Cause::Closed),
        join("ana", "web"),
        leave("ana", Cause::Bye),
    ] {
        for (times, grows) in [(1, true), (2, false)] {
            g.apply(claim.clone()).await;
            let now = g.look("ana").await.view.version;
            assert_eq!(now > version, grows, "{times} times {claim:?}: {version} to {now}");
            version = now;
        }
    }
    assert!(version < 1 << 53);
}

/// One of two sessions closed before the store was told of either: what is claimed is a close, and amounts to a gain.
pub(crate) async fn who_was_offline_is_online_at_once_whatever_the_cause(world: World) {
    let gateway = world.gateway("g").await;
    for (name, cause) in [("bo", Cause::Closed), ("cy", Cause::Silent)] {
        gateway.apply(Claim { cause, ..join(name, "web") }).await;
        assert!(gateway.shown(name).await.is_online(), "{name}");
    }
}
