//! Look-ups and what follows them: threads for blocking sources, tasks for others, answers for those who waited.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nameward_answer::BackendFailure;
use nameward_stats::{Counter, Latency, Recorder};
use nameward_zone::NameKey;
use tokio::runtime::Handle;

use super::answerer::Answerer;
use super::query_cache::{Cached, Part};
use super::{Backend, Boarded, Fetched, Flight, Held, Job, LookupError, Wanted};
use crate::pipeline::Shared;

/// Look-ups after which a thread makes its counts visible although there is more to do.
const FLUSH_EVERY: u32 = 32;
/// How often overdue questions are looked for at most.
const SWEEP_AT_LEAST: Duration = Duration::from_millis(20);

/// Who works on look-ups.
pub(crate) struct Crew {
    runtime: Handle,
    queue: Arc<Queue>,
    /// For answers that tasks of the runtime give; one for each of its threads, so that the locks are free.
    answerers: Box<[Mutex<Answerer>]>,
}

impl Crew {
    fn answerer(&self) -> MutexGuard<'_, Answerer> {
        let free = self
            .answerers
            .iter()
            .find_map(|answerer| answerer.try_lock().ok());
        free.unwrap_or_else(|| {
            self.answerers[0]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        })
    }
}

/// Look-ups for blocking sources. Bounded by the questions that may wait: each look-up has one at least.
#[derive(Default)]
struct Queue {
    inner: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    flights: VecDeque<Flight>,
    idle: usize,
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, flight: Flight) {
        let mut waiting = self.lock();
        waiting.flights.push_back(flight);
        // Waking is a system call, so it is done only where somebody sleeps.
        if waiting.idle > 0 {
            drop(waiting);
            self.more.notify_one();
        }
    }

    fn try_pop(&self) -> Option<Flight> {
        self.lock().flights.pop_front()
    }

    /// Waits for a look-up; `None` when there will be no more.
    fn pop(&self) -> Option<Flight> {
        let mut waiting = self.lock();
        loop {
            if let Some(flight) = waiting.flights.pop_front() {
                return Some(flight);
            }
            if waiting.is_closed {
                return None;
            }
            waiting.idle += 1;
            waiting = self
                .more
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }
}

/// Keeps the threads and tasks of live zones at work; they end when it is dropped.
pub struct Running {
    queue: Arc<Queue>,
    sweeper: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.more.notify_all();
        self.sweeper.abort();
    }
}

/// Starts the threads and tasks that look up and answer. Call within the runtime, once.
pub fn start(shared: &Arc<Shared>, runtime_threads: usize) -> io::Result<Running> {
    let live = &shared.live;
    let queue = Arc::new(Queue::default());
    let crew = Crew {
        runtime: Handle::current(),
        queue: Arc::clone(&queue),
        answerers: (0..runtime_threads.max(1))
            .map(|_| Mutex::new(Answerer::new(shared)))
            .collect(),
    };
    let _ = live.crew.set(crew);
    for index in 0..live.settings.threads.max(1) {
        let (shared, queue) = (Arc::clone(shared), Arc::clone(&queue));
        thread::Builder::new()
            .name(format!("lookup-{index}"))
            .spawn(move || work(&shared, &queue))?;
    }
    let sweeper = tokio::spawn(sweep(Arc::downgrade(shared), live.settings.query_timeout));
    Ok(Running { queue, sweeper })
}

/// Lets a question wait for a look-up, and begins that unless it is under way. Gives the question back if too much
/// waits already.
pub(crate) fn board(shared: &Arc<Shared>, flight: Flight, job: Job) -> Result<(), Job> {
    match shared.live.flights.board(&flight, job) {
        Boarded::Joined => Ok(()),
        Boarded::Full(job) => Err(job),
        Boarded::First => {
            begin(shared, flight);
            Ok(())
        }
    }
}

