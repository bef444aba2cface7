//! Which tokens open the door, and which rule each refused one broke.

mod properties;
mod table;

use std::time::{Duration, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, get_current_timestamp};
use presence_protocol::{Grant, UserId};
use serde_json::{Value, json};

use super::{ApiKeys, AuthError, Authenticator, GrantError, SignError, sign};
use crate::settings::{Secret, Settings};

const SECRET: &str = "an hs256 secret of at least 32 bytes";

fn settings(more: &[&str]) -> Settings {
    let secret = format!("--jwt-secret={SECRET}");
    let args = ["presence-gateway", &secret].into_iter().chain(more.iter().copied());
    Settings::from_parts(args, [], None).unwrap()
}

fn authenticator(more: &[&str]) -> Authenticator {
    Authenticator::from_settings(&settings(more)).unwrap()
}

fn token(algorithm: Algorithm, secret: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(algorithm), claims, &key).unwrap()
}

/// Seconds from now, which may be negative.
fn at(seconds: i64) -> u64 {
    get_current_timestamp().checked_add_signed(seconds).unwrap()
}

#[test]
fn the_claims_decide_who_comes_in() {
    let missing = |claim: &str| Err(AuthError::MissingClaim(claim.to_owned()));
    let user_id_error = UserId::new("").unwrap_err().to_string();
    let table: [(&str, Value, Result<&str, AuthError>); 14] = [
        ("a good token", json!({"sub": "ana", "exp": at(60)}), Ok("ana")),
        ("any UTF-8 as the user", json!({"sub": "ана 🦀", "exp": at(60)}), Ok("ана 🦀")),
        ("exp with a fraction", json!({"sub": "ana", "exp": at(60) as f64 + 0.5}), Ok("ana")),
        ("exp within the leeway", json!({"sub": "ana", "exp": at(-25)}), Ok("ana")),
        ("exp beyond it", json!({"sub": "ana", "exp": at(-32)}), Err(AuthError::Expired)),
        ("no exp", json!({"sub": "ana"}), missing("exp")),
        ("exp as a text", json!({"sub": "ana", "exp": "soon"}), Err(AuthError::Malformed)),
        ("nbf within", json!({"sub": "ana", "exp": at(99), "nbf": at(25)}), Ok("ana")),
        (
            "nbf beyond",
            json!({"sub": "ana", "exp": at(99), "nbf": at(40)}),
            Err(AuthError::NotYetValid),
        ),
        (
            "nbf as a text",
            json!({"sub": "ana", "exp": at(60), "nbf": "soon"}),
            Err(AuthError::Malformed),
        ),
        ("no sub", json!({"exp": at(60)}), missing("sub")),
        ("an empty sub", json!({"sub": "", "exp": at(60)}), Err(AuthError::BadUser(user_id_error))),
        ("sub as a number", json!({"sub": 7, "exp": at(60)}), Err(AuthError::Malformed)),
        (
            "an audience, none configured",
            json!({"sub": "ana", "exp": at(60), "aud": "shop"}),
            Err(AuthError::WrongAudience),
        ),
    ];
    let authenticator = authenticator(&[]);
    for (name, claims, expected) in table {
        let got = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims));
        let got = got.map(|identity| identity.user.as_str().to_owned());
        assert_eq!(got, expected.map(str::to_owned), "{name}");
    }
}

#[test]
fn no_claim_of_a_wrong_kind_is_taken_for_an_absent_one() {
    let authenticator = authenticator(&[]);
    for (claim, value) in [("exp", json!([])), ("exp", json!(-1)), ("sub", json!({"a": 1}))] {
        let mut claims = json!({"sub": "ana", "exp": at(60)});
        claims[claim] = value;
        assert!(
            authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims)).is_err(),
            "{claims}"
        );
    }
}

