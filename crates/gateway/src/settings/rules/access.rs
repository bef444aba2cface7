//! How clients prove who they are: what must hold between the settings of authentication.

use std::path::Path;

use super::super::flags::{AuthKind, Command, Flags};
use super::super::{Auth, KeySources, OutboundUrl, Secret, TokenRules};

/// RFC 7518, 3.2: a key for HS256 is at least as long as its hash.
const SECRET_BYTES_MIN: usize = 32;

/// An old one, a new one, and some to spare: each bad token is tried with all.
const SECRETS_MAX: usize = 8;

const RIGHT_URL: &str = "it would be right as https://auth.example.com/keys";

const CHOOSE: &str = "no authentication was chosen: set auth to 'jwt' (with jwt_secret, \
    jwt_public_key_file or jwks_url) or to 'none', or start with --dev to try it out";

const NO_KEY: &str = "auth is 'jwt', but there is no key: set jwt_secret or jwt_secret_file to the \
    secret that your backend signs with, jwt_public_key_file to its public keys, or jwks_url to \
    where these are published";

pub(super) fn auth(flags: &Flags) -> Result<Auth, String> {
    let keys = key_sources(flags)?;
    let choice = match (flags.auth, &keys) {
        (Some(choice), _) => choice,
        (None, Some(_)) => AuthKind::Jwt,
        // Printing a user's keys needs nobody to sign in.
        (None, None) if flags.dev || matches!(flags.command, Some(Command::Key { .. })) => {
            AuthKind::None
        }
        (None, None) => return Err(CHOOSE.to_owned()),
    };
    match (choice, keys) {
        (AuthKind::Jwt, Some(keys)) => Ok(Auth::Jwt { keys, rules: token_rules(flags)? }),
        (AuthKind::Jwt, None) => Err(NO_KEY.to_owned()),
        (AuthKind::None, Some(_)) => {
            Err("auth is 'none', but a jwt secret, key file or key URL is \
            set: unset it, or set auth to 'jwt'"
                .to_owned())
        }
        (AuthKind::None, None) => {
            for (name, rule) in
                [("jwt_audience", &flags.jwt_audience), ("jwt_issuer", &flags.jwt_issuer)]
            {
                if rule.is_some() {
                    return Err(format!(
                        "auth is 'none', but {name} is set: unset it, or set auth to 'jwt'"
                    ));
                }
            }
            Ok(Auth::None)
        }
    }
}

fn token_rules(flags: &Flags) -> Result<TokenRules, String> {
    for (name, rule) in [("jwt_audience", &flags.jwt_audience), ("jwt_issuer", &flags.jwt_issuer)] {
        if rule.as_ref().is_some_and(String::is_empty) {
            return Err(format!("{name} is empty: set it to what tokens carry, or leave it away"));
        }
    }
    Ok(TokenRules {
        issuer: flags.jwt_issuer.clone(),
        audience: flags.jwt_audience.clone(),
        leeway: flags.jwt_leeway,
    })
}

fn key_sources(flags: &Flags) -> Result<Option<KeySources>, String> {
    let secrets = match (&flags.jwt_secret, &flags.jwt_secret_file) {
        (None, None) => Vec::new(),
        (Some(secret), None) => vec![long_enough("jwt_secret", secret.clone())?],
        (None, Some(path)) => secrets_in(path)?,
        (Some(_), Some(_)) => {
            return Err(
                "jwt_secret and jwt_secret_file are both set: keep one; the file may hold \
                several secrets, one a line"
                    .to_owned(),
            );
        }
    };
    let jwks_url = flags.jwks_url.as_ref().map(|url| OutboundUrl::new(url.expose())).transpose();
    let jwks_url = jwks_url.map_err(|error| format!("jwks_url {error}; {RIGHT_URL}"))?;
    let public_key_file = flags.jwt_public_key_file.clone();
    let any = !secrets.is_empty() || public_key_file.is_some() || jwks_url.is_some();
    Ok(any.then_some(KeySources { secrets, public_key_file, jwks_url }))
}

/// A secret on each line. Line ends, an editor's or echo's, are not part of a secret; spaces are.
fn secrets_in(path: &Path) -> Result<Vec<Secret>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("jwt_secret_file: cannot read {}: {error}", path.display()))?;
    let lines = text.split(['\r', '\n']).filter(|line| !line.is_empty());
    let secrets: Vec<_> = lines.map(Secret::new).collect();
    match secrets.len() {
        0 => Err(format!("jwt_secret_file: {} is empty: write a secret into it", path.display())),
        1..=SECRETS_MAX => {
            secrets.into_iter().map(|one| long_enough("a line of jwt_secret_file", one)).collect()
        }
        many => Err(format!(
            "jwt_secret_file has {many} secrets, one a line: at most {SECRETS_MAX} are taken"
        )),
    }
}

fn long_enough(name: &str, secret: Secret) -> Result<Secret, String> {
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "{name} has {} bytes: HS256 needs at least {SECRET_BYTES_MIN}, such as those of \
             `openssl rand -base64 48`",
            secret.len()
        ));
    }
    Ok(secret)
}
