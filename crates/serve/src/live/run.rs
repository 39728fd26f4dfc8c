//! Who works on look-ups: threads for blocking sources, tasks for others.
//!
//! A source that takes batches is asked for many names at once. A batch is what waits when a thread or a lane (a task
//! that has the source to itself for one batch at a time) is free: one look-up when little goes on, more when more
//! does, and none ever waits for others to come.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nameward_answer::{BackendFailure, Making};
use nameward_stats::Counter;
use tokio::runtime::Handle;

use super::landing::Landing;
use super::{Answerer, Backend, Boarded, Ended, Flight, Job, LookupError, Wanted};
use crate::pipeline::Shared;
use crate::signing::{self, SigningQueue};

/// Look-ups of one batch at the most.
const BATCH: usize = 64;
/// Rounds of a batch after which what has not ended is given up; a source that keeps its word needs fewer.
const MAX_ROUNDS: usize = 64;
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

    /// Waits for look-ups of one source, some of those that wait, so that other idle threads have the rest; nothing
    /// when there will be no more.
    fn pop(&self, into: &mut Vec<Flight>) {
        let mut waiting = self.lock();
        while waiting.flights.is_empty() && !waiting.is_closed {
            waiting.idle += 1;
            waiting = self
                .more
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
        let share = waiting.flights.len().div_ceil(waiting.idle + 1).min(BATCH);
        while into.len() < share
            && let Some(next) = waiting.flights.pop_front_if(|next| {
                into.first()
                    .is_none_or(|first| first.live.backend == next.live.backend)
            })
        {
            into.push(next);
        }
        // One notice may have been for several look-ups.
        if !waiting.flights.is_empty() && waiting.idle > 0 {
            self.more.notify_one();
        }
    }
}

/// Keeps the threads and tasks of live zones at work; they end when it is dropped.
pub struct Running {
    queue: Arc<Queue>,
    signing: Arc<SigningQueue>,
    sweeper: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.more.notify_all();
        self.signing.close();
        self.sweeper.abort();
    }
}

/// Starts the threads and tasks that look up, sign and answer. Call within the runtime, once.
pub fn start(shared: &Arc<Shared>, runtime_threads: usize) -> io::Result<Running> {
    let live = &shared.live;
    let queue = Arc::new(Queue::default());
    let crew = Crew {
        runtime: Handle::current(),
        queue: Arc::clone(&queue),
        answerers: (0..runtime_threads.max(1))
            .map(|_| Mutex::new(Answerer::new(shared, Making::Never)))
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
    signing::start(shared, live.settings.signing_cpu_percent)?;
    let signing = Arc::clone(&shared.signing);
    Ok(Running {
        queue,
        signing,
        sweeper,
    })
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
    if backend.source.batches() == 0 {
        crew.runtime
            .spawn(async move { fly_alone(&shared, &backend, &flight).await });
    } else if backend.lanes.push(flight, backend.source.batches()) {
        crew.runtime.spawn(lane(shared, backend));
    }
}

/// Works on what waits for a source until nothing does.
async fn lane(shared: Arc<Shared>, backend: Arc<Backend>) {
    loop {
        let flights = backend.lanes.take(BATCH);
        if flights.is_empty() {
            return;
        }
        // A bug that a look-up uncovers costs its batch, not the lane.
        let batch = tokio::spawn(fly_together(
            Arc::clone(&shared),
            Arc::clone(&backend),
            flights,
        ));
        if let Err(error) = batch.await
            && error.is_panic()
        {
            tracing::error!("a bug while looking up in {}", backend.name);
        }
    }
}

async fn fly_together(shared: Arc<Shared>, backend: Arc<Backend>, flights: Vec<Flight>) {
    let Some(crew) = shared.live.crew.get() else {
        return;
    };
    let mut trip = Trip::new(&shared, &backend, &flights);
    let wanted: Vec<Wanted> = flights.iter().map(wanted).collect();
    let Some(mut batch) = backend.source.batch(&wanted) else {
        return;
    };
    while trip.goes_on() {
        let round = batch.round().await;
        trip.land(round, &mut crew.answerer());
    }
    for index in std::mem::take(&mut trip.alone) {
        let flight = flights[index].clone();
        let (shared, backend) = (Arc::clone(&shared), Arc::clone(&backend));
        // Those who wait are still aboard; only the one who lands them changes.
        if trip.hand_over(index) {
            tokio::spawn(async move { fly_alone(&shared, &backend, &flight).await });
        }
    }
}

async fn fly_alone(shared: &Arc<Shared>, backend: &Backend, flight: &Flight) {
    let landing = Landing::new(shared, backend, flight);
    let wanted = wanted(flight);
    let result = backend.source.lookup(&wanted).await;
    if let Some(crew) = shared.live.crew.get() {
        let mut answerer = crew.answerer();
        let statements = result.as_ref().map_or(1, |fetched| fetched.statements);
        answerer
            .recorder
            .add(Counter::BackendQueries, statements.into());
        landing.land(result, &mut answerer);
        answerer.flush();
    }
}

/// The look-ups of one batch that have not landed.
struct Trip<'f> {
    landings: Vec<Option<Landing<'f>>>,
    under_way: usize,
    rounds: usize,
    /// Places of those that have to go on alone.
    alone: Vec<usize>,
}

