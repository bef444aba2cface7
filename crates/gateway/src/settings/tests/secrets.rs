//! That nothing which people or log stores read holds a secret.

use super::super::{RedisUrl, Secret};
use super::refusals::refusal;
use super::{dev, load};

#[test]
fn no_output_shows_a_secret() {
    let flags = [
        "--jwt-secret=hushhushhushhushhushhushhushhush",
        "--api-key=hushhushhushhush",
        "--jwks-url=https://auth.test/keys?key=hush",
        "--watch-policy=callback",
        "--watch-callback-url=https://a/w?key=hush",
        "--watch-callback-secret=hushhushhushhush",
        "--redis-url=redis-sentinel://u:hush@a:1/0?sentinelPassword=hush&node=b:2",
    ];
    let settings = load(&flags, &[], "").unwrap();
    let shown = format!("{settings:?} {:?}", settings.summary());
    assert!(!shown.contains("hush"), "{shown}");
    assert!(shown.contains("[secret]"), "{shown}");
    for wrong in [
        "--jwt-secret=hush",
        "--api-key=hush",
        "--redis-url=hush",
        "--redis-url=a://hush",
        "--jwks-url=hush",
        "--jwks-url=http://auth.test/hush",
    ] {
        let line = refusal(dev(&[wrong]));
        assert!(!line.contains("hush"), "{line}");
        let (name, value) = wrong[2..].split_once('=').unwrap();
        let line = refusal(load(&["--dev"], &[], &format!("{name} = '{value}'")));
        assert!(!line.contains("hush"), "{line}");
    }
    assert_eq!(format!("{:?}", Secret::new("hush")), "[secret]");
}

#[test]
fn a_redis_url_is_shown_without_its_passwords() {
    let table = [
        ("redis://a:6379/2", "redis://a:6379/2"),
        ("redis://u:p@a:6379", "redis://u:[secret]@a:6379"),
        ("redis://:p@a", "redis://[secret]@a"),
        ("redis://p@a", "redis://[secret]@a"),
        ("redis://u:p/w@x@a/0", "redis://u:[secret]@a/0"),
        ("redis://u:p?w@a", "redis://[secret]"),
        ("redis-cluster://a:1?node=b:2&node=c:3", "redis-cluster://a:1?node=b:2&node=c:3"),
        ("redis-sentinel://a?sentinelPassword=p", "redis-sentinel://a?sentinelPassword=[secret]"),
        ("redis-sentinel://a?sentinelPassword=p@q", "redis-sentinel://[secret]"),
    ];
    for (url, shown) in table {
        assert_eq!(RedisUrl::new(url).unwrap().to_string(), shown, "{url}");
    }
}
