//! Reads a certificate again when its files change, or at once on SIGHUP.
//!
//! What was read is shown to clients only when it is whole: until then, and when the files make no sense, the certificate
//! before goes on. It must not end the gateway, and must not tell of the same trouble twice.

use std::fs::{self, Metadata};
use std::future::pending;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use tokio::select;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::{info, warn};

use super::Newest;
use super::certificate::Certificate;
use super::metrics::{Reading, TlsMetrics};
use crate::settings::CertificateFiles;

/// How often the files are looked at, give or take a fifth.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// From so long before it expires on, a certificate is warned of once a day. Those of Let's Encrypt are renewed 30 days
/// before.
const EXPIRY_NEAR: Duration = Duration::from_hours(14 * 24);
const WARNING_INTERVAL: Duration = Duration::from_hours(24);

/// Keeps the certificate that clients are shown the newest one.
pub(super) struct Renewal {
    files: CertificateFiles,
    /// The files as they were when they were last read with success. None when that is to be done in any case.
    seen: Option<Seen>,
    current: Certificate,
    newest: watch::Sender<Arc<CertifiedKey>>,
    /// What was last warned of.
    complaint: Option<String>,
    warned_of_expiry: Option<Instant>,
    metrics: TlsMetrics,
}

impl Renewal {
    /// Reads the files for the first time; the error is one line. Also answers what clients are to be shown.
    pub(super) fn open(files: &CertificateFiles, metrics: TlsMetrics) -> Result<(Self, Newest)> {
        let seen = Seen::of(files).ok();
        let current = Certificate::load(files)?;
        metrics.set_expiry(current.expires_at);
        let (newest, shown) = watch::channel(current.key.clone());
        let mut renewal = Self {
            files: files.clone(),
            seen,
            current,
            newest,
            complaint: None,
            warned_of_expiry: None,
            metrics,
        };
        renewal.warn_of_expiry();
        Ok((renewal, Newest(shown)))
    }

    /// What a start-up message says of the certificate.
    pub(super) fn note(&self) -> String {
        self.current.to_string()
    }

    /// Looks at the files for ever.
    pub(super) async fn run(mut self) {
        let mut hang_up = HangUp::listen();
        loop {
            select! {
                () = sleep(LOOK_INTERVAL.mul_f64(0.8 + 0.4 * fastrand::f64())) => {}
                () = hang_up.heard() => self.seen = None,
            }
            self.look().await;
            self.warn_of_expiry();
        }
    }

    async fn look(&mut self) {
        let (files, known) = (self.files.clone(), self.seen);
        let looked = spawn_blocking(move || {
            let seen = Seen::of(&files).ok();
            let changed = seen.is_none() || seen != known;
            changed.then(|| (seen, Certificate::load(&files)))
        });
        match looked.await {
            Ok(Some((seen, Ok(certificate)))) => self.take(seen, certificate),
            Ok(Some((_, Err(error)))) => self.complain(format!("{error:#}")),
            // Nothing has changed, or the runtime ends.
            Ok(None) | Err(_) => {}
        }
    }

    fn take(&mut self, seen: Option<Seen>, certificate: Certificate) {
        info!(certificate = %certificate, "the TLS certificate was read again");
        self.metrics.count_renewal(Reading::Done);
        self.metrics.set_expiry(certificate.expires_at);
        self.newest.send_replace(certificate.key.clone());
        self.seen = seen;
        self.current = certificate;
        self.complaint = None;
        self.warned_of_expiry = None;
    }

    fn complain(&mut self, complaint: String) {
        if self.complaint.as_ref() != Some(&complaint) {
            warn!(error = complaint, "the TLS certificate cannot be renewed, and stays as it was");
            self.metrics.count_renewal(Reading::Failed);
            self.complaint = Some(complaint);
        }
    }

    fn warn_of_expiry(&mut self) {
        let left = self.current.expires_at.duration_since(SystemTime::now()).unwrap_or_default();
        let was_warned = self.warned_of_expiry.is_some_and(|at| at.elapsed() < WARNING_INTERVAL);
        if left < EXPIRY_NEAR && !was_warned {
            warn!(certificate = %self.current, "the TLS certificate expires soon: renew its files");
            self.warned_of_expiry = Some(Instant::now());
        }
    }
}

/// What tells that the files are others than before, without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    cert: FileState,
    key: FileState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    changed_at: (i64, i64),
    len: u64,
    inode: u64,
}

impl Seen {
    fn of(files: &CertificateFiles) -> io::Result<Self> {
        let state = |path: &Path| fs::metadata(path).map(FileState::from);
        Ok(Self { cert: state(&files.cert)?, key: state(&files.key)? })
    }
}

impl From<Metadata> for FileState {
    fn from(metadata: Metadata) -> Self {
        Self {
            changed_at: (metadata.ctime(), metadata.ctime_nsec()),
            len: metadata.len(),
            inode: metadata.ino(),
        }
    }
}

/// SIGHUP, where it can be listened for.
struct HangUp(Option<Signal>);

impl HangUp {
    fn listen() -> Self {
        let listening = signal(SignalKind::hangup());
        let heard = listening.inspect_err(|error| warn!(%error, "cannot listen for SIGHUP"));
        Self(heard.ok())
    }

    async fn heard(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => pending().await,
        }
    }
}
