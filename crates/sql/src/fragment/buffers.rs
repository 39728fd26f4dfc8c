//! Buffers for the names and rows of a lookup, kept for the next one on the same thread: there are five per lookup, and a
//! thread does tens of thousands of lookups per second.

use super::FetchedRow;
use super::requested_names::RequestedNames;
use std::cell::RefCell;

/// Maximum number of buffers kept by one thread: those of one batch.
const KEPT_MAX: usize = 64;
/// Largest buffer that is kept, in octets.
const OCTETS_MAX: usize = 4 << 10;

thread_local! {
    static KEPT: RefCell<Vec<LookupBuffers>> = const { RefCell::new(Vec::new()) };
}

/// The names that a lookup requests, and the rows that it receives.
pub(super) struct LookupBuffers {
    pub(super) requested: RequestedNames,
    pub(super) rows: Vec<FetchedRow>,
    /// The content of the rows.
    pub(super) content: Vec<u8>,
}

impl LookupBuffers {
    /// Returns empty buffers.
    pub(super) fn new() -> Self {
        let kept = KEPT.with_borrow_mut(Vec::pop);
        kept.unwrap_or_else(|| LookupBuffers {
            requested: RequestedNames::with_room(),
            rows: Vec::with_capacity(4),
            content: Vec::with_capacity(128),
        })
    }

    /// Keeps them for another lookup, unless they have become large.
    pub(super) fn keep(mut self) {
        let rows = self.rows.capacity() * size_of::<FetchedRow>();
        let octets = [rows, self.content.capacity(), self.requested.octets_max()];
        if octets.iter().any(|octets| *octets > OCTETS_MAX) {
            return;
        }
        self.requested.clear();
        self.rows.clear();
        self.content.clear();
        // While a thread ends, its list is gone.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(self);
            }
        });
    }
}
