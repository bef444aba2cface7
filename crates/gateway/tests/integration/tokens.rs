//! Tokens as the app's backend would sign them.

use jsonwebtoken::{Algorithm, EncodingKey, Header, get_current_timestamp};
use presence_protocol::{Grant, Hello};
use serde_json::{Value, json};
use tokio::process::Command;

/// For gateways that verify tokens: the flag that says so.
pub(crate) const JWT_FLAG: &str = "--jwt-secret=the secret that the backend signs with";

/// What `tests/tokens/make.py` made: keys, and a table of tokens.
pub(crate) const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokens");

const SECRET: &str = "the secret that the backend signs with";

/// How far the clocks of signer and gateway may be apart.
pub(crate) const LEEWAY_S: i64 = 30;

pub(crate) fn token(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": seconds_from_now(3600) }))
}

/// One that the shell of the page for operators makes, for the user `ana`.
pub(crate) async fn documented_token() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).expect("the page for operators");
    let mut blocks = page.split("\n\n");
    let script = blocks.find(|block| block.trim_start().starts_with("base64url()"));
    let script = format!("{}\nprintf %s \"$token\"", script.expect("it makes a token"));
    let mut shell = Command::new("sh");
    let output = shell.arg("-c").arg(script).env("PRESENCE_JWT_SECRET", SECRET).output().await;
    String::from_utf8(output.expect("a shell").stdout).expect("UTF-8")
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

/// One of the keys for tests only, with which a backend would sign with `EdDSA`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signer {
    /// What its files are called.
    pub(crate) file: &'static str,
}

impl Signer {
    /// A token of an hour, which names its key where there is a name.
    pub(crate) fn token(self, user: &str, kid: Option<&str>) -> String {
        let pem = read(&format!("keys/{}.private-test-only.pem", self.file));
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        let claims = json!({ "sub": user, "exp": seconds_from_now(3600) });
        jsonwebtoken::encode(&header, &claims, &key).expect("a token")
    }

    /// Its public half as PEM.
    pub(crate) fn public_pem(self) -> String {
        read(&format!("keys/{}.public.pem", self.file))
    }

    /// Its public half as a JWK of this name.
    pub(crate) fn jwk(self, kid: &str) -> Value {
        let pem = read(&format!("keys/{}.private-test-only.pem", self.file));
        let key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
        let jwk = jsonwebtoken::jwk::Jwk::from_encoding_key(&key, Algorithm::EdDSA);
        let mut jwk = serde_json::to_value(jwk.expect("its public half")).expect("JSON");
        jwk["kid"] = kid.into();
        jwk
    }
}

/// Two keys of a backend, the one after the other.
pub(crate) const OLD: Signer = Signer { file: "file-ed" };
pub(crate) const NEW: Signer = Signer { file: "url-ed" };

/// A file that `make.py` made.
pub(crate) fn read(name: &str) -> String {
    let path = format!("{FILES}/{name}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
