//! Look-ups that wait for a source that takes batches, and how many lanes work on them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Flight;

/// Bounded by the questions that may wait: each look-up has one at least.
#[derive(Default)]
pub(crate) struct Lanes {
    inner: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    flights: VecDeque<Flight>,
    running: usize,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a look-up; true if one more lane has to be started for it.
    pub(crate) fn push(&self, flight: Flight, most: usize) -> bool {
        let mut waiting = self.lock();
        waiting.flights.push_back(flight);
        let starts = waiting.running < most;
        waiting.running += usize::from(starts);
        starts
    }

    /// What a lane works on next; it has ended if that is nothing.
    pub(crate) fn take(&self, most: usize) -> Vec<Flight> {
        let mut waiting = self.lock();
        let count = waiting.flights.len().min(most);
        if count == 0 {
            waiting.running -= 1;
        }
        waiting.flights.drain(..count).collect()
    }
}
