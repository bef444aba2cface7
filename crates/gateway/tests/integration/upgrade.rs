//! The upgrade request: which notation is agreed on, and who is refused before there is a socket.

use presence_protocol::{Format, Hello};

use crate::client::{Client, user};
use crate::dial::Dial;
use crate::house::{House, Kind, OPEN, SLOW};
use crate::http::{Http, refused_upgrade};
use crate::tokens::{
    JWT_FLAG, LEEWAY_S, documented_token, forged_token, hello, token, token_until,
};

async fn gateway(flag: &str) -> House {
    House::with(Kind::OneEmbedded, SLOW, &[flag]).await
}

#[tokio::test]
async fn each_notation_is_agreed_on_by_its_name_and_none_means_json() {
    let gateway = gateway(OPEN).await;
    for (dial, echoed) in [
        (Dial::new(gateway.here()).plain(), None),
        (Dial::new(gateway.here()).format(Format::Json), Some("presence.v1.json")),
        (Dial::new(gateway.here()).format(Format::MsgPack), Some("presence.v1.msgpack")),
    ] {
        let (mut client, response) = dial.open_and_look().await;
        let found = response.headers().get("sec-websocket-protocol");
        assert_eq!(found.map(|value| value.to_str().expect("a name")), echoed);
        client.hello("b").await;
        client.bye().await;
    }
}

#[tokio::test]
async fn only_unknown_notations_are_refused_with_a_sentence_that_names_the_two() {
    let gateway = gateway(OPEN).await;
    let answer =
        refused_upgrade(gateway.here(), &["sec-websocket-protocol: chat.v2, xmpp".to_owned()])
            .await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("presence.v1.json"), "{answer:?}");
    assert!(answer.body.contains("presence.v1.msgpack"), "{answer:?}");
}

#[tokio::test]
async fn a_request_that_is_no_upgrade_is_told_so() {
    let gateway = gateway(OPEN).await;
    let answer = Http::connect(gateway.here()).await.get("/ws").await;
    assert_eq!(answer.status, 426, "{answer:?}");
    assert!(answer.body.contains("WebSocket"), "{answer:?}");
}

#[tokio::test]
async fn the_token_that_the_page_for_operators_makes_by_hand_signs_in() {
    let gateway = gateway(JWT_FLAG).await;
    let token = documented_token().await;
    let mut client = Dial::new(gateway.here()).bearer(&token).open().await;
    assert_eq!(client.hello_with(Hello::default()).await.user, user("ana"));
}

#[tokio::test]
async fn a_good_token_in_the_request_signs_in_with_an_empty_hello() {
    let gateway = gateway(JWT_FLAG).await;
    let mut client = Dial::new(gateway.here()).bearer(&token("b")).open().await;
    assert_eq!(client.hello_with(Hello::default()).await.user, user("b"));
    // A token in the hello is the later word.
    let mut client = Dial::new(gateway.here()).bearer(&token("b")).open().await;
    assert_eq!(client.hello_with(hello(token("c"))).await.user, user("c"));
}

#[tokio::test]
async fn a_bad_token_in_the_request_is_refused_with_401_and_no_reason_to_learn_from() {
    let gateway = gateway(JWT_FLAG).await;
    let expired = token_until("b", -LEEWAY_S - 1);
    for value in [format!("Bearer {}", forged_token("b")), format!("Bearer {expired}")] {
        let answer = refused_upgrade(gateway.here(), &[format!("authorization: {value}")]).await;
        assert_eq!((answer.status, answer.body.as_str()), (401, "token not valid\n"));
    }
    let answer =
        refused_upgrade(gateway.here(), &["authorization: Basic Ym86c2VjcmV0".to_owned()]).await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn a_name_is_not_believed_where_tokens_are_asked_for_even_beside_a_good_token() {
    let gateway = gateway(JWT_FLAG).await;
    let mut client = Dial::new(gateway.here()).bearer(&token("b")).open().await;
    assert_eq!(client.hello("c").await.user, user("b"));
    let mut client = Client::dial(gateway.here(), Format::Json).await;
    client.send_text(r#"{"type":"hello","user":"c"}"#);
    client.expect_close(4002).await;
}
