//! Where the keys of tokens come from, and what else a token must say.

use std::time::Duration;

use super::super::{Auth, OutboundUrl, Settings, TokenRules};
use super::refusals::refusal;
use super::{SECRET, keys, load, secrets};

fn rules(settings: &Settings) -> TokenRules {
    match &settings.auth {
        Auth::Jwt { rules, .. } => rules.clone(),
        Auth::None => panic!("tokens are asked for"),
    }
}

fn secret_file(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let flag = format!("--jwt-secret-file={}", file.path().display());
    (file, flag)
}

#[test]
fn a_secret_file_has_a_secret_a_line() {
    let other = "another secret, and  spaces count ";
    let of = |text: &str| {
        let (_file, flag) = secret_file(text);
        keys(&load(&[&flag], &[], "").unwrap())
    };
    assert_eq!(secrets(&of(SECRET)), [SECRET]);
    assert_eq!(secrets(&of(&format!("{SECRET}\n"))), [SECRET]);
    assert_eq!(secrets(&of(&format!("{SECRET}\r\n\r\n{other}\r\n"))), [SECRET, other]);
}

#[test]
fn a_secret_file_that_cannot_be_right_is_refused() {
    let table = [
        (String::new(), "is empty"),
        ("\n\n".to_owned(), "is empty"),
        (format!("{SECRET}\nshort\n"), "a line of jwt_secret_file has 5 bytes"),
        (format!("{SECRET}\n").repeat(9), "has 9 secrets, one a line: at most 8"),
    ];
    for (text, why) in table {
        let (_file, flag) = secret_file(&text);
        let line = refusal(load(&[&flag], &[], ""));
        assert!(line.contains(why) && !line.contains(SECRET), "{line}");
    }
}

#[test]
fn keys_of_all_sources_may_be_used_side_by_side() {
    let secret = format!("--jwt-secret={SECRET}");
    let (file, url) = ("--jwt-public-key-file=/keys.pem", "--jwks-url=https://auth.test/keys");
    let all = keys(&load(&[&secret, file, url], &[], "").unwrap());
    assert_eq!(secrets(&all), [SECRET]);
    assert_eq!(all.public_key_file.unwrap().to_str(), Some("/keys.pem"));
    assert_eq!(all.jwks_url.unwrap().uri(), "https://auth.test/keys");
    for one in [secret.as_str(), file, url] {
        assert!(load(&[one, "--listen=0.0.0.0:1"], &[], "").is_ok(), "{one} chooses jwt");
    }
}

#[test]
fn what_a_token_must_say_can_be_set() {
    let secret = [("PRESENCE_JWT_SECRET", SECRET)];
    let default = rules(&load(&[], &secret, "").unwrap());
    assert_eq!(default.leeway, Duration::from_secs(30));
    assert!(default.issuer.is_none() && default.audience.is_none());
    let file = "jwt_issuer = 'us'\njwt_audience = 'presence'\njwt_leeway = '5m'";
    let set = rules(&load(&[], &secret, file).unwrap());
    assert_eq!(set.leeway, Duration::from_mins(5));
    assert_eq!((set.issuer.as_deref(), set.audience.as_deref()), (Some("us"), Some("presence")));
    assert_eq!(rules(&load(&["--jwt-leeway=0s"], &secret, "").unwrap()).leeway, Duration::ZERO);
}

#[test]
fn a_url_that_we_call_is_https_or_on_this_machine() {
    for good in [
        "https://auth.test/keys",
        "https://auth.test:8443/",
        "http://127.0.0.1:9/keys?a=b",
        "http://[::1]:9/keys",
        "http://localhost/keys",
    ] {
        assert!(OutboundUrl::new(good).is_ok(), "{good}");
    }
    for (bad, why) in [
        ("", "is no URL"),
        ("auth.test/keys", "is no URL"),
        ("/keys", "has no host"),
        ("auth.test", "must start with https://"),
        ("ftp://auth.test/keys", "must start with https://"),
        ("http://auth.test/hush", "plain http to another machine"),
        ("http://127.0.0.1.auth.test/keys", "plain http"),
        ("http://localhost.auth.test/keys", "plain http"),
        ("https://ana:hush@auth.test/keys", "a user or a password"),
        ("http://127.0.0.1@auth.test/keys", "a user or a password"),
    ] {
        let error = OutboundUrl::new(bad).unwrap_err();
        assert!(error.contains(why) && !error.contains("hush"), "{bad}: {error}");
    }
}

#[test]
fn a_url_that_we_call_is_shown_without_its_query() {
    let url = OutboundUrl::new("https://auth.test/keys?key=hush").unwrap();
    for shown in [url.to_string(), format!("{url:?}")] {
        assert_eq!(shown, "https://auth.test/keys?[secret]");
    }
}

#[test]
fn the_summary_says_which_keys_and_which_rules() {
    let (_file, flag) = secret_file(&format!("{SECRET}\n{SECRET}\n"));
    let url = "--jwks-url=https://auth.test/keys?key=hush";
    let settings = load(&[&flag, url, "--jwt-issuer=us"], &[], "").unwrap();
    let summary = settings.summary();
    let auth = &summary.iter().find(|(name, _)| *name == "auth").unwrap().1;
    let expected =
        "jwt (2 secrets, keys at https://auth.test/keys?[secret]; iss us, aud none, leeway 30s)";
    assert_eq!(auth, expected);
}
