//! Leases of the databases: which work this server does for all servers on a database.
//!
//! A thread for each database renews them (`nameward_sql::write::leases`). A lease counts here from the moment of the request, by a clock
//! that cannot be set: a server that is cut off stops before another one takes over. A database without leases has no such
//! order, and every server does everything.

use crate::follow::databases::{Databases, FollowedDatabase};
use nameward_base::sync::Mutex;
use nameward_base::worker::{self, Mailbox, panic_guard};
pub use nameward_sql::write::LeaseTask;
use nameward_sql::write::{LeaseRenewal, SeenLeases, WriteError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Interval at which leases are renewed, and those of others are checked.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two checks.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// The same after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The leases of all databases; clones share them. They exist before the databases, because commits notify and the databases
/// commit: nothing is held until the threads start.
#[derive(Clone, Default)]
pub struct Leases {
    databases: Arc<[DatabaseLeases]>,
    is_kept: Arc<AtomicBool>,
}

struct DatabaseLeases {
    rank: u16,
    state: Mutex<LeaseState>,
    inbox: Mailbox<()>,
}

/// Knowledge about the leases of a database.
#[derive(Default)]
enum LeaseState {
    /// Not read yet.
    #[default]
    Unknown,
    /// It has none: every server works for itself.
    Unavailable,
    /// The tasks of this server, and until when.
    Held(Vec<(LeaseTask, Instant)>),
}

impl LeaseState {
    fn holds(&self, task: LeaseTask, now: Instant) -> bool {
        match self {
            LeaseState::Unknown => false,
            LeaseState::Unavailable => true,
            LeaseState::Held(held) => held.iter().any(|(one, until)| *one == task && now < *until),
        }
    }
}

/// The server that holds leases: its name, the tasks it can do, and its reaction to a new one.
pub struct LeaseUse {
    /// The name of this server in the tables.
    pub server: String,
    /// Returns the tasks that this server can do.
    pub tasks: Box<dyn Fn() -> Vec<LeaseTask> + Send + Sync>,
    /// Called when this server starts to do a task for the database of a rank.
    pub on_gained: Box<dyn Fn(u16, LeaseTask) + Send + Sync>,
}

impl Leases {
    /// Creates the leases of the databases with these ranks.
    pub fn new(ranks: &[u16]) -> Self {
        let databases = ranks.iter().map(|rank| DatabaseLeases {
            rank: *rank,
            state: Mutex::default(),
            inbox: Mailbox::default(),
        });
        Leases {
            databases: databases.collect(),
            is_kept: Arc::default(),
        }
    }

    /// Checks whether this server does a task for the database of a rank. For other ranks it always does.
    pub fn holds(&self, rank: u16, task: LeaseTask) -> bool {
        let found = self.databases.iter().find(|one| one.rank == rank);
        found.is_none_or(|one| one.state.lock().holds(task, Instant::now()))
    }

    /// Starts a thread for each database. Call once, within the runtime of the database connections.
    pub fn start(&self, databases: &Databases, terms: LeaseUse) -> io::Result<()> {
        let terms = Arc::new(terms);
        for (index, one) in self.databases.iter().enumerate() {
            let Some(database) = databases.find(one.rank) else {
                continue;
            };
            let mut keeper = LeaseKeeper {
                leases: self.clone(),
                index,
                database: database.clone(),
                terms: Arc::clone(&terms),
                runtime: Handle::current(),
                seen: SeenLeases::default(),
                has_warned: false,
            };
            worker::start(format!("leases-{}", one.rank), move || keeper.run())?;
        }
        Ok(())
    }

    /// Stops the threads. The leases end at once, so that another server takes over, unless a successor of this process
    /// continues them.
    pub fn end(&self, has_successor: bool) {
        self.is_kept.store(has_successor, Ordering::Release);
        self.databases.iter().for_each(|one| one.inbox.stop());
    }
}

/// The thread of one database.
struct LeaseKeeper {
    leases: Leases,
    index: usize,
    database: FollowedDatabase,
    terms: Arc<LeaseUse>,
    runtime: Handle,
    seen: SeenLeases,
    has_warned: bool,
}

impl LeaseKeeper {
    fn own(&self) -> &DatabaseLeases {
        &self.leases.databases[self.index]
    }

    fn run(&mut self) {
        loop {
            let mut wait = RETRY_AFTER;
            panic_guard("renewing the leases of a database", || {
                wait = self.renew();
            });
            if self.own().inbox.wait(Some(wait)).is_none() {
                return self.release();
            }
        }
    }

    /// Renews the leases; returns the time until that is due again.
    fn renew(&mut self) -> Duration {
        let requested_at = Instant::now();
        let tasks = (self.terms.tasks)();
        let backend = &self.database.backend;
        let renewed =
            self.runtime
                .block_on(backend.renew_leases(&self.terms.server, &tasks, &mut self.seen));
        let (state, wait) = match renewed {
            Ok(LeaseRenewal::Held(held)) => {
                self.has_warned = false;
                let lease = backend.lease_time();
                let end = self.seen.next_end(&self.terms.server, &tasks, lease);
                let end = end.map(|end| end.saturating_duration_since(Instant::now()));
                let wait = end.map_or(RENEW_INTERVAL, |end| end.clamp(LEAST_WAIT, RENEW_INTERVAL));
                (LeaseState::Held(held), wait)
            }
            Ok(LeaseRenewal::Unavailable(reason)) => {
                self.warn(&reason);
                (LeaseState::Unavailable, RENEW_INTERVAL)
            }
            // Leases that are held expire.
            Err(error) => {
                self.note_failure(&error);
                return RETRY_AFTER;
            }
        };
        let before = std::mem::replace(&mut *self.own().state.lock(), state);
        for task in LeaseTask::ALL {
            let rank = self.own().rank;
            if !before.holds(task, requested_at) && self.leases.holds(rank, task) {
                tracing::debug!("database {rank}: lease {} taken", task.name());
                (self.terms.on_gained)(rank, task);
            }
        }
        wait
    }

    fn warn(&mut self, reason: &str) {
        if std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        let options = self.database.backend.options();
        let database = &options.address;
        let text = "no leases: several servers on this database would each send NOTIFY and refresh secondary zones, and \
                    a server that rolls keys has no successor; create the table nameward_leases with `nameward db init`";
        // A file usually has one server.
        if options.address.engine() == "sqlite" {
            tracing::debug!(%database, reason, "{text}");
        } else {
            tracing::warn!(%database, reason, "{text}");
        }
    }

    fn note_failure(&self, error: &WriteError) {
        let database = &self.database.backend.options().address;
        tracing::debug!(%database, "cannot renew leases: {error}");
    }

    fn release(&self) {
        let held = std::mem::take(&mut *self.own().state.lock());
        let is_kept = self.leases.is_kept.load(Ordering::Acquire);
        if is_kept || !matches!(&held, LeaseState::Held(held) if !held.is_empty()) {
            return;
        }
        let backend = &self.database.backend;
        let released = self
            .runtime
            .block_on(backend.release_leases(&self.terms.server));
        if let Err(error) = released {
            self.note_failure(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_and_without_leases_everything_is_done() {
        let now = Instant::now();
        let until = now + Duration::from_secs(30);
        let state = LeaseState::Held(vec![(LeaseTask::Notify, until)]);
        assert!(state.holds(LeaseTask::Notify, now));
        assert!(!state.holds(LeaseTask::Keys, now));
        assert!(!state.holds(LeaseTask::Notify, until));
        assert!(!LeaseState::Unknown.holds(LeaseTask::Notify, now));
        assert!(LeaseState::Unavailable.holds(LeaseTask::Notify, now));
        let leases = Leases::new(&[3]);
        assert!(!leases.holds(3, LeaseTask::Notify));
        assert!(leases.holds(1, LeaseTask::Notify), "not a database");
    }
}
