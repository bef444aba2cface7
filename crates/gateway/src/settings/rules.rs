//! What must hold between settings, and the checks of secrets, which clap must not quote.
//!
//! Each rule's error names the settings, what is wrong, and what would be right, on one line.

mod access;

use std::path::PathBuf;
use std::time::Duration;

use presence::store::redis::{ClientFiles, TlsFiles};

use super::flags::{Flags, StoreKind};
use super::{
    Admission, Auth, CertificateFiles, RedisUrl, Secret, Settings, Store, values, watching,
};
use access::auth;

/// A client, its network and Redis need this much to keep up with heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
const API_KEY_BYTES_MIN: usize = 16;

pub(super) fn resolve(flags: Flags) -> Result<Settings, String> {
    let store = store(&flags)?;
    let redis_tls = redis_tls(&flags, &store)?;
    let auth = auth(&flags)?;
    check_times(&flags)?;
    check_reach(&flags, &auth)?;
    let tls = pair(("tls_cert_file", &flags.tls_cert_file), ("tls_key_file", &flags.tls_key_file))?;
    let max_connections = flags.admission.max_connections;
    let admission = Admission::resolve(flags.admission)?;
    let watch_policy = watching::policy(&flags.watching, &auth)?;
    Ok(Settings {
        listen: flags.listen,
        tls: tls.map(|(cert, key)| CertificateFiles { cert, key }),
        max_connections,
        store,
        redis_tls,
        prefix: flags.prefix,
        heartbeat: flags.heartbeat,
        ttl: flags.ttl,
        grace: flags.grace,
        last_seen: flags.last_seen,
        auth,
        jwks_refresh: flags.jwks_refresh,
        watch_policy,
        outbound_ca_file: flags.outbound_ca_file,
        api_keys: api_keys(flags.api_key.as_ref())?,
        revocation_kept: flags.revocation_kept,
        hello_timeout: flags.hello_timeout,
        write_timeout: flags.write_timeout,
        max_frame_bytes: flags.max_frame_bytes,
        max_watch: flags.max_watch,
        message_rate: flags.message_rate,
        admission,
        drain: flags.drain,
        log_format: flags.log_format,
        log: flags.log,
        dev: flags.dev,
        command: flags.command,
    })
}

fn store(flags: &Flags) -> Result<Store, String> {
    let url = flags.redis_url.as_ref().map(|url| RedisUrl::new(url.expose())).transpose();
    let url = url.map_err(|error| format!("redis_url {error}"))?;
    match (flags.store, url) {
        (Some(StoreKind::Embedded), Some(_)) => Err("store is 'embedded', but redis_url is set: \
            unset redis_url, or set store to 'redis'"
            .to_owned()),
        (Some(StoreKind::Redis), None) => Err("store is 'redis', but redis_url is not set: \
            give it one such as redis://127.0.0.1:6379"
            .to_owned()),
        (_, Some(url)) => Ok(Store::Redis(url)),
        (_, None) => Ok(Store::Embedded),
    }
}

fn redis_tls(flags: &Flags, store: &Store) -> Result<TlsFiles, String> {
    let client = pair(
        ("redis_cert_file", &flags.redis_cert_file),
        ("redis_key_file", &flags.redis_key_file),
    )?;
    let client = client.map(|(cert, key)| ClientFiles { cert, key });
    let files = TlsFiles { ca: flags.redis_ca_file.clone(), client };
    let encrypted = matches!(store, Store::Redis(url) if url.is_encrypted());
    if files != TlsFiles::default() && !encrypted {
        return Err("there are files for TLS to Redis, but redis_url does not ask for it: let it \
            start with rediss://, rediss-cluster:// or rediss-sentinel://"
            .to_owned());
    }
    Ok(files)
}

/// Both files, or none of the two.
fn pair(
    (cert_name, cert): (&str, &Option<PathBuf>),
    (key_name, key): (&str, &Option<PathBuf>),
) -> Result<Option<(PathBuf, PathBuf)>, String> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some((cert.clone(), key.clone()))),
        (Some(_), None) => Err(format!("{cert_name} is set, but {key_name} is not: set both")),
        (None, Some(_)) => Err(format!("{key_name} is set, but {cert_name} is not: set both")),
    }
}

fn check_times(flags: &Flags) -> Result<(), String> {
    let show = values::written;
    let (heartbeat, ttl) = (flags.heartbeat, flags.ttl);
    if heartbeat < HEARTBEAT_MIN {
        return Err(format!(
            "heartbeat is {}: it must be at least {}",
            show(heartbeat),
            show(HEARTBEAT_MIN)
        ));
    }
    if ttl < heartbeat * 2 {
        return Err(format!(
            "ttl is {}: it must be at least {}, twice the heartbeat of {}, or one late heartbeat \
             would show a user offline",
            show(ttl),
            show(heartbeat * 2),
            show(heartbeat)
        ));
    }
    if flags.last_seen < ttl {
        return Err(format!(
            "last_seen is {}: it must be at least the ttl of {}",
            show(flags.last_seen),
            show(ttl)
        ));
    }
    Ok(())
}

/// Nobody else may reach a gateway that believes everyone, unless the operator says so.
fn check_reach(flags: &Flags, auth: &Auth) -> Result<(), String> {
    let trusting = flags.dev || matches!(auth, Auth::None);
    let serving = flags.command.is_none();
    if !trusting || !serving || flags.listen.ip().is_loopback() || flags.allow_insecure {
        return Ok(());
    }
    let why = if flags.dev { "development mode" } else { "auth 'none'" };
    Err(format!(
        "listen is {}, which others can reach, and {why} lets anyone be anyone: listen on \
         127.0.0.1, set auth to 'jwt', or insist with --allow-insecure (PRESENCE_ALLOW_INSECURE)",
        flags.listen
    ))
}

fn api_keys(keys: Option<&Secret>) -> Result<Vec<Secret>, String> {
    let Some(keys) = keys else { return Ok(Vec::new()) };
    let keys: Vec<Secret> = keys.expose().split(',').map(Secret::new).collect();
    let several = if keys.len() > 1 { "one of the keys in api_key" } else { "api_key" };
    match keys.iter().find(|key| key.len() < API_KEY_BYTES_MIN) {
        Some(short) => Err(format!(
            "{several} has {} bytes: it needs at least {API_KEY_BYTES_MIN}, and no comma",
            short.len()
        )),
        None => Ok(keys),
    }
}
