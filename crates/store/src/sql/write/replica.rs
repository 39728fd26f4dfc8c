//! Waits until a replica shows what was written to the primary.

use super::super::{LiveZone, SqlBackend};
use super::Committed;
use std::time::{Duration, Instant};

/// How long a replica may lag before the client that made a change gets a warning.
const PATIENCE: Duration = Duration::from_secs(5);
/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(20);

impl SqlBackend {
    /// Waits until a change is visible where reads go; returns false if it is not after some seconds, in which case it
    /// is followed when it arrives.
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
        // Cached apex data may be older.
        self.forget(Some(zone.id));
        match self.lookup(&zone, zone.apex.as_name()).await {
            // It may have been changed again since: by RFC 1982 that is later.
            Ok(part) => !committed.serial.is_after(part.zone.serial()),
            Err(_) => false,
        }
    }
}
