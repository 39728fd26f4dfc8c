//! Wiring of requests that are not queries for records: transfers, NOTIFY and UPDATE.

use std::{io, sync::Arc};

use nameward_peers::transfer_out::{OutgoingTransfers, TransferLimits};
use nameward_peers::update::{Updates, requests::UpdateRequests};
use nameward_peers::zone_requests::ZoneRequestHandler;

use super::{core::ServerCore, secondaries::SecondaryZones};
use crate::config::settings;

/// Starts accepting updates (RFC 2136) according to zone policies. Call within the runtime.
pub fn start_updates(core: &ServerCore) -> io::Result<(Arc<Updates>, UpdateRequests)> {
    let maintain = &core.maintain;
    let updates = Updates::start(&maintain.commits, &maintain.databases)?;
    let requests = UpdateRequests::new(
        Arc::clone(&maintain.policies),
        Arc::clone(&updates),
        Arc::clone(&core.peer_connections),
    );
    Ok((updates, requests))
}

/// Lets the workers accept such requests according to the zone policies. Call within the runtime.
pub fn start(
    core: &ServerCore,
    server: &settings::Server,
    secondaries: &SecondaryZones,
    updates: UpdateRequests,
) -> io::Result<Arc<ZoneRequestHandler>> {
    let limits = TransferLimits {
        total: server.transfers_out_max.get(),
        per_client: server.transfers_out_per_client.get(),
        sent_octets_max: server.transfers_out_kept_mb.get() << 20,
    };
    let (shared, maintain) = (&core.shared, &core.maintain);
    let (policies, store) = (&maintain.policies, maintain.store().cloned());
    let secondary = Some(secondaries.handle.clone());
    let transfers = OutgoingTransfers::new(
        Arc::clone(policies),
        store,
        limits,
        secondary,
        &shared.stats,
    );
    transfers.start_digest_updates(shared, maintain.table())?;
    let handler = ZoneRequestHandler::new(Arc::clone(policies), transfers)
        .with_notify_sink(secondaries.notify_sink())
        .with_updates(updates);
    let handler = Arc::new(handler);
    shared.set_zone_requests(Arc::clone(&handler) as _);
    Ok(handler)
}
