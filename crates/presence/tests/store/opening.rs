//! Opening a Redis: what is checked, what is turned on, and how what is wrong is told.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use presence::store::redis::{
    self, KeyspaceEvents, Mode, OpenError, RedisOptions, StartupReport, TlsFiles,
};
use presence_testkit::{FakeRedis, RedisServer};

use crate::world::{Kind, fresh_prefix, shared_server, slow};

fn options(url: String) -> RedisOptions {
    RedisOptions {
        url,
        tls: TlsFiles::default(),
        prefix: fresh_prefix(),
        gateway: "g".to_owned(),
        config: slow(),
    }
}

pub(crate) async fn report(url: String) -> StartupReport {
    redis::open(options(url)).await.expect("the store opens").1
}

pub(crate) async fn error(url: String) -> OpenError {
    let started = Instant::now();
    let error = redis::open(options(url)).await.err().expect("the store does not open");
    assert!(started.elapsed() < Duration::from_secs(6), "told after {:?}", started.elapsed());
    error
}

#[tokio::test]
async fn a_redis_that_is_too_old_is_told_both_versions() {
    let old = FakeRedis::start("6.0.16");
    let error = error(old.url()).await;
    assert!(matches!(error, OpenError::TooOld { .. }), "{error}");
    assert!(error.to_string().contains("6.0.16") && error.to_string().contains("6.2"), "{error}");
}

#[tokio::test]
async fn the_report_says_what_was_found() {
    let found = report(shared_server(Kind::Redis).url()).await;
    assert_eq!(found.mode, Mode::Standalone);
    let version = format!("redis_version:{}\r", found.version);
    assert!(shared_server(Kind::Redis).cli(&["INFO", "server"]).contains(&version), "{version}");
    let found = report(shared_server(Kind::Cluster).url()).await;
    assert_eq!(found.mode, Mode::Cluster { primaries: 1 });
}

#[tokio::test]
async fn keyspace_events_are_turned_on_and_other_flags_are_kept() {
    let server = RedisServer::start_with(&["--notify-keyspace-events", "Kg"]);
    assert_eq!(report(server.url()).await.keyspace_events, KeyspaceEvents::TurnedOn);
    let flags = server.cli(&["CONFIG", "GET", "notify-keyspace-events"]);
    let flags = flags.lines().nth(1).expect("a value");
    assert!("KgEx".chars().all(|flag| flags.contains(flag)), "{flags}");
    assert_eq!(report(server.url()).await.keyspace_events, KeyspaceEvents::AlreadyOn);
}

#[tokio::test]
async fn a_redis_that_may_not_be_configured_is_used_all_the_same_with_advice() {
    let server = shared_server(Kind::Redis);
    server.cli(&["ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let KeyspaceEvents::Refused { advice } =
        report(server.url_as("limited", "pw")).await.keyspace_events
    else {
        panic!("CONFIG was not refused");
    };
    assert!(advice.contains("notify-keyspace-events Ex"), "{advice}");
}

#[tokio::test]
async fn a_wrong_password_is_told_without_telling_it() {
    let server = shared_server(Kind::Redis);
    server.cli(&["ACL", "SETUSER", "known", "on", ">pw", "~*", "&*", "+@all"]);
    let error = error(server.url_as("known", "secret")).await;
    assert!(matches!(error, OpenError::Refused { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_one_error_within_seconds() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    // It takes connections, and never answers.
    let silent = error(format!("redis://{address}")).await;
    assert!(matches!(silent, OpenError::Unreachable { .. }), "{silent}");
    drop(listener);
    let closed = error(format!("redis://{address}")).await;
    assert!(matches!(closed, OpenError::Unreachable { .. }), "{closed}");
    assert!(closed.to_string().contains(&address), "{closed}");
}

#[tokio::test]
async fn a_cluster_url_for_a_single_redis_is_one_clear_error() {
    let url = shared_server(Kind::Redis).url().replace("redis://", "redis-cluster://");
    let error = error(url).await;
    assert!(matches!(error, OpenError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
    assert!(error.to_string().contains("start with redis://"), "{error}");
}

#[tokio::test]
async fn a_plain_url_for_a_node_of_a_cluster_is_told_which_form_is_right() {
    let url = shared_server(Kind::Cluster).url().replace("redis-cluster://", "redis://");
    let error = error(url).await;
    assert!(matches!(error, OpenError::Arranged { .. }), "{error}");
    assert!(error.to_string().ends_with("let the URL start with redis-cluster://"), "{error}");
}
