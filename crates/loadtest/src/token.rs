//! Tokens for the simulated users, as the chat app's backend would sign them.

use anyhow::Result;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use presence_protocol::UserId;
use serde::Serialize;

/// Longer than any run.
const VALID_SECS: u64 = 24 * 60 * 60;

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    iat: u64,
    exp: u64,
}

/// An HS256 token for this user, valid for a day.
pub(crate) fn sign(secret: &str, user: &UserId) -> Result<String> {
    let iat = jsonwebtoken::get_current_timestamp();
    let claims = Claims { sub: user.as_str(), iat, exp: iat + VALID_SECS };
    let key = EncodingKey::from_secret(secret.as_bytes())?;
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}
