//! TLS to a real Redis: whom the store trusts, and how each mistake is told.

use presence::store::Cause;
use presence::store::redis::{ClientFiles, OpenError, RedisOptions, TlsFiles, open};
use presence_testkit::ClientCertificates::{Ignored, Needed};
use presence_testkit::TlsRedis;

use crate::world::{Gateway, fresh_prefix, slow};

fn options(url: String, ca: Option<String>, client: Option<(String, String)>) -> RedisOptions {
    let client = client.map(|(cert, key)| ClientFiles { cert: cert.into(), key: key.into() });
    let tls = TlsFiles { ca: ca.map(Into::into), client };
    RedisOptions { url, tls, prefix: fresh_prefix(), gateway: "g".to_owned(), config: slow() }
}

async fn works(options: RedisOptions) {
    let (opened, _) = open(options).await.expect("the store opens");
    let mut g = Gateway { opened };
    g.join("ana", "ios").await;
    assert_eq!(g.heard("ana").await.cause(), Some(Cause::Joined));
}

async fn error(options: RedisOptions) -> String {
    let error = open(options).await.err().expect("the store does not open");
    assert!(
        matches!(error, OpenError::Refused { .. } | OpenError::Unreachable { .. }),
        "{error:?}"
    );
    error.to_string()
}

#[tokio::test]
async fn a_redis_of_a_private_authority_is_used_when_that_is_named() {
    let redis = TlsRedis::start("127.0.0.1", Ignored);
    works(options(redis.url(), Some(redis.ca_file()), None)).await;
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_a_redis_that_wants_one() {
    let redis = TlsRedis::start("127.0.0.1", Needed);
    works(options(redis.url(), Some(redis.ca_file()), Some(redis.client_files()))).await;
    let told = error(options(redis.url(), Some(redis.ca_file()), None)).await;
    assert!(told.contains("redis_cert_file"), "{told}");
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_told() {
    let redis = TlsRedis::start("127.0.0.1", Ignored);
    let other = TlsRedis::start("redis.test", Ignored);
    let told = error(options(redis.url(), Some(other.ca_file()), None)).await;
    assert!(told.contains("redis_ca_file"), "{told}");
}

#[tokio::test]
async fn a_certificate_of_another_host_is_told() {
    let redis = TlsRedis::start("redis.test", Ignored);
    let told = error(options(redis.url(), Some(redis.ca_file()), None)).await;
    assert!(told.contains("names others"), "{told}");
}

#[tokio::test]
async fn tls_on_one_side_only_is_told_whichever_side_it_is() {
    let redis = TlsRedis::start("127.0.0.1", Ignored);
    let plain = redis.server().url().replace("redis://", "rediss://");
    let told = error(options(plain, Some(redis.ca_file()), None)).await;
    assert!(told.contains("does not speak TLS"), "{told}");
    let told = error(options(redis.url_without_tls(), None, None)).await;
    assert!(told.contains("rediss://"), "{told}");
}
