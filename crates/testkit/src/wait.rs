//! Waiting for what is to come, by looking often; never by sleeping long enough.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(10);

/// Looks until `look` answers something, and returns that. Panics with `what` when nothing came within `limit`.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "still not after {limit:?}: {what}");
        sleep(INTERVAL).await;
    }
}
