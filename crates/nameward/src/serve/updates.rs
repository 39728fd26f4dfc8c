//! Wiring of updates (RFC 2136) to the databases of this server.

use std::{io, sync::Arc};

use nameward_maintain::Commits;
use nameward_maintain::follow::databases::FollowedDatabase;
use nameward_peers::update::requests::UpdateRequests;
use nameward_peers::update::{DatabaseUpdates, Updates};
use nameward_sql::write::{Committed, WriteError};
use nameward_wire::NameBuf;
use nameward_zone::change::ConditionalChange;
use tokio::runtime::Handle;

use super::core::ServerCore;

/// Starts accepting updates according to zone policies. Call within the runtime.
pub fn start(core: &ServerCore) -> io::Result<(Arc<Updates>, UpdateRequests)> {
    let maintain = &core.maintain;
    let database = |followed: &FollowedDatabase| {
        let updated = UpdatedDatabase {
            followed: followed.clone(),
            commits: Arc::clone(&maintain.commits),
            runtime: Handle::current(),
        };
        (followed.rank, Arc::new(updated) as Arc<dyn DatabaseUpdates>)
    };
    let updated = maintain.databases.all().iter().map(database).collect();
    let updates = Updates::start(&maintain.commits, updated)?;
    let (zones, policies) = (&core.shared.zones, &maintain.policies);
    let requests = UpdateRequests::new(
        Arc::clone(zones),
        Arc::clone(policies),
        Arc::clone(&updates),
        Arc::clone(&core.peer_connections),
    );
    Ok((updates, requests))
}

/// A database whose zones are updated.
struct UpdatedDatabase {
    followed: FollowedDatabase,
    commits: Arc<Commits>,
    runtime: Handle,
}

impl DatabaseUpdates for UpdatedDatabase {
    fn commit(
        &self,
        changes: &[(NameBuf, &dyn ConditionalChange)],
    ) -> Vec<Result<Committed, WriteError>> {
        let backend = &self.followed.backend;
        let results = self.runtime.block_on(async {
            let results = backend.commit_group(changes).await;
            for committed in results.iter().flatten() {
                backend.await_replica(committed).await;
            }
            results
        });
        let changed = results.iter().flatten().filter(|one| one.is_changed);
        let changed: Vec<&Committed> = changed.collect();
        let followed = self
            .followed
            .follow_all(&self.commits, &self.runtime, &changed);
        for (committed, followed) in changed.iter().zip(followed) {
            // It is in the database, so the client gets NOERROR; this server's answers follow.
            if let Err(error) = followed {
                tracing::error!(
                    "zone {}: updated in the database, but this server does not serve the change yet: {error}",
                    committed.apex
                );
            }
        }
        results
    }
}
