//! What a start with wrong settings is told, and the limits that are still right.

use super::super::{Settings, SettingsError};
use super::{SECRET, load};

/// What the line must contain.
type Named<'a> = &'a [&'a str];
type Flags<'a> = &'a [&'a str];
type Env<'a> = &'a [(&'a str, &'a str)];

/// The one line that a wrong start is told.
pub(super) fn refusal(result: Result<Settings, SettingsError>) -> String {
    match result {
        Err(SettingsError::Invalid(line)) => {
            assert!(!line.contains('\n'), "more than one line: {line}");
            line
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn whatever_is_unknown_or_wrong_is_named_with_what_would_be_right() {
    let table: &[(Flags, Env, &str, Named)] = &[
        (&["--heartbeet=1s"], &[], "", &["'--heartbeet'", "'--heartbeat'"]),
        (&["--ttl=30"], &[], "", &["--ttl", "'30'", "30s"]),
        (&[], &[("PRESENCE_LISTN", "x")], "", &["PRESENCE_LISTN", "PRESENCE_LISTEN"]),
        (&[], &[("PRESENCE_ttl", "9s")], "", &["PRESENCE_ttl", "PRESENCE_TTL"]),
        (&[], &[("PRESENCE_QQQ", "x")], "", &["PRESENCE_QQQ", "--help"]),
        (&[], &[("PRESENCE_TTL", "soon")], "", &["PRESENCE_TTL", "'soon'", "30s"]),
        (&[], &[("PRESENCE_LISTEN", "localhost")], "", &["PRESENCE_LISTEN", "127.0.0.1:8080"]),
        (&[], &[("PRESENCE_STORE", "rediss")], "", &["PRESENCE_STORE", "embedded, redis"]),
        (&["--dev=maybe"], &[], "", &["'maybe'", "--dev", "it must be true or false"]),
        (&["--allow-insecure=5"], &[], "", &["'5'", "--allow-insecure", "true or false"]),
        (&[], &[("PRESENCE_DEV", "perhaps")], "", &["PRESENCE_DEV", "'perhaps'", "true or false"]),
        (&[], &[], "\nttl = '40s'\nredis-ur = 'x'", &["gateway.toml", "'redis-ur'", "redis_url"]),
        (&[], &[], "config = 'x'\ngrace = ", &["gateway.toml, line 2"]),
        (&[], &[], "max_watch = 0", &["gateway.toml: 'max_watch'", "'0'", "1..=100000"]),
        (&[], &[], "[presence]\nttl = '9s'", &["gateway.toml", "'presence'", "unknown"]),
        (&[], &[], "max_watch = [1]", &["gateway.toml", "'max_watch'", "whole number"]),
        (&[], &[], "max_watch = 1\nmax-watch = 2", &["gateway.toml", "twice"]),
        (&["--prefix=a{b}"], &[], "", &["--prefix", "A-Z a-z 0-9 _ : -"]),
        (&["--prefix="], &[], "", &["--prefix", "1 to 64"]),
        (&["--max-frame-bytes=64kb"], &[], "", &["--max-frame-bytes", "64KiB"]),
        (&["--max-frame-bytes=17MiB"], &[], "", &["--max-frame-bytes", "16MiB"]),
        (&["--hello-timeout=0s"], &[], "", &["--hello-timeout", "longer than zero"]),
        (&["--ttl=11years"], &[], "", &["--ttl", "ten years"]),
        (&["--jwt-leeway=6m"], &[], "", &["--jwt-leeway", "at most 5m"]),
        (&["--jwt-leeway=1500ms"], &[], "", &["--jwt-leeway", "whole seconds"]),
        (&["--jwks-refresh=9s"], &[], "", &["--jwks-refresh", "at least 10s"]),
        (&["--log=a=b=c"], &[], "", &["--log", "warn,presence=debug"]),
        (&["run"], &[], "", &["'run'", "no word, as in presence-gateway --dev"]),
        (&["tokens"], &[], "", &["'tokens'", "tip", "'token'", "presence-gateway --dev"]),
        (&["--dev", "false"], &[], "", &["'false'", "--dev=false"]),
        (&["key"], &[], "", &["<USER>"]),
        (&["key", ""], &[], "", &["1 to 128 bytes"]),
    ];
    for (flags, env, file, named) in table {
        let line = refusal(load(&[&["--dev"], *flags].concat(), env, file));
        for name in *named {
            assert!(line.contains(name), "{flags:?} {env:?} {file:?}: no {name} in: {line}");
        }
    }
}

#[test]
fn a_wrong_value_stops_the_start_even_where_a_flag_would_have_won() {
    let line = refusal(load(&["--dev", "--ttl=40s"], &[("PRESENCE_TTL", "soon")], ""));
    assert!(line.contains("PRESENCE_TTL"), "{line}");
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    let secret = format!("--jwt-secret={SECRET}");
    let secret = secret.as_str();
    let url = "--redis-url=redis://127.0.0.1";
    let tls = "--redis-url=rediss://127.0.0.1";
    let asks = "--watch-policy=callback";
    let callback = "--watch-callback-url=https://app.example.com/watch";
    let keys = "it would be right as https://auth.example.com/keys";
    let watch = "it would be right as https://app.example.com/watch";
    let callback_secret = "--watch-callback-secret=0123456789abcdef";
    let table: &[(Flags, Named)] = &[
        (&[], &["authentication", "'jwt'", "'none'", "--dev"]),
        (&["--auth=jwt"], &["jwt_secret", "jwt_public_key_file", "jwks_url"]),
        (&["--auth=none", secret], &["auth is 'none'", "secret"]),
        (&["--auth=none", "--jwt-public-key-file=k"], &["auth is 'none'", "key file"]),
        (&["--auth=none", "--jwt-audience=a"], &["jwt_audience"]),
        (&["--auth=none", "--jwt-issuer=a"], &["jwt_issuer"]),
        (&[secret, "--jwt-issuer="], &["jwt_issuer is empty"]),
        (&["--jwks-url=http://auth.test/keys"], &["jwks_url is plain http", keys]),
        (&["--jwks-url=keys"], &["jwks_url", keys]),
        (&[secret, "--jwt-secret-file=/nowhere"], &["both"]),
        (&["--jwt-secret-file=/nowhere/at/all"], &["jwt_secret_file", "/nowhere/at/all"]),
        (&["--jwt-secret=short"], &["jwt_secret has 5 bytes", "32"]),
        (&["--auth=none", "--api-key=short"], &["api_key has 5 bytes", "16"]),
        (&["--auth=none", "--api-key=0123456789abcdef,"], &["one of the keys", "0 bytes", "comma"]),
        (&["--dev", "--revocation-kept=59s"], &["--revocation-kept", "1m"]),
        (&["--dev", "--watch-policy=token"], &["'token'", "auth is 'none'", "'jwt'"]),
        (&["--dev", "--watch-policy=callback"], &["watch_callback_url is not set"]),
        (&["--dev", callback, callback_secret], &["watch_policy is 'open'", "'callback'"]),
        (&["--dev", "--watch-policy=callback", callback], &["watch_callback_secret is not"]),
        (&["--dev", callback_secret], &["watch_callback_url is not: set both"]),
        (&["--dev", asks, callback, "--watch-callback-secret=short"], &["has 5 bytes", "16"]),
        (&["--dev", asks, callback, "--watch-callback-secret=0123456789 abcdef"], &["blank"]),
        (
            &["--dev", asks, callback_secret, "--watch-callback-url=http://a/w"],
            &["plain http", watch],
        ),
        (
            &["--dev", asks, callback_secret, "--watch-callback-url=watch"],
            &["watch_callback_url", watch],
        ),
        (&["--auth=none", "--listen=0.0.0.0:1"], &["0.0.0.0:1", "--allow-insecure"]),
        (&["--dev", secret, "--listen=[::]:1"], &["[::]:1", "--allow-insecure"]),
        (&["--dev", "--store=embedded", url], &["'embedded'", "redis_url"]),
        (&["--dev", "--store=redis"], &["redis_url is not set", "redis://127.0.0.1:6379"]),
        (&["--dev", "--redis-url=http://a"], &["redis_url", "'http'", "redis-sentinel://"]),
        (&["--dev", "--redis-url=redisss://a"], &["redis_url", "'redisss'", "rediss… for TLS"]),
        (&["--dev", url, "--redis-ca-file=ca.pem"], &["redis_url does not ask", "rediss://"]),
        (&["--dev", tls, "--redis-cert-file=c.pem"], &["redis_key_file is not: set both"]),
        (&["--dev", tls, "--redis-key-file=k.pem"], &["redis_cert_file is not: set both"]),
        (&["--dev", "--tls-cert-file=c.pem"], &["tls_cert_file", "tls_key_file is not: set both"]),
        (&["--dev", "--tls-key-file=k.pem"], &["tls_key_file", "tls_cert_file is not: set both"]),
        (
            &["--dev", "--redis-url=localhost:6379"],
            &["redis_url", "right as redis://127.0.0.1:6379"],
        ),
        (&["--dev", "--redis-url=redis://:pw@"], &["redis_url has no host"]),
        (&["--dev", "--heartbeat=99ms"], &["heartbeat is 99ms", "100ms"]),
        (&["--dev", "--ttl=19s"], &["ttl is 19s", "at least 20s", "heartbeat of 10s"]),
        (&["--dev", "--last-seen=29s"], &["last_seen is 29s", "30s"]),
    ];
    for (flags, named) in table {
        let line = refusal(load(flags, &[], ""));
        for name in *named {
            assert!(line.contains(name), "{flags:?}: no {name} in: {line}");
        }
    }
}

#[test]
fn limits_themselves_are_allowed() {
    let secret = format!("--jwt-secret={}", "x".repeat(32));
    let table: &[Flags] = &[
        &["--dev", "--heartbeat=100ms", "--ttl=200ms", "--grace=0s", "--drain=0s"],
        &["--auth=none", "--listen=127.9.9.9:1"],
        &["--auth=none", "--listen=[::1]:1"],
        &["--auth=none", "--listen=0.0.0.0:1", "--allow-insecure"],
        &["--dev", "--listen=0.0.0.0:1", "--allow-insecure"],
        &["--listen=0.0.0.0:1", &secret],
        &["--dev", "--api-key=exactly16 bytes!"],
        &["--dev", "--max-frame-bytes=1KiB", "--ttl=30s", "--ttl=31s"],
        &["--dev", "--redis-url=rediss-cluster://h", "--redis-ca-file=ca.pem"],
        &["--dev", "--tls-cert-file=c.pem", "--tls-key-file=k.pem"],
        &["--dev", "--redis-url=valkeys://h", "--redis-cert-file=c", "--redis-key-file=k"],
    ];
    for flags in table {
        assert!(load(flags, &[], "").is_ok(), "{flags:?}: {:?}", load(flags, &[], ""));
    }
}

#[test]
fn what_kubernetes_sets_for_a_service_is_passed_over_and_nothing_else() {
    let links = [
        ("PRESENCE_SERVICE_HOST", "10.0.0.1"),
        ("PRESENCE_SERVICE_PORT", "8080"),
        ("PRESENCE_SERVICE_PORT_HTTP", "8080"),
        ("PRESENCE_PORT", "tcp://10.0.0.1:8080"),
        ("PRESENCE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("PRESENCE_PORT_8080_TCP_PROTO", "tcp"),
        ("PRESENCE_PORT_8080_TCP_PORT", "8080"),
        ("PRESENCE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("PRESENCE_REDIS_SERVICE_HOST", "10.0.0.2"),
        ("PRESENCE_REDIS_PORT", "tcp://10.0.0.2:6379"),
        ("PRESENCE_REDIS_PORT_6379_TCP_ADDR", "10.0.0.2"),
        ("PRESENCELESS", "not ours"),
    ];
    for link in links {
        assert!(load(&["--dev"], &[link], "").is_ok(), "{link:?}");
    }
    let wishes = [
        ("PRESENCE_PORT", "8080"),
        ("PRESENCE_LISTEN_PORT", "8080"),
        ("PRESENCE_PORT_8080", "x"),
        ("PRESENCE_PORT_HTTP_TCP", "x"),
        ("PRESENCE_PORT_8080_TCP_NAME", "x"),
        ("PRESENCE_SERVICE", "x"),
        ("PRESENCE_SERVICE_PORT_", "x"),
    ];
    for wish in wishes {
        let line = refusal(load(&["--dev"], &[wish], ""));
        assert!(line.contains(wish.0), "{line}");
    }
}
