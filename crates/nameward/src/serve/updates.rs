//! Wiring of updates (RFC 2136).

use std::{io, sync::Arc};

use nameward_peers::update::Updates;
use nameward_peers::update::requests::UpdateRequests;

use super::core::ServerCore;

/// Starts accepting updates according to zone policies. Call within the runtime.
pub fn start(core: &ServerCore) -> io::Result<(Arc<Updates>, UpdateRequests)> {
    let maintain = &core.maintain;
    let updates = Updates::start(&maintain.commits, &maintain.databases)?;
    let requests = UpdateRequests::new(
        Arc::clone(&maintain.policies),
        Arc::clone(&updates),
        Arc::clone(&core.peer_connections),
    );
    Ok((updates, requests))
}
