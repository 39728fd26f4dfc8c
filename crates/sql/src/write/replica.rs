//! Reads of the primary that compare it with a replica, and waiting until the replica shows what was written.

use super::super::connection::{Each, Value};
use super::super::{LiveZone, SqlBackend};
use super::{Committed, WriteError};
use crate::SqlFuture;
use std::time::{Duration, Instant};

/// How long a replica may lag before the client that made a change gets a warning.
const LAG_MAX: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

impl SqlBackend {
    /// Runs a statement on the primary that changes nothing.
    pub(crate) async fn read_primary(
        &self,
        sql: &str,
        values: &[Value<'_>],
        each: Each<'_>,
    ) -> Result<(), WriteError> {
        let mut session = self.reader().await?;
        let read = session.rows(sql, values, each).await;
        self.end_use(session, &read).await;
        Ok(read?)
    }

    /// Waits until a change is visible where reads go; returns false if it is not after some seconds, in which case it
    /// is followed when it arrives.
    pub fn await_replica<'a>(&'a self, committed: &'a Committed) -> SqlFuture<'a, bool> {
        Box::pin(async move {
            if !self.has_replica() {
                return true;
            }
            let start = Instant::now();
            while start.elapsed() < LAG_MAX {
                if self.shows(committed).await {
                    self.forget(Some(committed.zone));
                    return true;
                }
                tokio::time::sleep(INTERVAL).await;
            }
            false
        })
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
            Ok(fragment) => !committed.serial.is_after(fragment.zone.serial()),
            Err(_) => false,
        }
    }
}
