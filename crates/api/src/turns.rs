//! Owns the order of conditional requests for one zone.

use nameward_base::sync::{Mutex, MutexGuard};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::request::ApiRequest;

/// Zones share turns, so that their number is bounded: more than operations that run at the same time.
const TURNS: usize = 64;

/// Turns of conditional requests: those of one zone follow each other, from the comparison of the tag to the end of the change, so that of
/// several with the same tag one succeeds.
pub struct ConditionalTurns([Mutex<()>; TURNS]);

impl Default for ConditionalTurns {
    fn default() -> Self {
        ConditionalTurns(std::array::from_fn(|_| Mutex::default()))
    }
}

impl ConditionalTurns {
    /// Waits for the turn of a request; `None` if it has no condition.
    pub fn wait(&self, request: &ApiRequest, zone: &str) -> Option<MutexGuard<'_, ()>> {
        request.if_match.as_ref()?;
        let mut hasher = DefaultHasher::new();
        zone.trim_end_matches('.')
            .to_ascii_lowercase()
            .hash(&mut hasher);
        let turn = self.0.get(hasher.finish() as usize % TURNS)?;
        Some(turn.lock())
    }
}
