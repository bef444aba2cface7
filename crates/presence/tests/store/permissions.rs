//! A gateway whose Redis user may do what the documentation says, and nothing else; and one that may do less.

use std::fs;
use std::time::Duration;

use presence::store::notice::{Notice, Order};
use presence::store::redis::{KeyspaceEvents, OpenError, RedisOptions, TlsFiles, keys_of, open};
use presence::store::{Cause, Event};
use presence_testkit::{RedisCluster, RedisServer, eventually};
use tokio::time::timeout;

use crate::cluster::ONE_AT_A_TIME;
use crate::world::{Gateway, PATIENCE, slow, user};

/// The prefix that the documentation takes as its example.
const PREFIX: &str = "presence";

fn options(url: String, gateway: &str) -> RedisOptions {
    RedisOptions {
        url,
        tls: TlsFiles::default(),
        prefix: PREFIX.to_owned(),
        gateway: gateway.to_owned(),
        config: slow(),
    }
}

/// The words of the `ACL SETUSER` that the documentation shows for one server and for a cluster.
pub(crate) fn documented() -> [Vec<String>; 2] {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = fs::read_to_string(page).expect("the page for operators");
    let mut blocks =
        page.split("\n\n").filter(|block| block.trim_start().starts_with("ACL SETUSER"));
    [(); 2].map(|()| {
        let block = blocks.next().expect("a block for each");
        block.split_whitespace().map(str::to_owned).collect()
    })
}

pub(crate) fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

async fn gateway(url: &str, name: &str) -> Gateway {
    let (opened, report) = open(options(url.to_owned(), name)).await.expect("the store opens");
    assert!(!matches!(report.keyspace_events, KeyspaceEvents::Refused { .. }));
    assert_ne!(report.version, "unknown");
    Gateway { opened }
}

/// All that a store does. The key of ana is on `server`, which expires it.
pub(crate) async fn everything_works(url: &str, server: &RedisServer) {
    let (mut a, b) = (gateway(url, "a").await, gateway(url, "b").await);
    a.join("ana", "ios").await;
    a.heard("ana").await;
    b.join("ana", "web").await;
    a.heard("ana").await;
    b.leave("ana", Cause::Closed).await;
    a.heard("ana").await;
    a.leave("ana", Cause::Bye).await;
    assert_eq!(a.heard("ana").await.cause(), Some(Cause::Bye));
    a.join("ana", "ios").await;
    assert!(a.refresh(&["ana"]).await.is_empty());
    b.store().tell(Notice::Disconnect(user("ana"))).await.expect("it is told");
    a.event_until(|event| matches!(event, Event::Notice(Notice::Disconnect(_)))).await;
    b.store().record(vec![(Order::Revoke(user("ana")), None)]).await.expect("it is recorded");
    assert_eq!(a.store().orders(0, 0).await.expect("orders").len(), 1);
    let key = keys_of(PREFIX, &user("ana")).user;
    // It is told once, and missed by whoever just then has to connect again: on a busy machine, a second time.
    eventually("an expired key is told of", PATIENCE, async || {
        a.join("ana", "ios").await;
        server.cli(&["PEXPIRE", &key, "1"]);
        let gone = async || Some(()).filter(|()| server.cli(&["EXISTS", &key]) == "0");
        eventually("the key expires", PATIENCE, gone).await;
        let told = a.event_until(|event| matches!(event, Event::Expired(_)));
        timeout(Duration::from_secs(5), told).await.ok()
    })
    .await;
    assert!(!a.look("ana").await.view.is_online());
    b.store().release().await.expect("the lease is given up");
}

#[tokio::test]
async fn what_the_documentation_grants_is_enough_on_one_server() {
    let server = RedisServer::start();
    let [line, _] = documented();
    assert_eq!(server.cli(&words(&line)), "OK");
    everything_works(&server.url_as("gateway", "password"), &server).await;
}

#[tokio::test]
async fn what_the_documentation_grants_is_enough_in_a_cluster() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let cluster = RedisCluster::start();
    let [_, line] = documented();
    assert!(cluster.cli_everywhere(&words(&line)).iter().all(|answer| answer == "OK"));
    let slot = cluster.slot_of(&keys_of(PREFIX, &user("ana")).user);
    let primary = cluster.primary_of(slot).expect("the cluster is whole");
    let url = cluster.url_as("gateway", "password");
    everything_works(&url, cluster.server(primary)).await;
}

#[tokio::test]
async fn each_permission_that_is_missing_is_named_before_anything_is_written() {
    let server = RedisServer::start();
    let [line, _] = documented();
    let mut named = 0;
    for grant in line.iter().filter(|word| word.starts_with(['+', '&', '~'])) {
        let mut rest = words(&line);
        rest.retain(|word| word != grant);
        server.cli(&["ACL", "DELUSER", "gateway"]);
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
        assert_eq!(server.cli(&rest), "OK");
        let url = server.url_as("gateway", "password");
        match open(options(url, "g")).await {
            Ok((_, report)) if grant.starts_with("+config") => {
                assert!(matches!(report.keyspace_events, KeyspaceEvents::Refused { .. }));
            }
            Ok((_, report)) if grant == "+info" => assert_eq!(report.version, "unknown"),
            Ok(_) => panic!("{grant} is not needed"),
            Err(error) => {
                let is_told =
                    matches!(error, OpenError::Forbidden { .. } | OpenError::Refused { .. });
                assert!(is_told && error.to_string().contains(grant.as_str()), "{grant}: {error}");
                named += 1;
            }
        }
        let written = server.cli(&["HGETALL", "presence:leases"]);
        assert!(
            grant.starts_with("+config") || grant == "+info" || written.is_empty(),
            "{written}"
        );
        server.cli(&["FLUSHALL"]);
    }
    assert!(named > 15, "{named}");
}
