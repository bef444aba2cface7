//! The demo page: its files, and the lines of its devices.

use std::time::Duration;

use presence_protocol::Format;
use presence_testkit::eventually;
use tokio::time::Instant;

use crate::client::{Client, PATIENCE};
use crate::dial::Dial;
use crate::house::{House, Kind, LATE_MAX, OPEN, QUICK, Times};
use crate::http::{self, Http};

const FILES: [(&str, &str); 7] = [
    ("/", "text/html"),
    ("/demo/style.css", "text/css"),
    ("/demo/page.js", "text/javascript"),
    ("/demo/card.js", "text/javascript"),
    ("/demo/device.js", "text/javascript"),
    ("/demo/scene.js", "text/javascript"),
    ("/demo/steps.js", "text/javascript"),
];

async fn gateway(times: Times) -> House {
    House::with(Kind::OneEmbedded, times, &["--dev"]).await
}

/// A device of the demo page, signed in over the line `b's`.
async fn device(gateway: &House) -> Client {
    let mut device = Dial::new(gateway.here()).path("/demo/lines/b's").open().await;
    device.hello("b").await;
    device
}

async fn order(gateway: &House, what: &str) -> u16 {
    let mut http = Http::connect(gateway.here()).await;
    http.send(&format!("{what} /demo/lines/b's/cut"), &[], "").await.status
}

#[tokio::test]
async fn the_demo_page_is_served_in_development_mode_only() {
    let production = House::with(Kind::OneEmbedded, QUICK, &[OPEN]).await;
    let development = gateway(QUICK).await;
    for (path, kind) in FILES {
        assert_eq!(http::get(production.here(), path).await.status, 404, "{path}");
        let answer = http::get(development.here(), path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{path}: {}", answer.head);
    }
    assert_eq!(order(&production, "PUT").await, 404);
}

#[tokio::test]
async fn a_browser_runs_only_the_files_of_the_demo_page_itself() {
    let gateway = gateway(QUICK).await;
    for (path, _) in FILES {
        let head = http::get(gateway.here(), path).await.head;
        let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
        let policy = policy.expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
    }
}

#[tokio::test]
async fn a_device_whose_line_is_cut_dies_in_silence_and_is_told_when_the_line_is_mended() {
    let gateway = gateway(QUICK).await;
    let mut watcher = Client::join(gateway.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut device = device(&gateway).await;
    watcher.expect_online("b").await;

    let alive = Instant::now();
    device.fence().await;
    assert_eq!(order(&gateway, "PUT").await, 204);
    let cut = Instant::now();
    let push = watcher.expect_offline("b").await;
    assert!(push.at - alive >= QUICK.ttl, "{:?}: before TTL", push.at - alive);
    let latest = QUICK.ttl + QUICK.grace + LATE_MAX;
    assert!(push.at - cut < latest, "{:?}: late", push.at - cut);
    device.expect_nothing_for(Duration::from_millis(100)).await;

    assert_eq!(order(&gateway, "DELETE").await, 204);
    device.expect_close(4004).await;
}

#[tokio::test]
async fn a_line_that_is_mended_within_the_ttl_was_never_noticed() {
    let gateway = gateway(QUICK.ttl(Duration::from_secs(5))).await;
    let mut watcher = Client::join(gateway.here(), Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let mut device = device(&gateway).await;
    watcher.expect_online("b").await;

    assert_eq!(order(&gateway, "PUT").await, 204);
    watcher.expect_nothing_for(Duration::from_secs(1)).await;
    assert_eq!(order(&gateway, "DELETE").await, 204);
    device.fence().await;
    watcher.expect_nothing_for(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_line_is_gone_with_its_socket() {
    let gateway = gateway(QUICK).await;
    assert_eq!(order(&gateway, "PUT").await, 404);
    device(&gateway).await.bye().await;
    let gone = async || (order(&gateway, "DELETE").await == 404).then_some(());
    eventually("the line is gone", PATIENCE, gone).await;
}
