//! A query that waits for a look-up.

use super::view::FetchedFragment;
use crate::client_shares::ClientSlot;
use crate::pipeline::LateRequest;

/// A query with the zone fragments fetched for it so far.
pub(crate) struct WaitingQuery {
    pub(crate) request: Box<LateRequest>,
    /// The zone fragments fetched so far.
    pub(crate) parts: Vec<FetchedFragment>,
    /// The slot of its client in the queue that it waits in.
    pub(crate) slot: Option<ClientSlot>,
}
