//! Memory: past the limit newcomers are turned away, and those who are in go on.

use presence_protocol::Format;
use presence_testkit::eventually;

use crate::client::{Client, PATIENCE};
use crate::house::SLOW;
use crate::http::{get, metric};
use crate::peace::allow_many_files;
use crate::process::Process;
use crate::raw::Raw;

/// What a thousand sockets take.
const ROOM: u64 = 16 << 20;

async fn memory(gateway: &Process) -> u64 {
    metric(gateway.addr, "presence_memory_bytes").await.expect("it is told")
}

/// By the names under which Prometheus knows them of any process.
#[tokio::test]
async fn a_gateway_tells_what_it_takes_of_its_machine() {
    let gateway = Process::alone(SLOW, &[]).await;
    let resident = metric(gateway.addr, "process_resident_memory_bytes").await;
    assert!(resident > Some(1 << 20) && resident < Some(memory(&gateway).await + ROOM));
    let page = get(gateway.addr, "/metrics").await.body;
    let cpu_secs = page.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
    let cpu_secs: f64 = cpu_secs.expect("it is told").parse().expect("a number");
    assert!(cpu_secs > 0.0 && cpu_secs < 60.0, "{cpu_secs}");
}

#[tokio::test]
async fn past_the_memory_limit_newcomers_are_turned_away_and_the_others_go_on() {
    allow_many_files();
    let empty = Process::alone(SLOW, &[]).await;
    let mut client = Client::join(empty.addr, Format::Json, "a").await;
    client.fence().await;
    let limit = memory(&empty).await + ROOM;
    let gateway =
        Process::alone(SLOW, &[&format!("--max-memory={limit}"), "--hello-timeout=1m"]).await;
    let mut watcher = Client::join(gateway.addr, Format::Json, "a").await;
    watcher.watch(["b"]).await;

    // Sockets come until there is memory for no more.
    let mut sockets = Vec::new();
    let refused = loop {
        match Raw::ask(gateway.addr, b"", &[]).await {
            (101, raw) => sockets.push(raw),
            other => break other,
        }
        assert!(sockets.len() < 10_000, "{} of {limit} bytes", memory(&gateway).await);
    };
    assert_eq!(refused.0, 503);
    let (_, mut refused) = refused;
    assert!(refused.rest().await.contains("short of memory"));
    let ready = get(gateway.addr, "/readyz").await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "this gateway is short of memory\n"));
    let counted = "presence_refused_connections_total{why=\"memory\"}";
    assert!(metric(gateway.addr, counted).await >= Some(1));

    // Who has a socket, but has not said hello, is told to come back later.
    let mut last = sockets.pop().expect("there are some");
    last.frame(0x82, b"\x82\xa4type\xa5hello\xa4user\xa1c").await;
    let close = last.rest().await;
    assert!(close.contains("reconnect with backoff and jitter"), "{close}");
    assert_eq!(metric(gateway.addr, "presence_closes_total{reason=\"overloaded\"}").await, Some(1));
    watcher.fence().await;

    drop(sockets);
    let eased = async || (get(gateway.addr, "/readyz").await.status == 200).then_some(());
    eventually("there is memory again", 2 * PATIENCE, eased).await;
    let _b = Client::join(gateway.addr, Format::Json, "b").await;
    watcher.expect_online("b").await;
}
