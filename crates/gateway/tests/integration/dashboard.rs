//! The dashboard: the page and its files, and the figures that it asks for.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use presence_protocol::Format;
use presence_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::client::{Client, PATIENCE};
use crate::house::{House, Kind, OPEN, QUICK, SLOW, prefix, shared_redis};
use crate::http::{self, Answer, Http};
use crate::process::Process;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'";

async fn gateway(flags: &[&str]) -> House {
    House::with(Kind::OneEmbedded, SLOW, flags).await
}

/// What a gateway tells whoever has the key.
async fn stats(addr: SocketAddr) -> Value {
    let answer = Http::connect(addr).await.get_with_key("/v1/stats").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).expect("JSON")
}

/// The lease of a gateway, as another one tells of it.
fn lease(stats: &Value, id: &Value) -> Option<String> {
    let gateways = stats["gateways"].as_array().expect("a list");
    let lease = gateways.iter().find(|gateway| gateway["id"] == *id)?["lease"].as_str();
    Some(lease.expect("a word").to_owned())
}

#[tokio::test]
async fn the_figures_are_those_of_the_metrics() {
    let gateway = gateway(&[OPEN]).await;
    let mut client = Client::join(gateway.here(), Format::Json, "b").await;
    client.watch(["c", "d"]).await;
    let stats = stats(gateway.here()).await;
    for (name, value) in [("connections", 1), ("users", 1), ("watches", 2), ("degraded", 0)] {
        assert_eq!(stats["metrics"][format!("presence_{name}")], value, "{name}: {stats}");
    }
    let text = http::get(gateway.here(), "/metrics").await.body;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: BTreeSet<_> = lines.map(|line| line.rsplit_once(' ').expect("a value").0).collect();
    let told = stats["metrics"].as_object().expect("names").keys();
    assert_eq!(told.map(String::as_str).collect::<BTreeSet<_>>(), names);
}

