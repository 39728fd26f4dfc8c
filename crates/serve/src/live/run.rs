//! Runs look-ups: on dedicated threads for a blocking source, as tasks for others.
//!
//! A source that supports batches is queried for many names at once. A batch is what waits when a thread or task of
//! the source is free: one look-up at low load, more at higher load, and none ever waits for a batch to fill.

use nameward_base::sync::{Mutex, MutexGuard};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nameward_answer::{BackendFailure, Making};
use nameward_stats::Counter;
use nameward_zone::{BatchRound, LookupEnd, LookupError};
use tokio::runtime::Handle;

use super::completion::Completion;
use super::lookups::{Overdue, SweepSettings};
use super::{Admission, Answerer, Backend, LiveZones, Lookup, WaitingQuery};
use crate::pipeline::ServingState;
use crate::signing::{self, SigningQueue};

/// Maximum number of look-ups per batch.
const BATCH: usize = 64;
/// Rounds of a batch after which unfinished look-ups are given up; a correct source needs fewer.
const MAX_ROUNDS: usize = 64;
/// Minimum interval between two sweeps for overdue queries.
const SWEEP_AT_LEAST: Duration = Duration::from_millis(20);

/// The runtime on which look-ups run, and its answerers.
pub(crate) struct LookupRunner {
    runtime: Handle,
    /// For answers from tasks of the runtime; one per thread, so that the locks are uncontended.
    answerers: Box<[Mutex<Answerer>]>,
}

impl LookupRunner {
    fn answerer(&self) -> MutexGuard<'_, Answerer> {
        let free = self
            .answerers
            .iter()
            .find_map(|answerer| answerer.try_lock());
        free.unwrap_or_else(|| self.answerers[0].lock())
    }
}

/// Keeps the threads and tasks of live zones running; they end when it is dropped.
pub struct Running {
    shared: Weak<ServingState>,
    signing: Arc<SigningQueue>,
    sweeper: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signing.close();
        self.sweeper.abort();
        if let Some(shared) = self.shared.upgrade() {
            shared.live.close_threads();
        }
    }
}

/// Starts the threads and tasks that look up, sign and answer; source threads are started on demand. Call within the
/// runtime, once.
pub fn start(shared: &Arc<ServingState>, runtime_threads: usize) -> io::Result<Running> {
    let live = &shared.live;
    let runner = LookupRunner {
        runtime: Handle::current(),
        answerers: (0..runtime_threads.max(1))
            .map(|_| Mutex::new(Answerer::new(shared, Making::Never)))
            .collect(),
    };
    let _ = live.runner.set(runner);
    signing::start(shared, live.settings.signing_cpu_percent)?;
    let signing = Arc::clone(&shared.signing);
    let shared = Arc::downgrade(shared);
    let sweeper = tokio::spawn(sweep(shared.clone()));
    Ok(Running {
        shared,
        signing,
        sweeper,
    })
}

/// Answers queries that have waited, or lets them wait for more.
pub(crate) fn answer_all(shared: &Arc<ServingState>, queries: Vec<WaitingQuery>) {
    let Some(runner) = shared.live.runner.get().filter(|_| !queries.is_empty()) else {
        return;
    };
    let mut answerer = runner.answerer();
    for query in queries {
        answerer.answer(shared, (query, None), Instant::now());
    }
    answerer.flush();
}

/// Lets a query wait for a look-up, and starts the look-up unless it is in progress. Returns the query if too many
/// wait.
pub(crate) fn join_lookup(
    shared: &Arc<ServingState>,
    lookup: Arc<Lookup>,
    mut query: WaitingQuery,
) -> Result<(), WaitingQuery> {
    let live = &shared.live;
    let Some(backend) = live.backend(lookup.live.backend()) else {
        return Err(query);
    };
    // A query that waits once more has left its slot in the other queue.
    query.slot = None;
    query.slot = backend.client_shares.take(query.request.client());
    if query.slot.is_none() {
        return Err(query);
    }
    match live.lookups.join(&lookup, &backend.waiting, query) {
        Admission::Joined => Ok(()),
        Admission::Full(query) => Err(query),
        Admission::First => {
            begin(shared, backend, lookup);
            Ok(())
        }
    }
}

fn begin(shared: &Arc<ServingState>, backend: Arc<Backend>, lookup: Arc<Lookup>) {
    let live = &shared.live;
    let Some(runner) = live.runner.get() else {
        // Only happens before the server has started.
        live.lookups.end(&lookup, &backend.waiting);
        return;
    };
    backend.lookups.fetch_add(1, Ordering::Relaxed);
    if backend.source.is_blocking() {
        if backend.threads.push(lookup, live.settings.threads.max(1)) {
            start_thread(shared, backend);
        }
        return;
    }
    let shared = Arc::clone(shared);
    if backend.source.batches() == 0 {
        runner
            .runtime
            .spawn(async move { run_alone(&shared, &backend, &lookup).await });
    } else if backend.batches.push(lookup, backend.source.batches()) {
        runner.runtime.spawn(run_batches(shared, backend));
    }
}

