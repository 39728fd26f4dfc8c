//! The changes that this server made in a database, on their way to its follower.

use nameward_base::sync::Mutex;
use nameward_sql::{SqlError, write::CommitMark};
use nameward_zone::change::{ChangeAuthor, Difference};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Reports to the caller that waits for a change.
pub(super) type Done = oneshot::Sender<Result<(), SqlError>>;

/// A change that this server made, and the caller that waits until its answers show it.
pub(super) struct OwnChange {
    pub(super) zone: i64,
    /// The removed and added records, if known.
    pub(super) difference: Option<Difference>,
    pub(super) mark: Option<CommitMark>,
    /// The zone was deleted.
    pub(super) is_gone: bool,
    /// The author, and the reason.
    pub(super) author: Option<Arc<ChangeAuthor>>,
    pub(super) done: Done,
}

/// The versions, in the change table, of live zones that this server made and has reported. Their change notices are not
/// reported again.
#[derive(Default)]
pub(super) struct ReportedVersions(Mutex<HashMap<i64, i64>>);

impl ReportedVersions {
    pub(super) fn note(&self, zone: i64, version: i64) {
        let mut versions = self.0.lock();
        let known = versions.entry(zone).or_insert(version);
        *known = version.max(*known);
    }

    /// Checks whether the version of a notice was reported. The notice of the newest one is the last.
    pub(super) fn claim(&self, zone: i64, version: Option<i64>) -> bool {
        let mut versions = self.0.lock();
        let (Some(version), Some(reported)) = (version, versions.get(&zone).copied()) else {
            return false;
        };
        if version >= reported {
            versions.remove(&zone);
        }
        version <= reported
    }
}
