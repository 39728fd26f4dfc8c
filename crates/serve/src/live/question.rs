//! A query that waits for a look-up.

use super::view::FetchedFragment;
use crate::client_shares::ClientPlace;
use crate::pipeline::LateRequest;

/// A query with the zone fragments fetched for it so far.
pub(crate) struct WaitingQuery {
    pub(crate) request: Box<LateRequest>,
    /// The zone fragments fetched so far.
    pub(crate) parts: Vec<FetchedFragment>,
    /// Its client's place in the queue that it waits in.
    pub(crate) place: Option<ClientPlace>,
}
