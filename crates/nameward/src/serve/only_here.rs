//! Items that this server has in its state store only, while other servers may share the database of its zones.

use super::core::ServerCore;
use nameward_base::text::listed;
use nameward_maintain::local_items::local_items;
use nameward_sql::DatabaseAddress;
use std::time::{Duration, Instant};

/// Interval at which the state store is read: the status is made every second.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The items, as they were last read.
#[derive(Default)]
pub struct LocalState {
    read_at: Option<Instant>,
    items: Vec<String>,
}

impl LocalState {
    /// Returns the items, read again if it is time; none if no other server can share a database.
    pub fn items(&mut self, core: &ServerCore) -> Vec<String> {
        let is_recent = |at: Instant| at.elapsed() < READ_EVERY;
        if self.read_at.is_some_and(is_recent) || !has_shared_database(core) {
            return self.items.clone();
        }
        self.read_at = Some(Instant::now());
        if let Some(store) = core.maintain.store() {
            match local_items(store) {
                Ok(items) => self.items = items,
                // An unreadable store is reported as a separate fault.
                Err(error) => tracing::debug!("cannot count what the state store has: {error}"),
            }
        }
        self.items.clone()
    }
}

/// A SQLite file is on this machine.
fn has_shared_database(core: &ServerCore) -> bool {
    let mut databases = core.maintain.databases.all().iter();
    databases.any(|one| !matches!(one.backend.options().address, DatabaseAddress::Sqlite(_)))
}

/// Logs the items once, after the start.
pub fn log(items: &[String]) {
    if !items.is_empty() {
        tracing::info!(
            "state store: {} on this server only; other servers on the database do not have them",
            listed(items)
        );
    }
}
