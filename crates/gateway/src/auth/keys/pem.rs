//! Public keys in PEM, as in the file that `jwt_public_key_file` names: one or several, of any kind. Pure.

use jsonwebtoken::DecodingKey;
use pem::Pem;

use super::KEYS_MAX;
use super::key::Key;

/// How each block begins.
const BEGIN: &str = "-----BEGIN ";

/// The keys of a file, or what is wrong with it: all are taken or none.
pub(in crate::auth) fn keys_in(text: &str) -> Result<Vec<Key>, String> {
    let blocks = pem::parse_many(text).map_err(|error| format!("it is no PEM: {error}"))?;
    // The library passes over what has no end, such as the last key of a file that is being written.
    if blocks.len() != text.matches(BEGIN).count() {
        return Err("a key in it is cut off".to_owned());
    }
    match blocks.len() {
        0 => {
            Err("there is no public key in it: it must have a '-----BEGIN PUBLIC KEY-----'".into())
        }
        1..=KEYS_MAX => blocks.iter().enumerate().map(|(index, block)| key(index, block)).collect(),
        many => Err(format!("it has {many} keys: at most {KEYS_MAX} are taken")),
    }
}

fn key(index: usize, block: &Pem) -> Result<Key, String> {
    let number = index + 1;
    match block.tag() {
        "PUBLIC KEY" | "RSA PUBLIC KEY" => {}
        "CERTIFICATE" => {
            return Err(format!(
                "key {number} is a certificate: take its key out with `openssl x509 -pubkey -noout`"
            ));
        }
        private if private.ends_with("PRIVATE KEY") => {
            return Err(format!(
                "key {number} is a private key, which a gateway must not have: write the public one with \
                 `openssl pkey -pubout`"
            ));
        }
        _ => return Err(format!("key {number} is no 'PUBLIC KEY'")),
    }
    let text = pem::encode(block);
    let text = text.as_bytes();
    // Each takes its own kind only.
    let decoding = DecodingKey::from_rsa_pem(text)
        .or_else(|_| DecodingKey::from_ec_pem(text))
        .or_else(|_| DecodingKey::from_ed_pem(text))
        .map_err(|_| format!("key {number} is no RSA, P-256 or Ed25519 key"))?;
    Key::new(decoding, None).map_err(|error| format!("key {number} is {error}"))
}
