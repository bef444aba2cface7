//! Many users at once, in the order asked, whatever their names; and what every gateway hears.

use std::time::Duration;

use presence::store::{BATCH_LEN_MAX, Cause};
use presence_protocol::{Show, StatusText, USER_ID_LEN_MAX};

use super::HOUR;
use crate::world::{World, join, labels, set_status, user};

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
