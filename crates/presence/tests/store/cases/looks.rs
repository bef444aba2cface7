//! How a user wants to be seen: status, and not at all.

use std::time::Duration;

use presence::store::Cause;
use presence::store::view::View;
use presence_protocol::{Show, StatusText};

use super::{HOUR, assert_about, seen, wall_ms};
use crate::world::{Gateway, World, labels, set_status, user};

pub(crate) async fn the_status_that_was_set_last_wins_over_devices(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.apply(set_status("ana", "ios", Show::Busy, "in a call", HOUR)).await;
    g2.apply(set_status("ana", "web", Show::Away, "older", 2 * HOUR)).await;
    let view = g1.look("ana").await.view;
    assert_eq!(
        (view.show, view.text.as_ref().map(StatusText::as_str)),
        (Some(Show::Busy), Some("in a call"))
    );
    g2.apply(set_status("ana", "web", Show::Online, "", Duration::ZERO)).await;
    let view = g1.look("ana").await.view;
    assert_eq!((view.show, view.text), (None, None));
    g2.leave("ana", Cause::Bye).await;
    assert_eq!(g1.look("ana").await.view.show, Some(Show::Busy));
}

pub(crate) async fn a_session_without_status_does_not_hide_another_ones(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.apply(set_status("ana", "ios", Show::Away, "", HOUR)).await;
    g2.join("ana", "web").await;
    let view = g1.look("ana").await.view;
    assert_eq!((view.show, labels(&view)), (Some(Show::Away), vec!["ios", "web"]));
}

async fn hide(g: &Gateway, name: &str) {
    g.apply(set_status(name, "ios", Show::Invisible, "secret", Duration::ZERO)).await;
}

pub(crate) async fn an_invisible_user_looks_like_one_who_left(world: World) {
    let mut g = world.gateway("g").await;
    for name in ["ana", "bo"] {
        g.join(name, "ios").await;
    }
    hide(&g, "ana").await;
    g.leave("bo", Cause::Bye).await;
    let (ana, bo) = (g.look("ana").await, g.look("bo").await);
    assert!(!ana.view.is_online() && ana.held.is_none());
    assert!(ana.view.looks_like(&bo.view));
    assert_about(ana.view.since, bo.view.since.expect("bo was seen"));
    assert_eq!(g.heard("ana").await.cause(), Some(Cause::Joined));
    assert!(!g.heard("ana").await.view.is_online());
}

pub(crate) async fn what_an_invisible_user_does_leaks_nothing(world: World) {
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    g1.join("ana", "ios").await;
    hide(&g1, "ana").await;
    let hidden = seen(&g1.look("ana").await.view);
    hide(&g1, "ana").await;
    assert_eq!(seen(&g1.look("ana").await.view), hidden, "hiding twice");
    g2.apply(set_status("ana", "web", Show::Away, "older", HOUR)).await;
    assert_eq!(seen(&g1.look("ana").await.view), hidden, "another device with an older status");
    g2.join("ana", "web").await;
    g2.leave("ana", Cause::Closed).await;
    assert_eq!(seen(&g1.look("ana").await.view), hidden, "another device that comes and goes");
    assert_eq!(g1.look("ana").await.held, None);
    g1.leave("ana", Cause::Closed).await;
    let left = g1.look("ana").await;
    assert_eq!((seen(&left.view), left.held), (hidden.clone(), None), "closing the socket");
    hide(&g1, "ana").await;
    assert_eq!(seen(&g1.look("ana").await.view), hidden, "coming back hidden");
    g1.apply(set_status("ana", "ios", Show::Online, "", Duration::ZERO)).await;
    let visible = g1.look("ana").await.view;
    assert!(visible.is_online() && visible.version > hidden.version);
}

pub(crate) async fn the_loss_of_an_invisible_session_is_held_as_any_is(world: World) {
    let (phone, laptop) = (world.gateway("phone").await, world.gateway("laptop").await);
    laptop.join("ana", "web").await;
    hide(&phone, "ana").await;
    let hidden = laptop.look("ana").await.view;
    phone.leave("ana", Cause::Closed).await;
    let held = laptop.look("ana").await;
    assert!(held.view.is_online() && !held.shown().is_online(), "{held:?}");
    hide(&phone, "ana").await;
    let back = laptop.look("ana").await;
    assert_eq!((back.held, back.view.is_online(), back.view.since), (None, false, hidden.since));
    phone.leave("ana", Cause::Bye).await;
    assert!(laptop.shown("ana").await.is_online(), "on purpose");
}

pub(crate) async fn who_was_shown_in_a_version_of_elsewhere_gets_a_newer_one(world: World) {
    let mut g = world.gateway("g").await;
    g.join("ana", "ios").await;
    g.heard("ana").await;
    let before = g.look("ana").await.view;
    let shown = before.version + 5_000_000;
    g.store()
        .outdo(vec![(user("ana"), shown), (user("nobody"), shown)])
        .await
        .expect("it is taken");
    let after = g.look("ana").await.view;
    assert!(after.version > shown && after.looks_like(&before), "{after:?}");
    assert_eq!(g.heard("ana").await.view, after);
    g.store().outdo(vec![(user("ana"), shown)]).await.expect("it is taken");
    assert_eq!(g.look("ana").await.view, after);
    assert!(g.look("nobody").await.view.is_no_trace());
}

pub(crate) async fn who_was_here_invisible_is_online_since_being_visible(world: World) {
    let (hidden, other) = (world.gateway("hidden").await, world.gateway("other").await);
    hide(&hidden, "ana").await;
    let mut online = set_status("ana", "web", Show::Online, "", Duration::ZERO);
    online.contribution.as_mut().expect("it is a join").online_for = HOUR;
    other.apply(online).await;
    let view = other.look("ana").await.view;
    assert!(view.is_online());
    assert_about(view.since, wall_ms());
}

pub(crate) async fn a_user_who_was_never_visible_was_never_seen(world: World) {
    let g = world.gateway("g").await;
    hide(&g, "ana").await;
    assert_eq!(
        seen(&g.look("ana").await.view),
        View { version: seen(&g.look("nobody").await.view).version, ..View::NO_TRACE }
    );
    g.leave("ana", Cause::Bye).await;
    assert!(g.look("ana").await.view.is_no_trace());
}
