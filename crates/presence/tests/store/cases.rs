//! The cases of the contract. Each takes an empty store.

use std::time::Duration;

use presence::store::view::View;
use presence::store::{BATCH_LEN_MAX, Cause, Claim, Contribution};
use presence_protocol::{Show, StatusText, USER_ID_LEN_MAX};
use presence_testkit::eventually;

pub(crate) use crate::notices::{
    every_gateway_hears_every_notice_as_it_was_told,
    orders_are_read_in_pages_and_forgotten_when_they_are_old,
    orders_are_remembered_with_the_latest_of_their_dates,
};
use crate::world::{Gateway, PATIENCE, World, device, join, labels, leave, set_status, user};

const HOUR: Duration = Duration::from_hours(1);
const HOUR_MS: u64 = 3_600_000;

/// How far apart two moments may be that are meant to be the same, in ms.
const SLACK_MS: u64 = 10_000;

fn wall_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_millis() as u64
}

fn assert_about(found: Option<u64>, expected: u64) {
    let found = found.expect("a since");
    assert!(found.abs_diff(expected) < SLACK_MS, "{found} is not about {expected}");
}

/// What a watcher can tell apart, with the version and the age.
fn seen(view: &View) -> View {
    View { gateways: Vec::new(), ..view.clone() }
}

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
        g.apply(Claim { age: world.config.grace / 2, ..leave(name, cause) }).await;
        let standing = g.look(name).await;
        assert!(!standing.view.is_online());
        assert_eq!(standing.shown(), &before);
        let remaining = standing.held.expect("it is held back").remaining;
        // A store may count in whole milliseconds, and then rounds up.
        assert!(remaining <= world.config.grace / 2 + Duration::from_millis(1), "{remaining:?}");
        assert!(remaining > world.config.grace / 4, "{remaining:?}");
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

pub(crate) async fn a_snapshot_answers_in_the_order_asked(world: World) {
    let g = world.gateway("g").await;
    for name in ["a", "c", "e"] {
        g.join(name, "ios").await;
    }
    let asked: Vec<_> = ["e", "never", "c", "b", "a", "c"].map(user).to_vec();
    let standings = g.store().snapshot(asked.clone()).await.expect("a snapshot");
    let answered: Vec<_> = standings.iter().map(|standing| standing.user.clone()).collect();
    assert_eq!(answered, asked);
    let online: Vec<_> = standings.iter().map(|standing| standing.view.is_online()).collect();
    assert_eq!(online, [true, false, true, false, true, true]);
    assert!(standings[1].view.is_no_trace());
}

pub(crate) async fn five_hundred_users_go_in_one_call(world: World) {
    let mut g = world.gateway("g").await;
    let names: Vec<_> = (0..BATCH_LEN_MAX).map(|number| format!("user-{number}")).collect();
    let users: Vec<_> = names.iter().map(|name| user(name)).collect();
    let claims = names.iter().map(|name| join(name, "ios")).collect();
    g.store().apply(claims).await.expect("the claims are taken");
    assert!(g.store().refresh(users.clone()).await.expect("a refresh").is_empty());
    let standings = g.store().snapshot(users.clone()).await.expect("a snapshot");
    for (standing, asked) in standings.iter().zip(&users) {
        assert_eq!(&standing.user, asked);
        assert!(standing.view.is_online());
    }
    assert_eq!(standings.len(), BATCH_LEN_MAX);
    let mut heard = 0;
    while heard < BATCH_LEN_MAX {
        if let presence::store::Event::Transitions(transitions) = g.event().await {
            heard += transitions.len();
        }
    }
    assert_eq!(heard, BATCH_LEN_MAX);
}

pub(crate) async fn an_empty_batch_is_nothing(world: World) {
    let g = world.gateway("g").await;
    g.store().apply(Vec::new()).await.expect("nothing to do");
    assert!(g.store().refresh(Vec::new()).await.expect("nothing to do").is_empty());
    assert!(g.store().snapshot(Vec::new()).await.expect("nothing to do").is_empty());
    g.store().renew().await.expect("it answers");
}

pub(crate) async fn every_gateway_hears_every_change_its_own_included(world: World) {
    let mut gateways = [world.gateway("g1").await, world.gateway("g2").await];
    gateways[0].join("ana", "ios").await;
    gateways[0].apply(set_status("ana", "ios", Show::Away, "out", Duration::ZERO)).await;
    gateways[0].leave("ana", Cause::Closed).await;
    let last = gateways[1].look("ana").await;
    for g in &mut gateways {
        let joined = g.heard("ana").await;
        assert_eq!(joined.cause(), Some(Cause::Joined));
        assert!(joined.view.is_online() && joined.held.is_none());
        let changed = g.heard("ana").await;
        assert_eq!((changed.cause(), changed.view.show), (Some(Cause::Status), Some(Show::Away)));
        let closed = g.heard("ana").await;
        assert_eq!(closed.cause(), Some(Cause::Closed));
        assert_eq!(closed.view, last.view);
        let held = closed.held.expect("it is held back");
        assert_eq!(held.before, changed.view);
        assert!(held.remaining > world.config.grace / 2);
    }
}

pub(crate) async fn odd_user_ids_and_texts_come_back_as_they_went_in(world: World) {
    let mut g = world.gateway("g").await;
    let longest = "é".repeat(USER_ID_LEN_MAX / 2);
    for name in [
        "{",
        "}",
        "{1}",
        "}:user:{",
        " ",
        "a b",
        "\n",
        "a\r\nb\n0 c",
        "\"'\\",
        "🦀 ü",
        "*?[a]",
        "\0",
        "%d%s",
        ".",
        ",",
        longest.as_str(),
    ] {
        let line = "  . , at \"lunch\" 🍜 {1} ";
        g.apply(set_status(name, "-_9", Show::Busy, line, HOUR)).await;
        let view = g.look(name).await.view;
        assert_eq!(view.text.as_ref().map(StatusText::as_str), Some(line), "{name:?}");
        assert_eq!((labels(&view), view.show), (vec!["-_9"], Some(Show::Busy)), "{name:?}");
        assert_eq!(g.heard(name).await.view, view);
        assert!(g.refresh(&[name]).await.is_empty(), "{name:?}");
        g.leave(name, Cause::Bye).await;
        assert!(!g.look(name).await.view.is_online(), "{name:?}");
    }
}

/// One of two sessions closed before the store was told of either: what is claimed is a close, and amounts to a gain.
pub(crate) async fn who_was_offline_is_online_at_once_whatever_the_cause(world: World) {
    let gateway = world.gateway("g").await;
    for (name, cause) in [("bo", Cause::Closed), ("cy", Cause::Silent)] {
        gateway.apply(Claim { cause, ..join(name, "web") }).await;
        assert!(gateway.shown(name).await.is_online(), "{name}");
    }
}
