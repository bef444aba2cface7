//! Who may watch whom where tokens decide: by the claim of the own token, or by a grant beside the request.

use std::time::Duration;

use presence_protocol::{ClientMessage, ErrorCode, ErrorMessage, Format, Grant, UserId, UserState};

use crate::client::{Client, users};
use crate::house::{House, Kind, SLOW, on_both_stores};
use crate::http;
use crate::orders::revoke;
use crate::tokens::{JWT_FLAG, grant, hello, token, token_to_watch, token_with_claim};
use crate::veiled::refresh;

on_both_stores!(a_grant_lets_its_user_watch_whom_the_token_does_not_name);

const BY_TOKEN: &str = "--watch-policy=token";

async fn sign_in(addr: std::net::SocketAddr, token: String) -> Client {
    let mut client = Client::dial(addr, Format::Json).await;
    client.hello_with(hello(token)).await;
    client
}

async fn watch(
    client: &mut Client,
    names: &[&str],
    grant: Option<Grant>,
) -> Result<Vec<UserState>, ErrorMessage> {
    let users = users(names);
    client.ask(|id| ClientMessage::Watch { users, id, grant }).await
}

/// All of them are refused.
async fn expect_refused(client: &mut Client, names: &[&str], grant: Option<Grant>) {
    let error = watch(client, names, grant).await.expect_err("nobody is allowed");
    assert_eq!((error.code, error.users), (ErrorCode::NotAllowed, users(names)));
}

async fn a_grant_lets_its_user_watch_whom_the_token_does_not_name(kind: Kind) {
    let house = House::with(kind, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut watcher = sign_in(house.here(), token_to_watch("a", &["b"])).await;
    watcher.watch(["b"]).await;
    expect_refused(&mut watcher, &["c", "d"], None).await;
    let mine = grant("a", &["c", "team1:*"]);
    let granted = watch(&mut watcher, &["c", "b", "team1:x"], Some(mine.clone())).await;
    let told: Vec<UserId> = granted.expect("allowed").into_iter().map(|s| s.user).collect();
    assert_eq!(told, users(["c", "b", "team1:x"]));
    // For that message only.
    expect_refused(&mut watcher, &["team1:y"], None).await;
    let users = users(["team1:y"]);
    let query = |id| ClientMessage::Query { users, id, grant: Some(mine) };
    assert_eq!(watcher.ask(query).await.expect("allowed").len(), 1);
    let _session = sign_in(house.there(), token("team1:x")).await;
    watcher.expect_online("team1:x").await;
}

#[tokio::test]
async fn without_a_claim_or_a_grant_nobody_is_watched_where_tokens_decide() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut watcher = sign_in(gateway.here(), token("a")).await;
    expect_refused(&mut watcher, &["a", "b"], None).await;
    watcher.fence().await;
}

#[tokio::test]
async fn what_is_no_grant_of_this_user_grants_nothing() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut watcher = sign_in(gateway.here(), token("a")).await;
    let bad = [
        grant("b", &["c"]),
        Grant::new(token_to_watch("a", &["c"])),
        Grant::new(format!("{}x", grant("a", &["c"]).expose())),
        Grant::new(String::new()),
    ];
    for grant in bad {
        expect_refused(&mut watcher, &["c"], Some(grant)).await;
    }
    for (rule, count) in [("others_grant", 1), ("not_a_grant", 1), ("token", 2)] {
        let name = format!(r#"presence_grants_refused_total{{rule="{rule}"}}"#);
        assert_eq!(http::metric(gateway.here(), &name).await, Some(count), "{rule}");
    }
}

#[tokio::test]
async fn a_grant_is_no_token_to_sign_in_with() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    let grant = grant("a", &["c"]).expose().to_owned();
    client.send(&ClientMessage::Hello(hello(grant)));
    client.expect_close(4002).await;
}

#[tokio::test]
async fn a_fresh_token_withdraws_whom_neither_its_claim_lists_nor_a_grant() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut watcher = sign_in(gateway.here(), token_to_watch("a", &["b", "d"])).await;
    watcher.watch(["b", "d"]).await;
    let states = watch(&mut watcher, &["c"], Some(grant("a", &["c"]))).await;
    assert_eq!(states.expect("allowed").len(), 1);
    for (fresh, withdrawn) in [(token_to_watch("a", &["b"]), "d"), (token("a"), "b")] {
        watcher.hello_with(hello(fresh)).await;
        let error = watcher.expect_error(ErrorCode::NotAllowed).await;
        assert_eq!((error.users, error.id), (users([withdrawn]), None));
    }
    let _b = sign_in(gateway.here(), token("b")).await;
    let _c = sign_in(gateway.here(), token("c")).await;
    watcher.expect_online("c").await;
    watcher.expect_nothing_for(Duration::from_millis(200)).await;
}

/// However often it asks for the same users again, and whomever it no longer watches.
#[tokio::test]
async fn a_full_watch_list_outlives_its_grants() {
    let flags = [JWT_FLAG, BY_TOKEN, "--max-watch=4"];
    let gateway = House::with(Kind::OneEmbedded, SLOW, &flags).await;
    let mut watcher = sign_in(gateway.here(), token("a")).await;
    let mine = || Some(grant("a", &["*"]));
    for names in [&["b", "c", "d"][..], &["c", "d", "e"]] {
        watch(&mut watcher, names, mine()).await.expect("allowed");
    }
    watcher.unwatch(["b"]);
    watch(&mut watcher, &["f"], mine()).await.expect("there is room again");
    watcher.hello_with(hello(token("a"))).await;
    for name in ["c", "d", "e", "f"] {
        let _session = sign_in(gateway.here(), token(name)).await;
        watcher.expect_online(name).await;
    }
}

#[tokio::test]
async fn the_backend_takes_grants_back() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let mut watcher = sign_in(gateway.here(), token_to_watch("a", &["b"])).await;
    watcher.watch(["b"]).await;
    watch(&mut watcher, &["c"], Some(grant("a", &["c"]))).await.expect("allowed");
    refresh(&gateway, "a").await;
    let error = watcher.expect_error(ErrorCode::NotAllowed).await;
    assert_eq!((error.users, error.id), (users(["c"]), None));
    let _c = sign_in(gateway.here(), token("c")).await;
    let _b = sign_in(gateway.here(), token("b")).await;
    watcher.expect_online("b").await;
}

#[tokio::test]
async fn a_grant_of_before_a_revocation_grants_nothing() {
    let gateway = House::with(Kind::OneEmbedded, SLOW, &[JWT_FLAG, BY_TOKEN]).await;
    let from = revoke(&gateway, "a").await;
    let fresh = token_with_claim("a", "iat", &from.into());
    let mut watcher = sign_in(gateway.here(), fresh).await;
    expect_refused(&mut watcher, &["c"], Some(grant("a", &["c"]))).await;
}

#[tokio::test]
async fn a_grant_of_thousands_fits_into_a_frame_of_half_a_mebibyte() {
    let flags = [JWT_FLAG, BY_TOKEN, "--max-frame-bytes=512KiB", "--max-watch=4000"];
    let gateway = House::with(Kind::OneEmbedded, SLOW, &flags).await;
    let mut watcher = sign_in(gateway.here(), token("a")).await;
    // As long as a UUID.
    let names: Vec<String> = (0..3000).map(|number| format!("{number:036}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let states = watch(&mut watcher, &names, Some(grant("a", &names))).await;
    assert_eq!(states.expect("allowed").len(), 3000);
}
