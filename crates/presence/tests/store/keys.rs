//! The keys are what the documentation says: an operator with `redis-cli` sees the truth.

use std::time::Duration;

use presence::Config;
use presence::store::Cause;
use presence::store::redis::keys_of;

use crate::world::{Kind, PATIENCE, World, quick, shared_server, slow, user};
use presence_testkit::eventually;

async fn a_users_key_lives_while_the_user_is_online(kind: Kind) {
    let world = World::new(kind, slow());
    let server = shared_server(kind);
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    let keys = keys_of(world.prefix(), &user("ana {1}"));
    let exists = || server.cli(&["EXISTS", &keys.user]);
    let ttl = |key: &str| server.cli(&["PTTL", key]).parse::<i64>().expect("a TTL");
    let whole_ms = world.config.ttl.as_millis() as i64;

    assert_eq!(exists(), "0");
    g1.join("ana {1}", "ios").await;
    assert_eq!(exists(), "1");
    assert_eq!(server.cli(&["HKEYS", &keys.user]), "g1");
    assert!(ttl(&keys.user) > whole_ms / 2 && ttl(&keys.user) <= whole_ms);
    g2.join("ana {1}", "web").await;
    g1.leave("ana {1}", Cause::Closed).await;
    assert!(server.cli(&["HGET", &keys.user, "g1"]).starts_with("left "));
    assert!(ttl(&keys.user) > whole_ms / 2);
    g2.leave("ana {1}", Cause::Bye).await;
    assert_eq!(exists(), "0");
    assert!(server.cli(&["GET", &keys.seen]).contains(" offline "));
    assert!(ttl(&keys.seen) > world.config.last_seen.as_millis() as i64 / 2);
}

#[tokio::test]
async fn a_place_is_kept_for_the_grace_and_what_nobody_wrote_is_passed_over() {
    let world = World::new(Kind::Redis, Config { grace: quick().grace, ..slow() });
    let server = shared_server(Kind::Redis);
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    let keys = keys_of(world.prefix(), &user("ana"));
    g1.join("ana", "ios").await;
    g2.join("ana", "ios").await;
    g1.leave("ana", Cause::Closed).await;
    eventually("the place is given up, as the one who kept it sees", PATIENCE, async || {
        g1.look("ana").await;
        Some(()).filter(|()| server.cli(&["HKEYS", &keys.user]) == "g2")
    })
    .await;
    server.cli(&["HSET", &keys.user, "g2", "drained 9999999999999"]);
    g1.join("ana", "web").await;
    assert!(g1.look("ana").await.view.is_online());
}

#[tokio::test]
async fn a_users_key_lives_while_the_user_is_online_in_redis() {
    a_users_key_lives_while_the_user_is_online(Kind::Redis).await;
}

#[tokio::test]
async fn a_users_key_lives_while_the_user_is_online_in_a_cluster() {
    a_users_key_lives_while_the_user_is_online(Kind::Cluster).await;
}

#[tokio::test]
async fn a_refresh_renews_the_ttl_of_a_users_key() {
    let world = World::new(Kind::Redis, slow());
    let server = shared_server(Kind::Redis);
    let g = world.gateway("g").await;
    let keys = keys_of(world.prefix(), &user("ana"));
    g.join("ana", "ios").await;
    server.cli(&["PEXPIRE", &keys.user, "1000"]);
    assert!(g.refresh(&["ana"]).await.is_empty());
    let ttl = server.cli(&["PTTL", &keys.user]).parse::<u128>().expect("a TTL");
    assert!(ttl > world.config.ttl.as_millis() / 2, "{ttl}");
}

async fn no_key_is_left_without_a_ttl(kind: Kind) {
    let world = World::new(kind, quick());
    let server = shared_server(kind);
    let (g1, g2) = (world.gateway("g1").await, world.gateway("g2").await);
    let causes = [Cause::Bye, Cause::Closed, Cause::Silent, Cause::Drained];
    for (number, cause) in causes.into_iter().enumerate() {
        let name = format!("user {number}");
        g1.join(&name, "ios").await;
        g2.join(&name, "web").await;
        g1.leave(&name, cause).await;
        if number % 2 == 0 {
            g2.leave(&name, cause).await;
        }
    }
    g1.join("stays", "ios").await;
    let keys = || {
        let found = server.cli(&["KEYS", &format!("{}:*", world.prefix())]);
        found.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let without_ttl = |keys: Vec<String>| {
        keys.into_iter().filter(|key| server.cli(&["PTTL", key]) == "-1").collect::<Vec<_>>()
    };
    assert!(keys().len() > causes.len());
    assert_eq!(without_ttl(keys()), [""; 0]);
    eventually("all users' keys are gone", PATIENCE, async || {
        for number in 0..causes.len() {
            g1.look(&format!("user {number}")).await;
        }
        g1.look("stays").await;
        Some(()).filter(|()| !keys().iter().any(|key| key.contains(":user:")))
    })
    .await;
    assert_eq!(without_ttl(keys()), [""; 0]);
}

#[tokio::test]
async fn no_key_is_left_without_a_ttl_in_redis() {
    no_key_is_left_without_a_ttl(Kind::Redis).await;
}

#[tokio::test]
async fn no_key_is_left_without_a_ttl_in_a_cluster() {
    no_key_is_left_without_a_ttl(Kind::Cluster).await;
}

async fn an_expired_user_is_told_and_unrelated_keys_are_not(kind: Kind) {
    let world = World::new(kind, quick());
    let server = shared_server(kind);
    let mut g = world.gateway("g").await;
    let prefix = world.prefix();
    let ana = keys_of(prefix, &user("ana")).user;
    let others = [
        "unrelated".to_owned(),
        format!("{prefix}x"),
        format!("{prefix}:{{1}}:gateways:x"),
        // The wrong bucket for this user.
        keys_of(prefix, &user("bo")).user.replacen('{', "{9", 1),
        keys_of("elsewhere", &user("bo")).user,
    ];
    for other in &others {
        server.cli(&["SET", other, "1", "PX", "1"]);
        eventually("it expires", PATIENCE, async || {
            Some(()).filter(|()| server.cli(&["EXISTS", other]) == "0")
        })
        .await;
    }
    g.join("ana", "ios").await;
    eventually("ana expires", PATIENCE, async || {
        Some(()).filter(|()| server.cli(&["EXISTS", &ana]) == "0")
    })
    .await;
    loop {
        match g.event().await {
            presence::store::Event::Expired(expired) => {
                assert_eq!(expired, user("ana"));
                break;
            }
            presence::store::Event::Transitions(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(world.config.ttl < Duration::from_secs(1));
}

#[tokio::test]
async fn an_expired_user_is_told_and_unrelated_keys_are_not_in_redis() {
    an_expired_user_is_told_and_unrelated_keys_are_not(Kind::Redis).await;
}

#[tokio::test]
async fn an_expired_user_is_told_and_unrelated_keys_are_not_in_a_cluster() {
    an_expired_user_is_told_and_unrelated_keys_are_not(Kind::Cluster).await;
}
