//! Database leases: the tasks that this server can take on, and what it does when it gets one.

use std::sync::Arc;

use nameward_keys::database::random_server_name;
use nameward_maintain::leases::{LeaseTask, LeaseUse};

use super::{core::ServerCore, secondaries::SecondaryZones};

/// Starts the threads that renew the leases of databases.
pub fn start(core: &ServerCore, secondaries: &SecondaryZones) -> std::io::Result<()> {
    let storages = core.rollover.storages();
    // Without a state store there is nothing to recognise after a restart.
    let server = storages.server_name();
    let server = server.unwrap_or_else(|_| random_server_name());
    let (rollover, has_store) = (Arc::clone(&core.rollover), core.maintain.store().is_some());
    let tasks = move || {
        let can_do = |task: &LeaseTask| match task {
            LeaseTask::Keys => has_store && rollover.has_policies(),
            LeaseTask::Catalogs => has_store,
            LeaseTask::Notify | LeaseTask::Secondaries => true,
        };
        LeaseTask::ALL.into_iter().filter(can_do).collect()
    };
    let (notified, key_driver) = (core.notified.clone(), core.key_driver.clone());
    let (catalogs, secondaries) = (core.catalogs.clone(), secondaries.clone());
    let on_gained = move |rank, task| match task {
        LeaseTask::Keys => key_driver.request_all(),
        LeaseTask::Notify => notified.check_all(rank),
        LeaseTask::Secondaries => secondaries.handle.take_over_checks(),
        LeaseTask::Catalogs => catalogs.take_over(),
    };
    let terms = LeaseUse {
        server,
        tasks: Box::new(tasks),
        on_gained: Box::new(on_gained),
    };
    core.maintain.leases.start(&core.maintain.databases, terms)
}
