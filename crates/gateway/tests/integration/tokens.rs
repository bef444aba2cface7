//! Tokens as the app's backend would sign them.

use jsonwebtoken::{Algorithm, EncodingKey, Header, get_current_timestamp};
use presence_protocol::{Grant, Hello};
use serde_json::{Value, json};

/// For gateways that verify tokens: the flag that says so.
pub(crate) const JWT_FLAG: &str = "--jwt-secret=the secret that the backend signs with";

const SECRET: &str = "the secret that the backend signs with";

/// How far the clocks of signer and gateway may be apart.
pub(crate) const LEEWAY_S: i64 = 30;

pub(crate) fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(3600) }))
}

/// One that expires so many seconds from now, which may be negative.
pub(crate) fn token_until(user: &str, seconds: i64) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(seconds) }))
}

/// One that lets the user watch these only.
pub(crate) fn token_to_watch(user: &str, watch: &[&str]) -> String {
    token_with_claim(user, "watch", &watch.into())
}

/// One with a claim more.
pub(crate) fn token_with_claim(user: &str, claim: &str, value: &Value) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(3600), claim: value }))
}

/// A grant for the user to watch these.
pub(crate) fn grant(user: &str, watch: &[&str]) -> Grant {
    let header = Header { typ: Some("watch+jwt".to_owned()), ..Header::new(Algorithm::HS256) };
    let claims = json!({ "sub": user, "exp": seconds_from_now(60), "watch": watch });
    let key = EncodingKey::from_secret(SECRET.as_bytes()).expect("a secret");
    Grant::new(jsonwebtoken::encode(&header, &claims, &key).expect("a grant"))
}

pub(crate) fn forged_token(user: &str) -> String {
    encode(
        &json!({ "sub": user, "exp": seconds_from_now(3600) }),
        "a secret that nobody told the gateway",
    )
}

/// The message that signs in with a token.
pub(crate) fn hello(token: String) -> Hello {
    Hello { token: Some(token), ..Hello::default() }
}

fn sign(claims: &Value) -> String {
    encode(claims, SECRET)
}

fn encode(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes()).expect("a secret");
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

fn seconds_from_now(seconds: i64) -> u64 {
    get_current_timestamp().checked_add_signed(seconds).expect("after 1970")
}
