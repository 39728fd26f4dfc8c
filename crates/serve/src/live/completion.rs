//! Completion of a look-up: its fragment goes to the query cache and to every query that waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nameward_answer::BackendFailure;
use nameward_stats::{Counter, Latency, Recorder};
use nameward_zone::{LookupError, NameKey, ZoneFragment};

use super::answerer::Answerer;
use super::lookups::Queries;
use super::query_cache::{Cached, CachedZoneFragment};
use super::{Backend, FetchedFragment, Lookup};
use crate::pipeline::ServingState;

/// The completion of a look-up that has started. However it ends, even by a panic, no query waits for it afterwards.
pub(super) struct Completion<'l> {
    shared: &'l Arc<ServingState>,
    backend: &'l Backend,
    lookup: &'l Lookup,
    started: Instant,
    is_over: bool,
}

impl<'l> Completion<'l> {
    pub(super) fn new(
        shared: &'l Arc<ServingState>,
        backend: &'l Backend,
        lookup: &'l Lookup,
        started: Instant,
    ) -> Self {
        Completion {
            shared,
            backend,
            lookup,
            started,
            is_over: false,
        }
    }

    /// Leaves the look-up and its waiting queries to another completion.
    pub(super) fn hand_over(mut self) {
        self.is_over = true;
    }

    /// Ends the look-up if no query waits for it any longer; true if so.
    pub(super) fn end_if_unwanted(&mut self) -> bool {
        let is_unwanted = self.shared.live.lookups.end_if_unwanted(self.lookup);
        if is_unwanted {
            self.is_over = true;
            self.backend.lookups.fetch_sub(1, Ordering::Relaxed);
        }
        is_unwanted
    }

    fn take_queries(&mut self) -> Queries {
        if std::mem::replace(&mut self.is_over, true) {
            return Queries::new();
        }
        self.backend.lookups.fetch_sub(1, Ordering::Relaxed);
        let lookups = &self.shared.live.lookups;
        lookups.end(self.lookup, &self.backend.waiting)
    }

    /// Caches the result of the look-up, which came at `now`, and answers all queries that wait for it.
    pub(super) fn complete(
        mut self,
        (result, now): (Result<ZoneFragment, LookupError>, Instant),
        answerer: &mut Answerer,
    ) {
        let (shared, lookup) = (self.shared, self.lookup);
        let (key, recorder) = (&mut answerer.key, &mut answerer.recorder);
        let took_ns = (now - self.started).as_nanos() as u64;
        recorder.add_latency(Latency::Backend, 1, took_ns);
        key.set(lookup.name.as_name());
        let part = match result {
            Ok(part) => {
                self.backend.note_in_time();
                Ok(cache_fragment(shared, lookup, key, part, (now, recorder)))
            }
            Err(error) => {
                self.backend.log_failure(lookup, &error);
                substitute(shared, lookup, key, now, error.kind)
            }
        };
        let part =
            part.map(|part| FetchedFragment::new(&lookup.live, key, part.generation, part.zone));
        for waiting in self.take_queries() {
            match &part {
                Ok(part) => answerer.answer(shared, (waiting, Some(part.clone())), now),
                Err(kind) => answerer.fail(shared, waiting, *kind),
            }
        }
    }
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        self.take_queries();
    }
}

fn cache_fragment(
    shared: &ServingState,
    lookup: &Lookup,
    key: &NameKey,
    part: ZoneFragment,
    (now, recorder): (Instant, &mut Recorder),
) -> CachedZoneFragment {
    let queries = &shared.live.queries;
    let part = queries.part(part, key, lookup.generation, now);
    if !queries.insert_fragment(&lookup.live, key, part.clone()) {
        recorder.add(Counter::DeferredCacheInserts, 1);
    }
    part
}

/// Returns a stale fragment while the source is down, but never in place of data that cannot be used: that failure is
/// cached, so that the next query for the name does not read the same data again.
fn substitute(
    shared: &ServingState,
    lookup: &Lookup,
    key: &NameKey,
    now: Instant,
    kind: BackendFailure,
) -> Result<CachedZoneFragment, BackendFailure> {
    let queries = &shared.live.queries;
    match kind {
        BackendFailure::Unreachable => match queries.find(&lookup.live, key, now) {
            Some(Cached::Fresh(part) | Cached::Old(part)) => Ok(part),
            _ => Err(kind),
        },
        BackendFailure::BadData => {
            queries.cache_failure(&lookup.live, key, lookup.generation, now);
            Err(kind)
        }
        BackendFailure::NotReady => Err(kind),
    }
}
