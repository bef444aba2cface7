//! Which keys are taken from a file, which of them a token may be of, and when fresh ones are asked for.

use std::sync::Arc;
use std::time::Duration;

use ::pem as pem_library;
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use tokio::time::{advance, timeout};

use super::freshness::EARLY_PAUSE;
use super::{Asked, Freshness, Key, KeyRing, Reach, Source, Tried, pem};

const WAIT: Duration = Duration::from_secs(2);

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/tokens/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The only block of a text in PEM with another name on it.
fn renamed(text: &str, tag: &str) -> String {
    pem_library::encode(&pem_library::Pem::new(tag, pem_library::parse(text).unwrap().contents()))
}

#[test]
fn a_file_may_hold_keys_of_all_kinds() {
    let keys = pem::keys_in(&file("public.pem")).unwrap();
    let algorithms: Vec<_> = keys.iter().map(Key::algorithm).collect();
    assert_eq!(algorithms, [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]);
    let with_words = format!("Of May.\n{}\nThat is all.\n", file("public.pem"));
    assert_eq!(pem::keys_in(&with_words).unwrap().len(), 3);
}

#[test]
fn a_file_with_anything_that_cannot_be_used_is_refused_with_what_is_wrong() {
    let good = file("public.pem");
    let (first, rest) = good.split_at(good.match_indices("-----BEGIN").nth(1).unwrap().0);
    let private = file("keys/file-ed.private-test-only.pem");
    let table = [
        (String::new(), "no public key in it"),
        ("a word".to_owned(), "no public key in it"),
        (good[..good.len() - 20].to_owned(), "cut off"),
        (first[..first.len() - 40].to_owned() + rest, "it is no PEM"),
        (first.to_owned() + &private, "key 2 is a private key"),
        (renamed(first, "CERTIFICATE"), "key 1 is a certificate"),
        (renamed(first, "PGP MESSAGE"), "key 1 is no 'PUBLIC KEY'"),
        (renamed(first, "RSA PUBLIC KEY"), "key 1 is no"),
        (public_of("short-rsa"), "key 1 is an RSA key of 1024 bits: it must have 2048"),
        (
            public_of("other-curve-ec384"),
            "key 1 is an elliptic-curve key that is not a point of P-256",
        ),
        (
            public_of("other-curve-eck1"),
            "key 1 is an elliptic-curve key that is not a point of P-256",
        ),
        (first.repeat(65), "it has 65 keys: at most 64"),
    ];
    for (text, why) in table {
        let error = pem::keys_in(&text).expect_err(why);
        assert!(error.contains(why), "{why}: {error}");
        assert!(!error.contains('\n') && !error.contains("MII"), "{error}");
    }
}

/// A public key that is not in the file of keys.
fn public_of(name: &str) -> String {
    file(&format!("keys/{name}.public.pem"))
}

#[test]
fn an_rsa_key_with_an_exponent_that_proves_nothing_is_refused() {
    let modulus = [0xff; 256];
    for (exponent, taken) in [
        (&[1_u8][..], false),
        (&[0, 0, 1], false),
        (&[], false),
        (&[2], false),
        (&[3], true),
        (&[1, 0, 1], true),
        (&[1, 0, 0, 0, 1], false),
    ] {
        let key = Key::new(DecodingKey::from_rsa_raw_components(&modulus, exponent), None);
        assert_eq!(key.is_ok(), taken, "{exponent:?}");
    }
    let padded = [&[0; 200][..], &[0xff; 100]].concat();
    assert!(Key::new(DecodingKey::from_rsa_raw_components(&padded, &[3]), None).is_err());
}

fn secret(name: Option<&str>) -> Key {
    Key::new(DecodingKey::from_secret(b"x").unwrap(), name.map(str::to_owned)).unwrap()
}

fn tried(ring: &KeyRing, algorithm: Algorithm, kid: Option<&str>) -> Vec<String> {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(algorithm) };
    let tried = std::cell::RefCell::new(Vec::new());
    let none: Tried<()> = ring.try_each(&header, |key| {
        tried.borrow_mut().push(key.to_string());
        None
    });
    assert_ne!(none, Tried::Fits(()));
    tried.into_inner()
}

#[test]
fn a_name_chooses_among_keys_with_names_and_excludes_none_without() {
    let ring = KeyRing::default();
    ring.replace(Source::Secret, vec![secret(None), secret(Some("a")), secret(Some("b"))]);
    assert_eq!(tried(&ring, Algorithm::HS256, Some("a")), ["HS256", r#"HS256 "a""#]);
    assert_eq!(tried(&ring, Algorithm::HS256, Some("c")), ["HS256"]);
    assert_eq!(tried(&ring, Algorithm::HS256, None).len(), 3);
    assert!(tried(&ring, Algorithm::RS256, Some("a")).is_empty());
}

#[test]
fn no_description_shows_a_key() {
    let ring = KeyRing::default();
    let key = DecodingKey::from_secret(b"hush").unwrap();
    ring.replace(Source::Secret, vec![Key::new(key, Some("a\nb".to_owned())).unwrap()]);
    assert_eq!(ring.to_string(), r#"secret: HS256 "a\nb""#);
    assert!(!format!("{ring:?}").contains("hush"));
}

#[tokio::test(start_paused = true)]
async fn however_many_ask_keys_are_fetched_once_and_not_again_for_a_while() {
    let fresh = Arc::new(Freshness::default());
    let fetched_for_nobody = timeout(Duration::from_hours(1), fresh.asked()).await;
    assert!(fetched_for_nobody.is_err());
    for round in 0..2 {
        let askers: Vec<_> = (0..10)
            .map(|_| {
                let fresh = fresh.clone();
                tokio::spawn(async move { fresh.refreshed_within(WAIT).await })
            })
            .collect();
        fresh.asked().await;
        fresh.begin();
        // All have asked before the answer.
        tokio::time::sleep(Duration::from_millis(1)).await;
        fresh.finish(Reach::Good);
        for asker in askers {
            assert_eq!(asker.await.unwrap(), Asked::Answered, "round {round}");
        }
        assert_eq!(fresh.refreshed_within(WAIT).await, Asked::TooSoon, "round {round}");
        advance(EARLY_PAUSE).await;
    }
    assert!(timeout(Duration::from_secs(1), fresh.asked()).await.is_err(), "nobody asks any more");
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_not_kept_for_longer_than_they_would_wait() {
    let fresh = Freshness::default();
    assert_eq!(fresh.refreshed_within(WAIT).await, Asked::Unanswered);
    fresh.finish(Reach::Lost);
    assert_eq!(fresh.reach(), Reach::Lost);
}
