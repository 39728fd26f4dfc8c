//! Waits until a replica shows what was written to the primary.

use super::super::{LiveZone, SqlBackend};
use super::Committed;
use std::time::{Duration, Instant};

/// How long a replica may stay behind until the client that made a change gets a warning.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(20);

impl SqlBackend {
    /// Waits for a change to be where reads go; false if it is not there after some seconds, and changes are
    /// followed when they come.
    pub async fn await_replica(&self, committed: &Committed) -> bool {
        if self.inner.options.replica.is_none() {
            return true;
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.shows(committed).await {
                self.forget(Some(committed.zone));
                return true;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        false
    }

    async fn shows(&self, committed: &Committed) -> bool {
        match self.zone(committed.zone).await {
            Err(_) => return false,
            Ok(None) => return committed.is_gone,
            Ok(Some(_)) if committed.is_gone => return false,
            Ok(Some(_)) if !committed.has_soa => return true,
            Ok(Some(_)) => {}
        }
        let zone = LiveZone {
            id: committed.zone,
            apex: committed.apex,
        };
        // What is kept of the apex may be older.
        self.forget(Some(zone.id));
        match self.lookup(&zone, zone.apex.as_name()).await {
            // Someone else may have changed it since: by RFC 1982 that is later.
            Ok(part) => !committed.serial.is_after(part.zone.serial()),
            Err(_) => false,
        }
    }
}
