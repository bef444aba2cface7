//! Whatever comes as a token, a key file or a key set: nothing panics, and nobody gets in who should not.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::keys::{jwks, pem};
use super::super::{AuthError, Authenticator};
use super::table;

/// In 2100.
const FAR: u64 = 4_102_444_800;

static AUTHENTICATOR: LazyLock<Authenticator> = LazyLock::new(table::authenticator);

static SIGNERS: LazyLock<Vec<(Header, EncodingKey)>> = LazyLock::new(signers);

/// A good token of each algorithm.
static GOOD: LazyLock<Vec<String>> = LazyLock::new(|| {
    let claims = json!({"sub": "ana", "exp": FAR, "iss": "https://auth.test", "aud": "presence"});
    SIGNERS.iter().map(|(header, key)| sign(header, &claims, key)).collect()
});

fn signers() -> Vec<(Header, EncodingKey)> {
    let private = |name: &str| table::file(&format!("keys/{name}.private-test-only.pem"));
    let secret = table::file("secrets.txt");
    let secret = secret.lines().next().unwrap();
    let named =
        |algorithm, name: &str| Header { kid: Some(name.to_owned()), ..Header::new(algorithm) };
    vec![
        (Header::new(Algorithm::HS256), EncodingKey::from_secret(secret.as_bytes()).unwrap()),
        (
            named(Algorithm::RS256, "rsa-1"),
            EncodingKey::from_rsa_pem(private("url-rsa").as_bytes()).unwrap(),
        ),
        (
            named(Algorithm::ES256, "ec-1"),
            EncodingKey::from_ec_pem(private("url-ec").as_bytes()).unwrap(),
        ),
        (
            Header::new(Algorithm::EdDSA),
            EncodingKey::from_ed_pem(private("file-ed").as_bytes()).unwrap(),
        ),
    ]
}

fn sign(header: &Header, claims: &Value, key: &EncodingKey) -> String {
    jsonwebtoken::encode(header, claims, key).unwrap()
}

/// JSON of any shape, not large.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(json!(FAR)),
        Just(json!("https://auth.test")),
        Just(json!("presence")),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_is_a_token(text in "\\PC*") {
        prop_assert!(AUTHENTICATOR.authenticate(&text).is_err());
    }

    #[test]
    fn no_three_parts_of_base64_are_a_token(text in "[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,60}\\.[A-Za-z0-9_-]{0,90}") {
        prop_assert!(AUTHENTICATOR.authenticate(&text).is_err());
    }

    #[test]
    fn a_good_token_with_any_letter_changed_is_refused(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        letter in "[A-Za-z0-9_.=+ -]",
    ) {
        let good = &GOOD[which];
        let at = at.index(good.len());
        let changed = format!("{}{letter}{}", &good[..at], &good[at + 1..]);
        prop_assume!(changed != *good);
        prop_assert!(AUTHENTICATOR.authenticate(&changed).is_err(), "{changed}");
    }

    #[test]
    fn a_good_token_cut_or_lengthened_anywhere_is_refused(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        more in "[A-Za-z0-9_.-]{1,8}",
    ) {
        let good = &GOOD[which];
        let at = at.index(good.len());
        prop_assert!(AUTHENTICATOR.authenticate(&good[..at]).is_err());
        let longer = format!("{}{more}{}", &good[..at], &good[at..]);
        prop_assert!(AUTHENTICATOR.authenticate(&longer).is_err());
    }

    #[test]
    fn the_parts_of_two_good_tokens_make_no_third(a in 0..4_usize, b in 0..4_usize, split in 1..3_usize) {
        prop_assume!(a != b);
        let [a, b] = [&GOOD[a], &GOOD[b]].map(|token| token.split('.').collect::<Vec<_>>());
        let mixed = [&a[..split], &b[split..]].concat().join(".");
        prop_assert!(AUTHENTICATOR.authenticate(&mixed).is_err(), "{mixed}");
    }

    /// The rules once more, written down in another way: who gets in with a good signature has kept them.
    #[test]
    fn claims_of_any_shape_let_in_only_who_keeps_the_rules(
        which in prop_oneof![Just(0_usize), Just(2), Just(3)],
        changes in prop::collection::hash_map(
            prop_oneof!["sub", "exp", "iss", "aud", "nbf", "watch"], any_json(), 0..3,
        ),
    ) {
        let mut claims =
            json!({"sub": "ana", "exp": FAR, "iss": "https://auth.test", "aud": "presence"});
        claims.as_object_mut().unwrap().extend(changes);
        let (header, key) = &SIGNERS[which];
        let verdict = AUTHENTICATOR.authenticate(&sign(header, &claims, key));
        let signature_was_bad = matches!(verdict, Err(AuthError::BadSignature | AuthError::UnknownKey));
        prop_assert!(!signature_was_bad, "{claims}");
        prop_assert_eq!(verdict.is_ok(), keeps_the_rules(&claims), "{}: {:?}", claims, verdict);
    }

    #[test]
    fn a_header_of_any_shape_under_a_bad_signature_lets_nobody_in(
        more in prop::collection::hash_map(
            prop_oneof!["alg", "kid", "jwk", "jku", "crit", "b64", "typ", "x5c", "enc"], any_json(), 0..4,
        ),
        algorithm in prop_oneof![Just("HS256"), Just("RS256"), Just("ES256"), Just("EdDSA"), Just("none")],
    ) {
        let mut header = json!({"alg": algorithm});
        header.as_object_mut().unwrap().extend(more);
        let parts: Vec<_> = GOOD[0].split('.').collect();
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let forged = [header.as_str(), parts[1], parts[2]].join(".");
        prop_assume!(forged != GOOD[0]);
        prop_assert!(AUTHENTICATOR.authenticate(&forged).is_err(), "{forged}");
    }

    #[test]
    fn no_key_file_and_no_key_set_makes_us_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        json in any_json(),
    ) {
        let _ = jwks::keys_in(&bytes);
        let _ = jwks::keys_in(json!({"keys": [json]}).to_string().as_bytes());
        let _ = pem::keys_in(&String::from_utf8_lossy(&bytes));
        for (name, read) in [("public.pem", false), ("jwks.json", true)] {
            let mut text = table::file(name).into_bytes();
            let at = at.index(text.len());
            text[at] = bytes.first().copied().unwrap_or(b'A');
            let text = String::from_utf8_lossy(&text);
            if read {
                let _ = jwks::keys_in(text.as_bytes());
            } else {
                let _ = pem::keys_in(&text);
            }
        }
    }
}

fn keeps_the_rules(claims: &Value) -> bool {
    let now = jsonwebtoken::get_current_timestamp() as f64;
    let number = |name: &str| claims[name].as_f64().filter(|_| claims[name].is_number());
    let exp = number("exp").is_some_and(|exp| exp >= now - 30.0 && exp < u64::MAX as f64);
    let nbf = claims
        .get("nbf")
        .is_none_or(|nbf| nbf.as_f64().is_some_and(|nbf| (0.0..=now + 30.0).contains(&nbf)));
    let sub = claims["sub"].as_str().is_some_and(|sub| (1..=128).contains(&sub.len()));
    let iss = claims["iss"] == "https://auth.test";
    let texts = |list: &Value| list.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    let listed = |list: &Value| {
        texts(list) && list.as_array().is_some_and(|all| all.contains(&json!("presence")))
    };
    let aud = claims["aud"] == "presence" || listed(&claims["aud"]);
    let watch = claims.get("watch").is_none_or(|watch| watch.is_null() || texts(watch));
    exp && nbf && sub && iss && aud && watch
}
