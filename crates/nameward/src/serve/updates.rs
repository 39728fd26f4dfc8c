//! Owns the way of updates (RFC 2136) into the databases of this server.

use std::{collections::HashMap, io, sync::Arc};

use nameward_maintain::{
    Commits,
    follow::databases::{Databases, FollowedDatabase},
    policy::PolicyTable,
    update::{DatabaseUpdates, Updates},
};
use nameward_serve::{pipeline::ServingState, update::UpdateRequests};
use nameward_store::sql::write::{Committed, WriteError};
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;
use tokio::runtime::Handle;

/// Lets updates in, as the policies of their zones say. Call within the runtime.
pub fn start(
    shared: &Arc<ServingState>,
    commits: &Arc<Commits>,
    policies: &Arc<PolicyTable>,
    databases: &Databases,
) -> io::Result<(Arc<Updates>, UpdateRequests)> {
    let database = |followed: &FollowedDatabase| {
        let updated = UpdatedDatabase {
            followed: followed.clone(),
            runtime: Handle::current(),
        };
        (followed.rank, Arc::new(updated) as Arc<dyn DatabaseUpdates>)
    };
    let updated = databases.all().iter().map(database).collect();
    let updates = Updates::start(commits, updated)?;
    let zones = Arc::clone(&shared.zones);
    let requests = UpdateRequests::new(zones, Arc::clone(policies), Arc::clone(&updates));
    Ok((updates, requests))
}

/// A database whose zones are updated.
struct UpdatedDatabase {
    followed: FollowedDatabase,
    runtime: Handle,
}

impl DatabaseUpdates for UpdatedDatabase {
    fn commit(
        &self,
        changes: &[(NameBuf, &dyn ConditionalChange)],
    ) -> Vec<Result<Committed, WriteError>> {
        let results = self.runtime.block_on(self.commit_group(changes));
        for committed in results.iter().flatten().filter(|one| one.is_changed) {
            // It is in the database, so the client is told of it; answers of this server follow.
            if let Err(error) = self.followed.follow(&self.runtime, committed) {
                tracing::error!(
                    "zone {}: updated in the database, but not in the answers of this server: {error}",
                    committed.apex
                );
            }
        }
        results
    }
}

impl UpdatedDatabase {
    /// Finds the zones and changes them. Those that are not there, or cannot be found, have their results without the others.
    async fn commit_group(
        &self,
        changes: &[(NameBuf, &dyn ConditionalChange)],
    ) -> Vec<Result<Committed, WriteError>> {
        let backend = &self.followed.backend;
        let mut ids: HashMap<Vec<u8>, i64> = HashMap::new();
        let mut failed: HashMap<usize, WriteError> = HashMap::new();
        let mut group: Vec<(i64, &dyn ConditionalChange)> = Vec::new();
        for (place, (zone, change)) in changes.iter().enumerate() {
            let key = zone.as_name().as_wire().to_ascii_lowercase();
            let id = match ids.get(&key) {
                Some(id) => Ok(*id),
                None => match backend.find_zone(zone.as_name()).await {
                    Ok(row) => row.map(|row| row.id).ok_or(WriteError::NoSuchZone),
                    Err(error) => Err(error),
                },
            };
            match id {
                Ok(id) => {
                    ids.insert(key, id);
                    group.push((id, *change));
                }
                Err(error) => {
                    failed.insert(place, error);
                }
            }
        }
        let mut made = match group.is_empty() {
            true => Vec::new(),
            false => backend.commit_group(&group).await,
        }
        .into_iter();
        let mut results = Vec::with_capacity(changes.len());
        for place in 0..changes.len() {
            let result = match failed.remove(&place) {
                Some(error) => Err(error),
                None => made.next().unwrap_or(Err(WriteError::NoSuchZone)),
            };
            if let Ok(committed) = &result {
                backend.await_replica(committed).await;
            }
            results.push(result);
        }
        results
    }
}
