//! The tasks that keep the keys fresh: one looks at the file, one fetches from the URL. Dropping [`Keepers`] ends them.
//!
//! Whatever goes wrong, the keys that were good go on being used.

mod file;
mod url;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::{AuthMetrics, Authenticator};
use crate::outbound::Outbound;
use crate::settings::{Auth, Settings};
use file::KeyFile;
pub(super) use file::read_keys;
use url::KeyUrl;

/// The tasks.
pub(crate) struct Keepers {
    _tasks: JoinSet<()>,
}

impl Keepers {
    /// Fetches the keys of the URL once, and starts the tasks. A URL that does not answer is no reason not to start.
    pub(crate) async fn start(
        settings: &Settings,
        authenticator: &Authenticator,
        metrics: &AuthMetrics,
    ) -> Result<Self> {
        let mut tasks = JoinSet::new();
        let (Auth::Jwt { keys: sources, .. }, Some(keys)) = (&settings.auth, authenticator.keys())
        else {
            return Ok(Self { _tasks: tasks });
        };
        if let Some(path) = &sources.public_key_file {
            let file = KeyFile::new(path.clone(), keys.clone(), metrics.clone());
            tasks.spawn(file.keep());
        }
        if let (Some(url), Some(freshness)) = (&sources.jwks_url, &keys.freshness) {
            let outbound = Outbound::new(settings.outbound_ca_file.as_deref())
                .context("cannot fetch the keys at jwks_url")?;
            let mut url = KeyUrl {
                url: url.clone(),
                outbound,
                keys: keys.clone(),
                freshness: freshness.clone(),
                metrics: metrics.clone(),
                failures: 0,
            };
            url.refresh().await;
            tasks.spawn(url.keep(settings.jwks_refresh));
        }
        metrics.count_keys(keys);
        Ok(Self { _tasks: tasks })
    }
}
