//! Components that all maintenance works on. Built once at start, in the order of the fields; cheap to clone.

use crate::commit::Commits;
use crate::follow::databases::Databases;
use crate::leases::Leases;
use crate::policy::{PolicyTable, StoredPolicies};
use crate::stored_views::StoredViews;
use crate::table::TableWriter;
use nameward_state::StateStore;
use std::sync::Arc;

/// The shared components of the maintenance half.
#[derive(Clone)]
pub struct Core {
    /// Commits new versions of zones; owns the writer of the zone table and the state store.
    pub commits: Arc<Commits>,
    /// The zone policies in force.
    pub policies: Arc<PolicyTable>,
    /// The policies kept in the state store.
    pub stored_policies: Arc<StoredPolicies>,
    /// The views kept in the state store.
    pub stored_views: Arc<StoredViews>,
    /// The databases with zones.
    pub databases: Databases,
    /// The work that this server does for all servers on a database.
    pub leases: Leases,
}

impl Core {
    /// Returns the writer of the zone table.
    pub fn table(&self) -> &Arc<TableWriter> {
        self.commits.table()
    }

    /// Returns the state store, if there is one.
    pub fn store(&self) -> Option<&StateStore> {
        self.commits.store()
    }
}
