//! Threads that work until they are stopped: the panic guard, and the two kinds of mailbox they take work from.
//!
//! | mailbox | holds | when full |
//! |---|---|---|
//! | [`Mailbox`] | one value that senders merge their requests into | cannot be: the value itself is bounded by what it counts |
//! | [`Queue`] | items in order, at most a fixed number | the sender waits ([`Queue::push`]) or gets the item back ([`Queue::try_push`]) |
//!
//! Every step of a worker runs under [`panic_guard`]: a bug costs the piece of work that met it, never the thread. A thread
//! that has ended leaves zones as they are forever, and nothing shows it.

use crate::sync::{Condvar, Mutex};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The pause after a panic: a bug that is met again at once must fill neither the log nor the processor.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval at which [`wait_for_end`] checks whether threads have ended.
const END_INTERVAL: Duration = Duration::from_millis(5);

/// Runs a step of a worker that continues after a panic; returns whether it was completed. `work` completes the sentence "internal error while ...".
pub fn panic_guard(work: &str, step: impl FnOnce()) -> bool {
    let is_done = panic_guard_item(work, step);
    if !is_done {
        thread::sleep(PAUSE);
    }
    is_done
}

/// As [`panic_guard`] without the pause: for items of a queue. They are not repeated, and those behind must not wait.
pub fn panic_guard_item(work: &str, step: impl FnOnce()) -> bool {
    // The panic hook (`panics`) has logged the panic itself, with its location.
    let is_done = catch_unwind(AssertUnwindSafe(step)).is_ok();
    if !is_done {
        tracing::error!("internal error while {work}; continuing");
    }
    is_done
}

/// The threads started here that have not ended, by name.
static THREADS: Mutex<Vec<(String, Weak<()>)>> = Mutex::new(Vec::new());

/// Starts a thread with a name.
pub fn start(
    name: impl Into<String>,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (name, running) = (name.into(), Arc::new(()));
    let mut threads = THREADS.lock();
    threads.retain(|(_, running)| running.strong_count() > 0);
    threads.push((name.clone(), Arc::downgrade(&running)));
    drop(threads);
    thread::Builder::new().name(name).spawn(move || {
        let _running = running;
        run();
    })
}

/// Waits until no thread is left whose name starts with one of these; returns the names of those that are still running
/// when the time is over.
pub fn wait_for_end(names: &[&str], timeout: Duration) -> Vec<String> {
    let deadline = Instant::now() + timeout;
    loop {
        let mut left = THREADS.lock().clone();
        left.retain(|(name, running)| {
            running.strong_count() > 0 && names.iter().any(|start| name.starts_with(start))
        });
        if left.is_empty() || Instant::now() >= deadline {
            return left.into_iter().map(|(name, _)| name).collect();
        }
        thread::sleep(END_INTERVAL);
    }
}

/// A value that senders merge requests into and one worker takes as a whole; clones are the same mailbox.
#[derive(Debug, Default)]
pub struct Mailbox<T>(Arc<MailboxShared<T>>);

#[derive(Debug, Default)]
struct MailboxShared<T> {
    state: Mutex<MailboxState<T>>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct MailboxState<T> {
    pending: T,
    has_mail: bool,
    stop: Option<StopMode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopMode {
    AtOnce,
    WhenEmpty,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(Arc::clone(&self.0))
    }
}

impl<T: Default> Mailbox<T> {
    /// Merges a request into the pending value and wakes the worker. Once stopped, requests are dropped.
    pub fn put(&self, merge: impl FnOnce(&mut T)) {
        let mut state = self.0.state.lock();
        if state.stop.is_none() {
            merge(&mut state.pending);
            state.has_mail = true;
            drop(state);
            self.0.arrived.notify_one();
        }
    }

    /// Waits for requests, for so long at most, and takes what is pending; `None` once stopped. After the timeout this is
    /// the default value.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<T> {
        let is_idle = |state: &mut MailboxState<T>| !state.has_mail && state.stop.is_none();
        let (state, arrived) = (self.0.state.lock(), &self.0.arrived);
        let mut state = match timeout {
            Some(timeout) => arrived.wait_timeout_while(state, timeout, is_idle),
            None => arrived.wait_while(state, is_idle),
        };
        let has_mail = std::mem::take(&mut state.has_mail);
        match state.stop {
            Some(StopMode::WhenEmpty) if has_mail => {}
            Some(_) => return None,
            None => {}
        }
        Some(std::mem::take(&mut state.pending))
    }

    /// Stops the worker after its current step; what is pending is dropped, with the senders of replies in it.
    pub fn stop(&self) {
        let mut state = self.0.state.lock();
        state.stop = Some(StopMode::AtOnce);
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        self.0.arrived.notify_all();
        drop(pending);
    }

    /// Stops the worker when it has taken what is pending.
    pub fn finish(&self) {
        self.0.state.lock().stop.get_or_insert(StopMode::WhenEmpty);
        self.0.arrived.notify_all();
    }
}

/// Items in order, at most a fixed number, for one worker or several; clones are the same queue.
#[derive(Debug)]
pub struct Queue<T>(Arc<QueueShared<T>>);

