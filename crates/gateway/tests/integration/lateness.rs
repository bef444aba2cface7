//! The number that operators watch: how late watchers were told, by cause.

use presence_protocol::Format;
use presence_testkit::eventually;

use crate::client::{Client, PATIENCE};
use crate::house::{QUICK, prefix, shared_redis};
use crate::http::{get, metric, until_told};
use crate::process::Process;

/// One observation of this cause, and how late it was.
async fn lateness(gateway: &Process, cause: &str) -> Option<f64> {
    let count = format!("presence_lateness_seconds_count{{cause=\"{cause}\"}}");
    metric(gateway.addr, &count).await.filter(|count| *count == 1)?;
    let sum = format!("presence_lateness_seconds_sum{{cause=\"{cause}\"}} ");
    let body = get(gateway.addr, "/metrics").await.body;
    body.lines().find_map(|line| line.strip_prefix(&sum)?.parse().ok())
}

#[tokio::test]
async fn the_lateness_of_each_offline_is_measured_by_its_cause() {
    let prefix = prefix();
    let here = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let there = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let mut watcher = Client::join(here.addr, Format::Json, "a").await;
    let names = ["bye", "closed", "silent", "expired"];
    watcher.watch(names).await;
    let mut clients = Vec::new();
    for name in names {
        clients.push(Client::join(there.addr, Format::Json, name).await);
        watcher.expect_online(name).await;
    }
    let [bye, closed, silent, _expired] = clients.try_into().ok().expect("four clients");
    bye.bye().await;
    watcher.expect_offline("bye").await;
    closed.hang_up();
    watcher.expect_offline("closed").await;
    silent.freeze().await;
    watcher.expect_offline("silent").await;
    there.signal("KILL").await;
    watcher.expect_offline("expired").await;
    for cause in names {
        let late = eventually(cause, PATIENCE, async || lateness(&here, cause).await).await;
        assert!((0.0..1.0).contains(&late), "{cause}: {late} s");
    }
    assert_eq!(
        metric(here.addr, "presence_lateness_seconds_count{cause=\"joined\"}").await,
        Some(4)
    );
    assert_eq!(metric(here.addr, "presence_reconciled_total").await, Some(0));
}

#[tokio::test]
async fn a_loss_that_nobody_saw_is_counted() {
    let prefix = prefix();
    let here = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let there = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let mut watcher = Client::join(here.addr, Format::Json, "a").await;
    watcher.watch(["b"]).await;
    let b = Client::join(there.addr, Format::Json, "b").await;
    watcher.expect_online("b").await;
    b.hang_up();
    eventually("it is lost", PATIENCE, async || {
        metric(there.addr, "presence_connections").await.filter(|count| *count == 0)
    })
    .await;
    until_told(there.addr).await;
    let _b = Client::join(there.addr, Format::Json, "b").await;
    eventually("it is counted", PATIENCE, async || {
        metric(here.addr, "presence_flaps_hidden_total").await.filter(|count| *count == 1)
    })
    .await;
    watcher.expect_nothing_for(QUICK.grace * 2).await;
}