/// Processes look-ups that wait for a source until none is left.
async fn run_batches(shared: Arc<ServingState>, backend: Arc<Backend>) {
    loop {
        let mut lookups = backend.batches.take(BATCH);
        if lookups.is_empty() {
            return;
        }
        drop_unwanted(&shared.live, &backend, &mut lookups);
        // A bug triggered by a look-up costs its batch, not the task.
        let batch = tokio::spawn(run_batch(
            Arc::clone(&shared),
            Arc::clone(&backend),
            lookups,
        ));
        if let Err(error) = batch.await
            && error.is_panic()
        {
            tracing::error!("backend {}: internal error during a look-up", backend.name);
        }
    }
}

/// Drops look-ups that waited so long that no query waits for them any longer.
fn drop_unwanted(live: &LiveZones, backend: &Backend, lookups: &mut Vec<Arc<Lookup>>) {
    let now = Instant::now();
    lookups.retain(|lookup| {
        // Only a sweep takes queries out, and none this young.
        let is_young = now.saturating_duration_since(lookup.requested_at) < live.first_sweep();
        let is_wanted = is_young || !live.lookups.end_if_unwanted(lookup);
        if !is_wanted {
            backend.lookups.fetch_sub(1, Ordering::Relaxed);
        }
        is_wanted
    });
}

async fn run_batch(shared: Arc<ServingState>, backend: Arc<Backend>, lookups: Vec<Arc<Lookup>>) {
    let Some(runner) = shared.live.runner.get() else {
        return;
    };
    let mut open = OpenBatch::new(&shared, &backend, &lookups);
    let requests: Vec<_> = lookups.iter().map(|lookup| lookup.request()).collect();
    let Some(mut batch) = backend.source.batch(&requests) else {
        return;
    };
    while open.has_work() {
        let round = batch.round().await;
        open.complete(round, &mut runner.answerer());
    }
    for index in std::mem::take(&mut open.alone) {
        let lookup = Arc::clone(&lookups[index]);
        let (shared, backend) = (Arc::clone(&shared), Arc::clone(&backend));
        // The queries keep waiting; only the completion of the look-up moves.
        if open.hand_over(index) {
            tokio::spawn(async move { run_alone(&shared, &backend, &lookup).await });
        }
    }
}

async fn run_alone(shared: &Arc<ServingState>, backend: &Backend, lookup: &Lookup) {
    let completion = Completion::new(shared, backend, lookup, Instant::now());
    let result = backend.source.lookup(lookup.request()).await;
    if let Some(runner) = shared.live.runner.get() {
        let mut answerer = runner.answerer();
        let statements = result.as_ref().map_or(1, |part| part.statements);
        answerer
            .recorder
            .add(Counter::BackendQueries, statements.into());
        completion.complete((result, Instant::now()), &mut answerer);
        answerer.flush();
    }
}

/// The unfinished look-ups of one batch.
struct OpenBatch<'l> {
    completions: Vec<Option<Completion<'l>>>,
    under_way: usize,
    rounds: usize,
    /// Indexes of those that must continue on their own.
    alone: Vec<usize>,
}

impl<'l> OpenBatch<'l> {
    fn new(
        shared: &'l Arc<ServingState>,
        backend: &'l Backend,
        lookups: &'l [Arc<Lookup>],
    ) -> Self {
        let started = Instant::now();
        let completion =
            |lookup: &'l Arc<Lookup>| Some(Completion::new(shared, backend, lookup, started));
        OpenBatch {
            completions: lookups.iter().map(completion).collect(),
            under_way: lookups.len(),
            rounds: 0,
            alone: Vec::new(),
        }
    }

    fn has_work(&self) -> bool {
        self.under_way > 0 && self.rounds < MAX_ROUNDS
    }

    fn complete(&mut self, round: BatchRound, answerer: &mut Answerer) {
        self.rounds += 1;
        let now = Instant::now();
        answerer
            .recorder
            .add(Counter::BackendQueries, round.statements.into());
        for (index, end) in round.ended {
            let Some(slot) = self.completions.get_mut(index) else {
                continue;
            };
            match end {
                LookupEnd::Alone if slot.is_some() => {
                    self.under_way = self.under_way.saturating_sub(1);
                    self.alone.push(index);
                }
                LookupEnd::Alone => {}
                LookupEnd::Done(result) => {
                    if let Some(completion) = slot.take() {
                        self.under_way = self.under_way.saturating_sub(1);
                        completion.complete((result, now), answerer);
                    }
                }
            }
        }
        if self.has_work() {
            self.drop_unwanted();
        } else if self.under_way > 0 {
            self.give_up(answerer);
        }
        answerer.flush();
    }

