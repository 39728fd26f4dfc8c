//! Keeps the GeoIP databases up to date.

use std::{sync::Arc, time::Duration};

use nameward_steering::Steering;
use tokio::sync::watch;

use super::ticked;

/// Interval at which the files are checked for changes.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Reads databases again whose files have changed, until `stopping` is true.
pub async fn follow(steering: Arc<Steering>, mut stopping: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    while ticked(&mut ticks, &mut stopping).await {
        let steering = Arc::clone(&steering);
        // Reading a file may take long.
        let _ = tokio::task::spawn_blocking(move || steering.geo().refresh()).await;
    }
}
