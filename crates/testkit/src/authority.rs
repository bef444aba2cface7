//! A certificate authority that nobody else trusts, and the certificates that it makes.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::keeper::Scratch;

/// Far enough away for any test.
const VALID_UNTIL_YEAR: i32 = 4096;

/// An authority, and all files that it wrote, as PEM. They are removed with it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    files: Scratch,
}

impl Authority {
    /// Makes one, and writes its own certificate.
    #[expect(clippy::new_without_default, reason = "what is made is on disk")]
    pub fn new() -> Self {
        let files = Scratch::new();
        let mut params = params("authority.test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        write(&files.file("ca.pem"), &certificate.pem());
        Self { issuer: Issuer::new(params, key), files }
    }

    /// Makes a certificate for this name, such as `127.0.0.1`, and a key, and writes both over those before.
    pub fn certify(&self, who: &str, name: &str) {
        self.certify_until(who, name, VALID_UNTIL_YEAR);
    }

    /// One that expires when this year begins.
    pub fn certify_until(&self, who: &str, name: &str, year: i32) {
        let mut params = params(name);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        write(&self.cert_file(who), &certificate.pem());
        write(&self.key_file(who), &key.serialize_pem());
    }

    /// The authority's own certificate.
    pub fn ca_file(&self) -> String {
        self.files.file("ca.pem")
    }

    /// The certificate of this holder.
    pub fn cert_file(&self, who: &str) -> String {
        self.files.file(&format!("{who}.pem"))
    }

    /// The key of this holder.
    pub fn key_file(&self, who: &str) -> String {
        self.files.file(&format!("{who}.key"))
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn write(path: &str, text: &str) {
    fs::write(path, text).expect("a file of this test");
}
