//! The end of a look-up: what it brought goes to the query cache and to everybody who waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nameward_answer::BackendFailure;
use nameward_stats::{Counter, Latency, Recorder};
use nameward_zone::NameKey;

use super::answerer::Answerer;
use super::query_cache::{Cached, Part};
use super::{Backend, Fetched, Flight, Held, Job, LookupError};
use crate::pipeline::Shared;

/// A look-up that has begun. However it ends, even by a panic, nobody waits for it afterwards.
pub(super) struct Landing<'f> {
    shared: &'f Arc<Shared>,
    backend: &'f Backend,
    flight: &'f Flight,
    begun: Instant,
    has_landed: bool,
}

impl<'f> Landing<'f> {
    pub(super) fn new(shared: &'f Arc<Shared>, backend: &'f Backend, flight: &'f Flight) -> Self {
        Landing {
            shared,
            backend,
            flight,
            begun: Instant::now(),
            has_landed: false,
        }
    }

    /// Leaves the landing, and those who wait, to another one for the same look-up.
    pub(super) fn hand_over(mut self) {
        self.has_landed = true;
    }

    fn take_jobs(&mut self) -> Vec<Job> {
        if std::mem::replace(&mut self.has_landed, true) {
            return Vec::new();
        }
        self.backend.lookups.fetch_sub(1, Ordering::Relaxed);
        self.shared.live.flights.land(self.flight)
    }

    /// What was looked up goes to the cache and to all who wait for it.
    pub(super) fn land(mut self, result: Result<Fetched, LookupError>, answerer: &mut Answerer) {
        let (shared, flight, now) = (self.shared, self.flight, Instant::now());
        let recorder = &mut answerer.recorder;
        let took_ns = (now - self.begun).as_nanos() as u64;
        recorder.add_latency(Latency::Backend, 1, took_ns);
        let key = NameKey::new(flight.name.as_name());
        let part = match result {
            Ok(fetched) => Ok(keep(shared, flight, &key, fetched, (now, recorder))),
            Err(error) => {
                self.backend.log_failure(flight, &error);
                stale(shared, flight, &key, now, error.kind)
            }
        };
        for mut job in self.take_jobs() {
            match &part {
                Ok(part) => {
                    let zone = Arc::clone(&part.zone);
                    job.parts
                        .push(Held::new(&flight.live, &key, part.generation, zone));
                    answerer.answer(shared, job);
                }
                Err(kind) => answerer.fail(shared, job, *kind),
            }
        }
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.take_jobs();
    }
}

fn keep(
    shared: &Shared,
    flight: &Flight,
    key: &NameKey,
    fetched: Fetched,
    (now, recorder): (Instant, &mut Recorder),
) -> Part {
    let queries = &shared.live.queries;
    let part = queries.part(fetched.zone, key, flight.generation, now);
    if !queries.keep(&flight.live, key, part.clone()) {
        recorder.add(Counter::DeferredCacheInserts, 1);
    }
    part
}

/// What is out of date may do while the source is down, but not in place of data that cannot be used.
fn stale(
    shared: &Shared,
    flight: &Flight,
    key: &NameKey,
    now: Instant,
    kind: BackendFailure,
) -> Result<Part, BackendFailure> {
    let cached = match kind {
        BackendFailure::Unreachable => shared.live.queries.find(&flight.live, key, now),
        BackendFailure::BadData | BackendFailure::NotReady => None,
    };
    match cached {
        Some(Cached::Fresh(part) | Cached::Old(part)) => Ok(part),
        _ => Err(kind),
    }
}
