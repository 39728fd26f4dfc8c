//! Wiring of requests that are not queries for records: transfers and NOTIFY.

use std::{io, sync::Arc};

use nameward_maintain::{TableWriter, policy::PolicyTable};
use nameward_serve::{
    pipeline::ServingState,
    transfers::{OutgoingTransfers, TransferLimits},
    zone_requests::ZoneRequestHandler,
};
use nameward_store::state::StateStore;

use crate::config::settings;

/// Lets a server accept such requests according to its policies; the NOTIFY and UPDATE handlers are set on the
/// result. Call within the runtime.
pub fn start(
    shared: &Arc<ServingState>,
    (policies, table): (&Arc<PolicyTable>, &Arc<TableWriter>),
    store: Option<StateStore>,
    server: &settings::Server,
) -> io::Result<Arc<ZoneRequestHandler>> {
    let limits = TransferLimits {
        most: server.transfers_out_max.get(),
        per_client: server.transfers_out_per_client.get(),
        sent_octets_max: server.transfers_out_kept_mb.get() << 20,
    };
    let transfers = OutgoingTransfers::new(Arc::clone(policies), store, limits, &shared.stats);
    transfers.keep_digests(shared, table)?;
    let handler = Arc::new(ZoneRequestHandler::new(Arc::clone(policies), transfers));
    shared.set_zone_requests(Arc::clone(&handler) as _);
    Ok(handler)
}