    /// Ends look-ups for which no query waits any longer; a batch with none left is abandoned.
    fn drop_unwanted(&mut self) {
        for (index, slot) in self.completions.iter_mut().enumerate() {
            if !self.alone.contains(&index)
                && let Some(completion) = slot
                && completion.end_if_unwanted()
            {
                *slot = None;
                self.under_way = self.under_way.saturating_sub(1);
            }
        }
    }

    /// Fails the look-ups that a source did not finish.
    fn give_up(&mut self, answerer: &mut Answerer) {
        let alone = std::mem::take(&mut self.alone);
        for (index, completion) in self.completions.iter_mut().enumerate() {
            if !alone.contains(&index)
                && let Some(completion) = completion.take()
            {
                let error = LookupError {
                    kind: BackendFailure::BadData,
                    reason: "the look-up does not complete".into(),
                };
                completion.complete((Err(error), Instant::now()), answerer);
            }
        }
        self.alone = alone;
    }

    /// Leaves a look-up to another completion.
    fn hand_over(&mut self, index: usize) -> bool {
        let completion = self.completions.get_mut(index).and_then(Option::take);
        completion.map(Completion::hand_over).is_some()
    }
}

fn start_thread(shared: &Arc<ServingState>, backend: Arc<Backend>) {
    let (shared, threads) = (Arc::clone(shared), Arc::clone(&backend));
    let started = thread::Builder::new()
        .name("lookup".into())
        .spawn(move || run_thread(&shared, &backend));
    if let Err(error) = started {
        threads.threads.note_not_started();
        let name = &threads.name;
        tracing::error!("backend {name}: cannot start a thread for look-ups: {error}");
    }
}

/// Processes blocking look-ups as long as there are any.
fn run_thread(shared: &Arc<ServingState>, backend: &Arc<Backend>) {
    let Some(runtime) = shared.live.runner.get().map(|runner| &runner.runtime) else {
        return;
    };
    let mut answerer = Answerer::new(shared, Making::Never);
    let mut lookups = Vec::new();
    while backend.threads.pop(&mut lookups, BATCH) {
        drop_unwanted(&shared.live, backend, &mut lookups);
        // A bug triggered by a look-up costs its batch, not the thread.
        let run = AssertUnwindSafe(|| {
            run_blocking(shared, backend, &lookups, runtime, &mut answerer);
        });
        if catch_unwind(run).is_err() {
            tracing::error!("backend {}: internal error during a look-up", backend.name);
        }
        answerer.flush();
        lookups.clear();
    }
}

fn run_blocking(
    shared: &Arc<ServingState>,
    backend: &Backend,
    lookups: &[Arc<Lookup>],
    runtime: &Handle,
    answerer: &mut Answerer,
) {
    let mut open = OpenBatch::new(shared, backend, lookups);
    let requests: Vec<_> = lookups.iter().map(|lookup| lookup.request()).collect();
    match backend.source.batch(&requests) {
        Some(mut batch) => {
            while open.has_work() {
                let round = runtime.block_on(batch.round());
                open.complete(round, answerer);
            }
        }
        None => open.alone = (0..lookups.len()).collect(),
    }
    for index in std::mem::take(&mut open.alone) {
        let Some(mut completion) = open.completions[index].take() else {
            continue;
        };
        if completion.end_if_unwanted() {
            continue;
        }
        let result = runtime.block_on(backend.source.lookup(requests[index]));
        let statements = result.as_ref().map_or(1, |part| part.statements);
        answerer
            .recorder
            .add(Counter::BackendQueries, statements.into());
        completion.complete((result, Instant::now()), answerer);
        answerer.flush();
    }
}

/// Answers queries that have waited too long: with stale data if there is any, otherwise not at all.
async fn sweep(shared: Weak<ServingState>) {
    let Some(first) = shared.upgrade().map(|shared| shared.live.first_sweep()) else {
        return;
    };
    let mut interval = tokio::time::interval((first / 4).max(SWEEP_AT_LEAST));
    loop {
        interval.tick().await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        if shared.live.waiting() > 0 {
            sweep_once(&shared);
        }
    }
}

fn sweep_once(shared: &Arc<ServingState>) {
    let (live, now) = (&shared.live, Instant::now());
    let swept = live.lookups.sweep(&SweepSettings {
        now,
        stale_after: live.settings.stale_after,
        query_timeout: live.settings.query_timeout,
        find_stale: &|zone, name| live.queries.find(zone, name, now),
    });
    for index in &swept.late {
        if let Some(backend) = live.backend(*index) {
            backend.is_late.store(true, Ordering::Relaxed);
        }
    }
    let Some(runner) = live.runner.get().filter(|_| !swept.overdue.is_empty()) else {
        return;
    };
    let mut answerer = runner.answerer();
    for (index, overdue) in swept.overdue {
        if let Some(backend) = live.backend(index) {
            backend.waiting.subtract(1);
        }
        match overdue {
            Overdue::Stale(query) => answerer.answer(shared, (query, None), now),
            Overdue::TooLate(query) => answerer.give_up(shared, query),
        }
    }
    answerer.flush();
}