#[test]
fn only_the_configured_algorithm_and_key_count() {
    let claims = json!({"sub": "ana", "exp": at(60)});
    let good = token(Algorithm::HS256, SECRET, &claims);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let payload = signed.split_once('.').unwrap().1;
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let changed = format!("{first}{}", &signature[1..]);
    // {"alg":"none","typ":"JWT"}
    let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{payload}.");
    let others = token(Algorithm::HS256, "another secret of at least 32 bytes", &claims);
    let table = [
        ("alg none", none, AuthError::Malformed),
        ("HS384", token(Algorithm::HS384, SECRET, &claims), AuthError::WrongAlgorithm),
        ("HS512", token(Algorithm::HS512, SECRET, &claims), AuthError::WrongAlgorithm),
        ("another secret", others, AuthError::BadSignature),
        ("no signature", format!("{signed}."), AuthError::BadSignature),
        ("a changed signature", format!("{signed}.{changed}"), AuthError::BadSignature),
        ("another payload", good.replace(payload, "eyJzdWIiOiJibyJ9"), AuthError::BadSignature),
        ("two parts", signed.to_owned(), AuthError::Malformed),
        ("four parts", format!("{good}.{signature}"), AuthError::Malformed),
        ("nothing", String::new(), AuthError::Malformed),
        ("not even base64", "ä.ö.ü".to_owned(), AuthError::Malformed),
    ];
    let authenticator = authenticator(&[]);
    assert!(authenticator.authenticate(&good).is_ok());
    for (name, token, expected) in table {
        assert_eq!(authenticator.authenticate(&token), Err(expected), "{name}");
    }
}

#[test]
fn a_configured_audience_must_be_among_the_tokens() {
    let authenticator = authenticator(&["--jwt-audience=presence"]);
    let missing = AuthError::MissingClaim("aud".to_owned());
    let table = [
        (json!("presence"), Ok(())),
        (json!(["shop", "presence"]), Ok(())),
        (json!("shop"), Err(AuthError::WrongAudience)),
        (json!(null), Err(missing)),
    ];
    for (aud, expected) in table {
        let claims = json!({"sub": "ana", "exp": at(60), "aud": aud});
        let got = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims));
        assert_eq!(got.map(drop), expected, "{aud}");
    }
}

#[test]
fn a_token_is_accepted_until_its_expiry_and_the_leeway() {
    let exp = at(60);
    let claims = json!({"sub": "ana", "exp": exp});
    let authenticator = authenticator(&[]);
    let identity = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims)).unwrap();
    let expected = UNIX_EPOCH + Duration::from_secs(exp) + Duration::from_secs(30);
    assert_eq!(identity.expires_at, Some(expected));
    let forever = json!({"sub": "ana", "exp": u64::MAX});
    let identity = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &forever)).unwrap();
    assert_eq!(identity.expires_at, None);
}

#[test]
fn a_configured_issuer_must_be_the_tokens() {
    let authenticator = authenticator(&["--jwt-issuer=us"]);
    let missing = AuthError::MissingClaim("iss".to_owned());
    let table = [
        (json!("us"), Ok(())),
        (json!(["us"]), Err(AuthError::Malformed)),
        (json!("them"), Err(AuthError::WrongIssuer)),
        (json!(null), Err(missing)),
    ];
    for (iss, expected) in table {
        let claims = json!({"sub": "ana", "exp": at(60), "iss": iss});
        let got = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims));
        assert_eq!(got.map(drop), expected, "{iss}");
    }
}

#[test]
fn the_leeway_is_the_configured_one() {
    let expired = token(Algorithm::HS256, SECRET, &json!({"sub": "ana", "exp": at(-90)}));
    assert_eq!(authenticator(&[]).authenticate(&expired), Err(AuthError::Expired));
    assert!(authenticator(&["--jwt-leeway=2m"]).authenticate(&expired).is_ok());
    let just = token(Algorithm::HS256, SECRET, &json!({"sub": "ana", "exp": at(-5)}));
    assert_eq!(authenticator(&["--jwt-leeway=0s"]).authenticate(&just), Err(AuthError::Expired));
}

#[test]
fn a_signed_development_token_opens_the_door() {
    let ana = UserId::new("ana").unwrap();
    for more in [&[][..], &["--jwt-audience=presence", "--jwt-issuer=us"][..]] {
        let token = sign(&settings(more), &ana, Duration::from_hours(1)).unwrap();
        assert_eq!(authenticator(more).authenticate(&token).unwrap().user, ana);
    }
    let refused = sign(&Settings::dev(), &ana, Duration::from_secs(1));
    assert!(matches!(refused, Err(SignError::NoSecret)));
}