#[tokio::test]
async fn a_gateway_tells_who_and_how_it_is() {
    let gateway = gateway(&[OPEN, "--max-memory=1GiB"]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    let session = client.hello("b").await.session.to_string();
    let stats = stats(gateway.here()).await;
    let id = stats["gateway"].as_str().expect("an id");
    assert!(session.starts_with(id), "{session} {id}");
    assert_eq!(lease(&stats, &stats["gateway"]).as_deref(), Some("good"));
    assert_eq!(stats["gateways"].as_array().map(Vec::len), Some(1), "{stats}");
    assert!(stats["not_ready"].is_null() && stats["degraded_since"].is_null(), "{stats}");
    assert!(stats["up_ms"].is_u64(), "{stats}");
    assert_eq!(
        (&stats["settings"]["ttl"], &stats["memory"]["max"]),
        (&"1m".into(), &(1 << 30).into())
    );
    let bytes = |of: &str| stats["memory"][of].as_u64().expect("it is told");
    assert!(bytes("resident") > 1 << 20 && bytes("resident_at_start") > 1 << 20, "{stats}");
    assert!(!stats.to_string().contains(crate::house::API_KEY), "{stats}");
}

#[tokio::test]
async fn figures_need_the_key_but_in_development_mode() {
    let production = gateway(&[OPEN]).await;
    assert_eq!(http::get(production.here(), "/v1/stats").await.status, 401);
    let bad = ["authorization: Bearer the key of other tests".to_owned()];
    let answer = Http::connect(production.here()).await.send("GET /v1/stats", &bad, "").await;
    assert_eq!(answer.status, 401);
    assert!(answer.body.contains("bad_api_key"), "{answer:?}");
    let development = gateway(&["--dev"]).await;
    assert_eq!(http::get(development.here(), "/v1/stats").await.status, 200);
}

#[tokio::test]
async fn without_a_key_and_outside_development_there_is_no_dashboard() {
    let args = ["presence-gateway", OPEN, "--listen=127.0.0.1:0"];
    let settings = presence_gateway::settings::Settings::from_parts(args, [], None);
    let gateway = presence_gateway::Gateway::start(settings.expect("good settings")).await;
    let addr = gateway.as_ref().expect("it starts").addr();
    for path in ["/dashboard", "/dashboard/page.js", "/v1/stats"] {
        assert_eq!(http::get(addr, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn only_where_the_key_is_needed_does_the_page_ask_for_it() {
    let form = "<form id=\"key\"";
    let production = gateway(&[OPEN]).await;
    let page = http::get(production.here(), "/dashboard").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains(form), "{}", page.body);
    let development = gateway(&["--dev"]).await;
    assert!(!http::get(development.here(), "/dashboard").await.body.contains(form));
}

#[tokio::test]
async fn the_page_and_all_that_it_loads_come_with_a_policy_that_they_keep() {
    let gateway = gateway(&[OPEN]).await;
    let mut files = vec!["/dashboard".to_owned()];
    let mut at = 0;
    while let Some(path) = files.get(at).cloned() {
        at += 1;
        let answer = http::get(gateway.here(), &path).await;
        let kind = match path.rsplit_once('.') {
            None => "text/html",
            Some((_, "css")) => "text/css",
            Some(_) => "text/javascript",
        };
        assert_eq!(answer.status, 200, "{path}");
        for header in [
            format!("content-type: {kind}; charset=utf-8"),
            format!("content-security-policy: {POLICY}"),
            "x-content-type-options: nosniff".to_owned(),
        ] {
            assert!(answer.head.contains(&header), "{path}: {header} is not in {}", answer.head);
        }
        for found in loaded(&path, &answer) {
            if !files.contains(&found) {
                files.push(found);
            }
        }
        for inline in ["<style", " style=", "<script>", "onclick=", "javascript:", "https://fonts"]
        {
            assert!(!answer.body.contains(inline), "{inline} is in {path}");
        }
    }
    assert!(files.len() > 8, "{files:?}");
    let uplot = http::get(gateway.here(), "/dashboard/uplot.js").await.body;
    assert!(uplot.contains("Permission is hereby granted"), "it comes without its licence");
}

/// What a file has a browser load, as paths.
fn loaded(path: &str, answer: &Answer) -> Vec<String> {
    let marks: &[&str] = if path == "/dashboard" { &["href=\"", "src=\""] } else { &["from \"./"] };
    let found = marks.iter().flat_map(|mark| answer.body.split(mark).skip(1));
    let names = found.filter_map(|rest| rest.split('"').next()).filter(|name| *name != "data:,");
    names.map(|name| format!("/dashboard/{}", name.trim_start_matches("dashboard/"))).collect()
}

#[tokio::test]
async fn gateways_tell_of_each_other_until_one_is_gone() {
    let prefix = prefix();
    let staying = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let leaving = Process::start(shared_redis(), &prefix, QUICK, &["--drain=1s"]).await;
    let dying = Process::start(shared_redis(), &prefix, QUICK, &[]).await;
    let [left, died] = [&stats(leaving.addr).await["gateway"], &stats(dying.addr).await["gateway"]]
        .map(Value::clone);
    let until = async |id: &Value, wanted: Option<&str>| {
        let is_so = async || {
            let lease = lease(&stats(staying.addr).await, id);
            (lease.as_deref() == wanted).then_some(())
        };
        eventually(&format!("{id} is {wanted:?}"), PATIENCE, is_so).await;
    };
    until(&left, Some("good")).await;
    until(&died, Some("good")).await;
    leaving.signal("TERM").await;
    until(&left, None).await;
    dying.signal("KILL").await;
    until(&died, Some("lapsed")).await;
    let stats = stats(staying.addr).await;
    assert_eq!(lease(&stats, &stats["gateway"]).as_deref(), Some("good"));
    assert_eq!(stats["metrics"]["presence_gateways_lost_total"], 1);
}

#[tokio::test]
async fn a_store_that_is_away_is_told_with_the_time_it_went() {
    let redis = RedisServer::start();
    let house = House::on(&redis, QUICK, &[OPEN]).await;
    let renewals = "presence_renewal_time_seconds_count";
    let renewed = async || {
        let stats = stats(house.here()).await;
        (stats["metrics"][renewals].as_u64() > Some(1)).then_some(())
    };
    eventually("the lease is renewed", PATIENCE, renewed).await;
    redis.pause();
    let away = async || {
        let stats = stats(house.here()).await;
        (stats["not_ready"] == "store" && stats["degraded_since"].is_u64()).then_some(stats)
    };
    let stats_while_away = eventually("the store is away", PATIENCE, away).await;
    assert!(stats_while_away["metrics"]["presence_store_errors_total"].as_u64() > Some(0));
    redis.resume();
    let back = async || {
        let stats = stats(house.here()).await;
        (stats["not_ready"].is_null() && stats["degraded_since"].is_null()).then_some(())
    };
    eventually("the store is back", PATIENCE, back).await;
}