impl<'f> Trip<'f> {
    fn new(shared: &'f Arc<Shared>, backend: &'f Backend, flights: &'f [Flight]) -> Self {
        let landing = |flight| Some(Landing::new(shared, backend, flight));
        Trip {
            landings: flights.iter().map(landing).collect(),
            under_way: flights.len(),
            rounds: 0,
            alone: Vec::new(),
        }
    }

    fn goes_on(&self) -> bool {
        self.under_way > 0 && self.rounds < MAX_ROUNDS
    }

    fn land(&mut self, round: super::Round, answerer: &mut Answerer) {
        self.rounds += 1;
        answerer
            .recorder
            .add(Counter::BackendQueries, round.statements.into());
        for (index, ended) in round.ended {
            self.under_way = self.under_way.saturating_sub(1);
            match ended {
                Ended::Alone => self.alone.push(index),
                Ended::Done(result) => {
                    if let Some(landing) = self.landings.get_mut(index).and_then(Option::take) {
                        landing.land(result, answerer);
                    }
                }
            }
        }
        if !self.goes_on() && self.under_way > 0 {
            self.give_up(answerer);
        }
        answerer.flush();
    }

    /// Ends what a source did not.
    fn give_up(&mut self, answerer: &mut Answerer) {
        let alone = std::mem::take(&mut self.alone);
        for (index, landing) in self.landings.iter_mut().enumerate() {
            if !alone.contains(&index)
                && let Some(landing) = landing.take()
            {
                let error = LookupError {
                    kind: BackendFailure::BadData,
                    reason: "it does not end".into(),
                };
                landing.land(Err(error), answerer);
            }
        }
        self.alone = alone;
    }

    /// Lets somebody else land a look-up.
    fn hand_over(&mut self, index: usize) -> bool {
        let landing = self.landings.get_mut(index).and_then(Option::take);
        landing.map(Landing::hand_over).is_some()
    }
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
    let mut answerer = Answerer::new(shared, Making::Never);
    let Some(runtime) = shared.live.crew.get().map(|crew| crew.runtime.clone()) else {
        return;
    };
    let mut flights = Vec::new();
    loop {
        queue.pop(&mut flights);
        let Some(first) = flights.first() else { return };
        if let Some(backend) = shared.live.backend(first.live.backend) {
            // A bug that a look-up uncovers costs its batch, not the thread.
            let run = AssertUnwindSafe(|| {
                work_on(shared, &backend, &flights, &runtime, &mut answerer);
            });
            if catch_unwind(run).is_err() {
                tracing::error!("a bug while looking up in {}", backend.name);
            }
        }
        answerer.flush();
        flights.clear();
    }
}

fn work_on(
    shared: &Arc<Shared>,
    backend: &Backend,
    flights: &[Flight],
    runtime: &Handle,
    answerer: &mut Answerer,
) {
    let mut trip = Trip::new(shared, backend, flights);
    let wanted: Vec<Wanted> = flights.iter().map(wanted).collect();
    match backend.source.batch(&wanted) {
        Some(mut batch) => {
            while trip.goes_on() {
                let round = runtime.block_on(batch.round());
                trip.land(round, answerer);
            }
        }
        None => trip.alone = (0..flights.len()).collect(),
    }
    for index in std::mem::take(&mut trip.alone) {
        let result = runtime.block_on(backend.source.lookup(&wanted[index]));
        let statements = result.as_ref().map_or(1, |fetched| fetched.statements);
        answerer
            .recorder
            .add(Counter::BackendQueries, statements.into());
        if let Some(landing) = trip.landings[index].take() {
            landing.land(result, answerer);
            answerer.flush();
        }
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
                answerer.give_up(&shared, job);
            }
            answerer.flush();
        }
    }
}