#[derive(Debug)]
struct QueueShared<T> {
    state: Mutex<QueuedItems<T>>,
    arrived: Condvar,
    taken: Condvar,
    name: Box<str>,
    limit: usize,
    /// Items that found no room: given back, or their senders had to wait.
    full: AtomicU64,
}

#[derive(Debug)]
struct QueuedItems<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

/// All queues of the process, for [`queues`].
static QUEUES: Mutex<Vec<Weak<dyn WatchedQueue>>> = Mutex::new(Vec::new());

trait WatchedQueue: Send + Sync {
    fn usage(&self) -> QueueUsage;
}

impl<T: Send> WatchedQueue for QueueShared<T> {
    fn usage(&self) -> QueueUsage {
        QueueUsage {
            name: self.name.clone().into(),
            waiting: self.state.lock().items.len(),
            limit: self.limit,
            full: self.full.load(Ordering::Relaxed),
        }
    }
}

/// How full the queues of one name are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    /// The name.
    pub name: String,
    /// Items that wait.
    pub waiting: usize,
    /// Items that may wait.
    pub limit: usize,
    /// Items that found no room since the start.
    pub full: u64,
}

/// Returns the usage of all queues by name, those of the same name together.
pub fn queues() -> Vec<QueueUsage> {
    let all: Vec<_> = QUEUES.lock().iter().filter_map(Weak::upgrade).collect();
    let mut by_name: BTreeMap<String, QueueUsage> = BTreeMap::new();
    for usage in all.iter().map(|queue| queue.usage()) {
        match by_name.entry(usage.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(usage);
            }
            Entry::Occupied(mut entry) => {
                let sum = entry.get_mut();
                sum.waiting += usage.waiting;
                sum.limit += usage.limit;
                sum.full += usage.full;
            }
        }
    }
    by_name.into_values().collect()
}

/// Why an item was not queued; it is given back.
#[derive(Debug, PartialEq, Eq)]
pub enum PushError<T> {
    /// As many items wait as may.
    Full(T),
    /// The workers have been told to stop.
    Closed(T),
}

impl<T> PushError<T> {
    /// Returns the item.
    pub fn into_item(self) -> T {
        match self {
            PushError::Full(item) | PushError::Closed(item) => item,
        }
    }
}

/// The result of waiting for the next item of a queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// The next item.
    Item(T),
    /// None until the deadline.
    TimedOut,
    /// None, and there will be none.
    Closed,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Queue<T> {
    /// Creates a queue for so many items at most. Queues with the same name are one in [`queues`].
    pub fn new(name: impl Into<Box<str>>, limit: usize) -> Self {
        let shared = Arc::new(QueueShared {
            state: Mutex::new(QueuedItems {
                items: VecDeque::new(),
                is_closed: false,
            }),
            arrived: Condvar::new(),
            taken: Condvar::new(),
            name: name.into(),
            limit: limit.max(1),
            full: AtomicU64::new(0),
        });
        let mut all = QUEUES.lock();
        all.retain(|queue| queue.strong_count() > 0);
        let watched: Weak<QueueShared<T>> = Arc::downgrade(&shared);
        all.push(watched);
        drop(all);
        Queue(shared)
    }
}

impl<T> Queue<T> {
    /// Appends an item; gives it back if there is no room.
    pub fn try_push(&self, item: T) -> Result<(), PushError<T>> {
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(PushError::Closed(item));
        }
        if state.items.len() >= self.0.limit {
            self.0.full.fetch_add(1, Ordering::Relaxed);
            return Err(PushError::Full(item));
        }
        state.items.push_back(item);
        drop(state);
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Appends an item, and waits until there is room. Never call this from the worker itself, nor with a lock that a step
    /// of the worker takes.
    pub fn push(&self, item: T) -> Result<(), PushError<T>> {
        let limit = self.0.limit;
        let is_full = |state: &mut QueuedItems<T>| state.items.len() >= limit && !state.is_closed;
        let mut state = self.0.state.lock();
        if is_full(&mut state) {
            self.0.full.fetch_add(1, Ordering::Relaxed);
            state = self.0.taken.wait_while(state, is_full);
        }
        if state.is_closed {
            return Err(PushError::Closed(item));
        }
        state.items.push_back(item);
        drop(state);
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Takes the next item, waiting until a deadline, or forever without one.
    pub fn pop(&self, deadline: Option<Instant>) -> Popped<T> {
        let is_idle = |state: &mut QueuedItems<T>| state.items.is_empty() && !state.is_closed;
        let (state, arrived) = (self.0.state.lock(), &self.0.arrived);
        let mut state = match deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                arrived.wait_timeout_while(state, left, is_idle)
            }
            None => arrived.wait_while(state, is_idle),
        };
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.0.taken.notify_one();
                Popped::Item(item)
            }
            None if state.is_closed => Popped::Closed,
            None => Popped::TimedOut,
        }
    }

    /// Takes the next item if one waits.
    pub fn try_pop(&self) -> Option<T> {
        let item = self.0.state.lock().items.pop_front();
        if item.is_some() {
            self.0.taken.notify_one();
        }
        item
    }

    /// Returns how many items wait.
    pub fn len(&self) -> usize {
        self.0.state.lock().items.len()
    }

    /// Returns whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses new items. Workers take those that wait and then stop.
    pub fn close(&self) {
        self.0.state.lock().is_closed = true;
        self.0.arrived.notify_all();
        self.0.taken.notify_all();
    }

    /// Runs a step for each item, under the panic guard, until the queue is closed and empty.
    pub fn work(&self, work: &str, mut step: impl FnMut(T)) {
        while let Popped::Item(item) = self.pop(None) {
            panic_guard_item(work, || step(item));
        }
    }
}

