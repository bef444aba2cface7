//! The file with public keys: read at the start, and again whenever what it says has changed.
//!
//! It is read every few seconds, and not only asked for its time: a key of the same length may have been copied over it
//! with its time kept, and a few kilobytes cost nothing.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::super::keys::{Key, KeyRing, Source, pem};
use super::super::metrics::{AuthMetrics, Outcome};

/// How often it is looked at, on average.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// More than 64 keys of the longest kind have.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The keys of the file, or one line that says what is wrong with it.
pub(in crate::auth) fn read_keys(path: &Path) -> Result<Vec<Key>, String> {
    parse(path, &read(path)?)
}

/// The file, and where its keys go.
pub(super) struct KeyFile {
    path: PathBuf,
    keys: Arc<KeyRing>,
    metrics: AuthMetrics,
    /// What it said, or why that is not known. `None` before the first look.
    last: Option<Result<String, String>>,
}

impl KeyFile {
    pub(super) fn new(path: PathBuf, keys: Arc<KeyRing>, metrics: AuthMetrics) -> Self {
        Self { path, keys, metrics, last: None }
    }

    /// Looks at the file for ever.
    pub(super) async fn keep(mut self) {
        loop {
            let path = self.path.clone();
            let found = spawn_blocking(move || read(&path)).await;
            let found = found.unwrap_or_else(|_| Err("reading it was given up".to_owned()));
            if self.last.as_ref() != Some(&found) {
                self.take(&found);
                self.last = Some(found);
            }
            sleep(LOOK_EVERY.mul_f32(0.8 + 0.4 * fastrand::f32())).await;
        }
    }

    /// What is wrong is said once for each content, since the same is not taken again.
    fn take(&self, found: &Result<String, String>) {
        let parsed = found.as_ref().map_err(Clone::clone).and_then(|text| parse(&self.path, text));
        self.metrics.key_file_read(match (&parsed, found) {
            (Ok(_), _) => Outcome::Ok,
            (Err(_), Ok(_)) => Outcome::Unusable,
            (Err(_), Err(_)) => Outcome::Unreachable,
        });
        match parsed {
            Ok(parsed) => {
                self.keys.replace(Source::File, parsed);
                self.metrics.count_keys(&self.keys);
                // The first look is at what the start has read already.
                if self.last.is_some() {
                    let keys = self.keys.described(Source::File);
                    info!(keys, "jwt_public_key_file has changed");
                }
            }
            Err(error) => {
                warn!(
                    error,
                    "jwt_public_key_file cannot be used: its keys of before go on being used"
                );
            }
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<Key>, String> {
    pem::keys_in(text).map_err(|why| format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text)
}
