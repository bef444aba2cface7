//! The table of tokens that another library made (`tests/tokens/make.py`): each gets the answer that stands beside it.

use std::path::Path;

use jsonwebtoken::Algorithm;
use serde::Deserialize;

use super::super::keys::{Reach, Source, jwks};
use super::super::{Authenticator, Mode};
use crate::settings::Settings;

/// The tests' files.
pub(super) const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokens");

#[derive(Deserialize)]
struct Row {
    name: String,
    token: String,
    user: Option<String>,
    rule: Option<String>,
}

pub(super) fn file(name: &str) -> String {
    let path = Path::new(FILES).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One with keys of all sources; those of the URL are put there as if they had been fetched.
pub(super) fn authenticator() -> Authenticator {
    let args = [
        "presence-gateway".to_owned(),
        format!("--jwt-secret-file={FILES}/secrets.txt"),
        format!("--jwt-public-key-file={FILES}/public.pem"),
        "--jwks-url=https://auth.test/keys".to_owned(),
        "--jwt-issuer=https://auth.test".to_owned(),
        "--jwt-audience=presence".to_owned(),
    ];
    let settings = Settings::from_parts(args, [], None).unwrap();
    let authenticator = Authenticator::from_settings(&settings).unwrap();
    let Mode::Token { keys, .. } = &authenticator.0 else { panic!("tokens are asked for") };
    let found = jwks::keys_in(file("jwks.json").as_bytes()).unwrap();
    keys.replace(Source::Url, found.keys);
    keys.freshness.as_ref().unwrap().finish(Reach::Good);
    authenticator
}

#[test]
fn every_token_of_the_table_gets_its_answer() {
    let rows: Vec<Row> = serde_json::from_str(&file("table.json")).unwrap();
    let authenticator = authenticator();
    let mut wrong = Vec::new();
    for Row { name, token, user, rule } in &rows {
        let got = authenticator.authenticate(token);
        let got = got.as_ref().map(|got| got.user.as_str()).map_err(super::AuthError::rule);
        let expected = user.as_deref().ok_or(rule.as_deref().unwrap_or("a user or a rule"));
        if got != expected {
            wrong.push(format!("{name}: {got:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let bad = rows.iter().filter(|row| row.rule.is_some()).count();
    assert!(bad >= 40 && rows.len() > bad, "{bad} bad ones of {}", rows.len());
}

#[test]
fn of_a_key_set_only_what_verifies_our_algorithms_is_taken() {
    let found = jwks::keys_in(file("jwks.json").as_bytes()).unwrap();
    let described: Vec<_> = found.keys.iter().map(ToString::to_string).collect();
    assert_eq!(described, [r#"RS256 "rsa-1""#, r#"ES256 "ec-1""#, r#"EdDSA "ed-1""#]);
    assert_eq!(found.passed_over, 9);
    let algorithms: Vec<_> = found.keys.iter().map(super::super::Key::algorithm).collect();
    assert_eq!(algorithms, [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]);
}