/// The sending side of a queue whose workers stop when it is dropped, after the items that wait.
#[derive(Debug)]
pub struct QueueOwner<T>(Queue<T>);

impl<T> QueueOwner<T> {
    /// Owns a queue.
    pub fn new(queue: &Queue<T>) -> Self {
        QueueOwner(queue.clone())
    }
}

impl<T> std::ops::Deref for QueueOwner<T> {
    type Target = Queue<T>;

    fn deref(&self) -> &Queue<T> {
        &self.0
    }
}

impl<T> Drop for QueueOwner<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_are_joined_by_name_prefix() {
        let (stop, stopped) = mpsc::channel::<()>();
        start("waited-for-1", move || {
            let _ = stopped.recv();
        })
        .unwrap();
        let names = ["waited-for-"];
        assert_eq!(wait_for_end(&names, Duration::ZERO), ["waited-for-1"]);
        assert!(wait_for_end(&["another"], Duration::ZERO).is_empty());
        drop(stop);
        assert!(wait_for_end(&names, Duration::from_secs(60)).is_empty());
    }

    #[test]
    fn a_panic_costs_the_step_and_not_the_worker() {
        let queue = Queue::new("test", 8);
        for item in 0..3 {
            queue.push(item).unwrap();
        }
        queue.close();
        let mut done = Vec::new();
        queue.work("testing", |item| {
            assert_ne!(item, 1, "a bug on purpose");
            done.push(item);
        });
        assert_eq!(done, [0, 2]);
    }

    #[test]
    fn a_full_queue_gives_the_item_back_or_makes_the_sender_wait() {
        let queue = Queue::new("test-full", 1);
        queue.try_push(1).unwrap();
        assert_eq!(queue.try_push(2), Err(PushError::Full(2)));
        let usage = queues().into_iter().find(|one| one.name == "test-full");
        let expected = QueueUsage {
            name: "test-full".into(),
            waiting: 1,
            limit: 1,
            full: 1,
        };
        assert_eq!(usage, Some(expected));
        let sender = queue.clone();
        let waiting = thread::spawn(move || sender.push(3));
        assert_eq!(queue.pop(None), Popped::Item(1));
        waiting.join().unwrap().unwrap();
        assert_eq!(queue.pop(None), Popped::Item(3));
        assert_eq!(queue.pop(Some(Instant::now())), Popped::TimedOut);
    }

    #[test]
    fn a_closed_queue_is_emptied_before_its_workers_stop() {
        let queue = Queue::new("test", 2);
        let owner = QueueOwner::new(&queue);
        owner.push(1).unwrap();
        owner.push(2).unwrap();
        let sender = queue.clone();
        let waiting = thread::spawn(move || sender.push(3));
        drop(owner);
        assert_eq!(queue.try_push(4), Err(PushError::Closed(4)));
        // It was waiting for room when the queue was closed.
        assert_eq!(waiting.join().unwrap(), Err(PushError::Closed(3)));
        assert_eq!(queue.pop(None), Popped::Item(1));
        assert_eq!(queue.try_pop(), Some(2));
        assert_eq!(queue.pop(None), Popped::Closed);
    }

    #[test]
    fn requests_to_a_mailbox_are_merged_and_taken_at_once() {
        let mailbox: Mailbox<Vec<u32>> = Mailbox::default();
        assert_eq!(mailbox.wait(Some(Duration::ZERO)), Some(vec![]));
        let sender = mailbox.clone();
        sender.put(|pending| pending.push(1));
        sender.put(|pending| pending.push(2));
        assert_eq!(mailbox.wait(None), Some(vec![1, 2]));
        sender.put(|pending| pending.push(3));
        sender.finish();
        sender.put(|pending| pending.push(4));
        assert_eq!(mailbox.wait(None), Some(vec![3]));
        assert_eq!(mailbox.wait(None), None);
    }

    #[test]
    fn a_stopped_mailbox_drops_what_is_pending() {
        let mailbox: Mailbox<Vec<mpsc::SyncSender<()>>> = Mailbox::default();
        let (reply, replied) = mpsc::sync_channel(1);
        mailbox.put(|pending| pending.push(reply));
        mailbox.stop();
        // The sender of the request does not wait for a reply that never comes.
        assert!(replied.recv().is_err());
        assert!(mailbox.wait(None).is_none());
    }
}