#[test]
fn a_clients_own_word_counts_only_where_authentication_is_off() {
    let ana = UserId::new("ana").unwrap();
    let open = Authenticator::from_settings(&Settings::dev()).unwrap();
    assert!(!open.wants_token());
    assert_eq!(open.believe(ana.clone()).unwrap().user, ana);
    assert_eq!(open.authenticate("x.y.z"), Err(AuthError::TokenNotExpected));
    let closed = authenticator(&[]);
    assert!(closed.wants_token());
    assert_eq!(closed.believe(ana), Err(AuthError::TokenRequired));
}

#[test]
fn each_api_key_matches_itself_alone() {
    let keys = ["a key of 16 byte", "another key of the backend", "a key of 16 byts"];
    let keys = ApiKeys::new(keys.map(Secret::new).to_vec());
    for (given, found) in
        [("a key of 16 byte", 1), ("another key of the backend", 2), ("a key of 16 byts", 3)]
    {
        assert_eq!(keys.find(given), Some(found), "{given}");
    }
    for other in ["", "a key of 16 bytf", "a key of 16 byte ", "A key of 16 byte", "a key"] {
        assert_eq!(keys.find(other), None, "{other}");
    }
    assert_eq!(ApiKeys::default().find(""), None);
    assert_eq!(format!("{keys:?}"), "ApiKeys([[secret], [secret], [secret]])");
}

fn grant(typ: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let header = Header { typ: Some(typ.to_owned()), ..Header::new(Algorithm::HS256) };
    jsonwebtoken::encode(&header, claims, &key).unwrap()
}

#[test]
fn a_grant_counts_for_its_own_user_and_list_alone() {
    let listed = json!({"sub": "ana", "exp": at(60), "watch": ["bo", "team1:*"]});
    let expired = json!({"sub": "ana", "exp": at(-60), "watch": ["bo"]});
    let unlisted = json!({"sub": "ana", "exp": at(60)});
    let others = json!({"sub": "cy", "exp": at(60), "watch": ["bo"]});
    let table = [
        ("good", grant("watch+jwt", &listed), Ok(())),
        ("good, in capitals", grant("Watch+JWT", &listed), Ok(())),
        ("good, in full", grant(" application/watch+jwt", &listed), Ok(())),
        ("a token to sign in with", grant("JWT", &listed), Err(GrantError::NotAGrant)),
        ("another user's", grant("watch+jwt", &others), Err(GrantError::OthersGrant)),
        ("without a list", grant("watch+jwt", &unlisted), Err(GrantError::NoList)),
        ("expired", grant("watch+jwt", &expired), Err(AuthError::Expired.into())),
        ("no token at all", "x".to_owned(), Err(AuthError::Malformed.into())),
    ];
    let (authenticator, ana) = (authenticator(&[]), UserId::new("ana").unwrap());
    for (name, token, expected) in table {
        let granted = authenticator.granted(&Grant::new(token), &ana);
        if let Ok(granted) = &granted {
            for (user, allowed) in [("bo", true), ("team1:x", true), ("cy", false)] {
                assert_eq!(
                    granted.may_watch.allows(&UserId::new(user).unwrap()),
                    allowed,
                    "{name}: {user}"
                );
            }
        }
        assert_eq!(granted.map(drop), expected, "{name}");
    }
}

#[test]
fn a_grant_lets_nobody_in() {
    let claims = json!({"sub": "ana", "exp": at(60), "watch": ["bo"]});
    for typ in ["watch+jwt", "application/Watch+JWT", " watch+jwt"] {
        let token = grant(typ, &claims);
        assert_eq!(authenticator(&[]).authenticate(&token), Err(AuthError::Grant), "{typ}");
    }
}

#[test]
fn a_token_says_when_it_was_issued() {
    let authenticator = authenticator(&[]);
    for (iat, expected) in
        [(json!(1_764_000_000), 1_764_000_000), (json!(7.9), 7), (json!(null), 0)]
    {
        let claims = json!({"sub": "ana", "exp": at(60), "iat": iat});
        let identity = authenticator.authenticate(&token(Algorithm::HS256, SECRET, &claims));
        assert_eq!(identity.unwrap().issued_at_s, expected);
    }
}
