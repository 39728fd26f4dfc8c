//! A question that waits for a look-up.

use super::view::FetchedPart;
use crate::pipeline::LateRequest;

/// A question with the parts of zones that it has so far.
pub(crate) struct WaitingQuestion {
    pub(crate) request: Box<LateRequest>,
    /// Parts of zones fetched so far.
    pub(crate) parts: Vec<FetchedPart>,
}