fn begin(shared: &Arc<Shared>, flight: Flight) {
    let live = &shared.live;
    let (Some(crew), Some(backend)) = (live.crew.get(), live.backend(flight.live.backend)) else {
        // Nobody looks up: only a server that is not started yet has such zones.
        live.flights.land(&flight);
        return;
    };
    backend.lookups.fetch_add(1, Ordering::Relaxed);
    if backend.source.is_blocking() {
        crew.queue.push(flight);
        return;
    }
    let shared = Arc::clone(shared);
    crew.runtime.spawn(async move {
        let landing = Landing::new(&shared, &backend, &flight);
        let wanted = wanted(&flight);
        let result = backend.source.lookup(&wanted).await;
        if let Some(crew) = shared.live.crew.get() {
            let mut answerer = crew.answerer();
            landing.land(result, &mut answerer);
            answerer.flush();
        }
    });
}

fn wanted(flight: &Flight) -> Wanted {
    Wanted {
        zone: flight.live.id,
        apex: flight.apex,
        name: flight.name,
    }
}

/// A thread for look-ups that block.
fn work(shared: &Arc<Shared>, queue: &Queue) {
    let mut answerer = Answerer::new(shared);
    let Some(runtime) = shared.live.crew.get().map(|crew| crew.runtime.clone()) else {
        return;
    };
    let mut unseen = 0;
    loop {
        let next = match queue.try_pop() {
            Some(flight) if unseen < FLUSH_EVERY => Some(flight),
            next => {
                answerer.flush();
                unseen = 0;
                next.or_else(|| queue.pop())
            }
        };
        let Some(flight) = next else { return };
        let Some(backend) = shared.live.backend(flight.live.backend) else {
            continue;
        };
        // A bug that one look-up uncovers costs its questions, not the thread.
        let run = AssertUnwindSafe(|| {
            let landing = Landing::new(shared, &backend, &flight);
            let wanted = wanted(&flight);
            let result = runtime.block_on(backend.source.lookup(&wanted));
            landing.land(result, &mut answerer);
        });
        if catch_unwind(run).is_err() {
            tracing::error!("a bug while looking up {}", flight.name);
        }
        unseen += 1;
    }
}

/// A look-up that has begun. However it ends, even by a panic, nobody waits for it afterwards.
struct Landing<'f> {
    shared: &'f Arc<Shared>,
    backend: &'f Backend,
    flight: &'f Flight,
    begun: Instant,
    has_landed: bool,
}

impl<'f> Landing<'f> {
    fn new(shared: &'f Arc<Shared>, backend: &'f Backend, flight: &'f Flight) -> Self {
        Landing {
            shared,
            backend,
            flight,
            begun: Instant::now(),
            has_landed: false,
        }
    }

    fn take_jobs(&mut self) -> Vec<Job> {
        if std::mem::replace(&mut self.has_landed, true) {
            return Vec::new();
        }
        self.backend.lookups.fetch_sub(1, Ordering::Relaxed);
        self.shared.live.flights.land(self.flight)
    }

    /// What was looked up goes to the cache and to all who wait for it.
    fn land(mut self, result: Result<Fetched, LookupError>, answerer: &mut Answerer) {
        let (shared, flight, now) = (self.shared, self.flight, Instant::now());
        let recorder = &mut answerer.recorder;
        let statements = result.as_ref().map_or(1, |fetched| fetched.statements);
        recorder.add(Counter::BackendQueries, statements.into());
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
                Err(kind) => answerer.fail(job, *kind),
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
    if !queries.keep(&flight.live, flight.name.as_name(), part.clone()) {
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

/// Drops questions that have waited for too long.
async fn sweep(shared: Weak<Shared>, patience: Duration) {
    let mut interval = tokio::time::interval((patience / 8).max(SWEEP_AT_LEAST));
    loop {
        interval.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let overdue = shared.live.flights.overdue(Instant::now(), patience);
        if let (false, Some(crew)) = (overdue.is_empty(), shared.live.crew.get()) {
            let mut answerer = crew.answerer();
            for job in overdue {
                answerer.give_up(job);
            }
            answerer.flush();
        }
    }
}
