//! Tokens for the simulated users, as the chat app's backend would sign them.

use std::time::Duration;

use anyhow::Result;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use presence_protocol::UserId;
use serde::Serialize;

use crate::scenario::DURATION_MAX;

/// Longer than any run, which goes on for a while beyond its phases.
const VALID: Duration = DURATION_MAX.saturating_add(Duration::from_hours(24));

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    iat: u64,
    exp: u64,
}

/// An HS256 token for this user, valid for [`VALID`].
pub(crate) fn sign(secret: &str, user: &UserId) -> Result<String> {
    let iat = jsonwebtoken::get_current_timestamp();
    let claims = Claims { sub: user.as_str(), iat, exp: iat + VALID.as_secs() };
    let key = EncodingKey::from_secret(secret.as_bytes())?;
    Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation, decode};
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_token_outlives_the_longest_run() {
        let token = sign("secret", &UserId::new("ana").unwrap()).unwrap();
        let key = DecodingKey::from_secret(b"secret").unwrap();
        let claims = decode::<Value>(&token, &key, &Validation::default()).unwrap().claims;
        let valid_secs = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
        assert!(valid_secs > DURATION_MAX.as_secs(), "{valid_secs}");
    }
}
