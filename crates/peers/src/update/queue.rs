//! Queues of updates waiting to be committed: one for zones in memory, one for each database.
//!
//! Workers submit updates and never wait: a full queue rejects them. A queue processes updates in order, so that each
//! sees the result of the earlier ones, and does not wait for the disk: updates of zones in memory are grouped by the
//! state store, those of a database by the queue, which puts all that wait into one transaction. Each update gets its
//! own result after it is durable and served.

use super::message::{UpdateRequest, refused};
use super::plan::{UpdateChange, UpdatePermission};
use nameward_base::secret::Secret;
use nameward_base::sync::Mutex;
use nameward_base::worker::{self, Popped, PushError, Queue, QueueOwner, panic_guard_item};
use nameward_maintain::commit::{CommitError, Commits, CommittedVersion, VersionSource};
use nameward_maintain::follow::databases::{Databases, FollowedDatabase};
use nameward_maintain::table::lower_case;
use nameward_sql::write::{Committed, WriteError};
use nameward_state::{JournalOrigin, StateChange, StateError, StateStore, ZoneStorage};
use nameward_wire::{Name, NameBuf, Rcode, Type};
use nameward_zone::change::{ChangeRefused, ConditionalChange, Difference};
use nameward_zone::{Serial, SerialRule};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::SystemTime;
use tokio::runtime::Handle;

/// Maximum number of updates waiting in one queue. Only those of authorized clients get there, and each has at most
/// 65,535 octets.
const WAITING: usize = 1024;
/// Maximum number of updates in one database transaction.
const GROUP: usize = 64;
/// The item kind for frozen zones in the state store.
const FROZEN: &str = "frozen";

/// An accepted UPDATE.
pub struct UpdateJob {
    /// The message.
    pub message: Box<[u8]>,
    /// The zone's name as in the table.
    pub zone: NameBuf,
    /// The rank of the source that serves it.
    pub rank: u16,
    /// The permissions of the client.
    pub permission: Box<dyn UpdatePermission>,
    /// How the serial is incremented.
    pub serial: SerialRule,
    /// The current time, for serials that are dates.
    pub now: SystemTime,
    /// Called with the outcome, once.
    pub done: UpdateDone,
}

/// Called with the outcome of an update.
pub type UpdateDone = Box<dyn FnOnce(UpdateOutcome) + Send>;

/// The outcome of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The zone has changed, durably, and the next query sees it.
    Changed {
        /// Number of removed and added records, besides the SOA.
        records: u64,
        /// The new serial.
        serial: Serial,
    },
    /// The zone already had this state.
    Unchanged,
    /// Nothing was changed, for this reason.
    Refused(ChangeRefused),
    /// Nothing was changed, or the result is unknown: an operator can fix this.
    Failed(String),
}

impl UpdateOutcome {
    /// Returns the response code for the client.
    pub fn rcode(&self) -> Rcode {
        match self {
            UpdateOutcome::Changed { .. } | UpdateOutcome::Unchanged => Rcode::NoError,
            UpdateOutcome::Refused(refused) => refused.rcode,
            UpdateOutcome::Failed(_) => Rcode::ServFail,
        }
    }
}

type Frozen = Arc<Mutex<HashSet<Box<[u8]>>>>;

/// The queues of all updates; their threads end when this is dropped, after processing what is queued.
pub struct Updates {
    commits: Arc<Commits>,
    resident: QueueOwner<QueueItem>,
    databases: HashMap<u16, QueueOwner<QueueItem>>,
    frozen: Frozen,
}

enum QueueItem {
    Update(Box<UpdateJob>),
    /// Gets a message when all updates before it were passed to their commits.
    Mark(SyncSender<()>),
}

impl Updates {
    /// Starts the queues, one of them for each database. Call within the runtime of their connections.
    pub fn start(commits: &Arc<Commits>, databases: &Databases) -> std::io::Result<Arc<Self>> {
        let frozen: Frozen = Arc::default();
        if let Some(Ok(items)) = commits.store().map(|store| store.items(FROZEN)) {
            let names = items.into_iter().map(|(name, _)| name.into());
            frozen.lock().extend(names);
        }
        let own = Arc::clone(commits);
        let resident = start_queue("update".into(), Arc::clone(&frozen), move |jobs| {
            for job in jobs {
                commit_resident(&own, job);
            }
        })?;
        let mut queues = HashMap::new();
        for database in databases.all() {
            let rank = database.rank;
            let updated = UpdatedDatabase {
                followed: database.clone(),
                commits: Arc::clone(commits),
                runtime: Handle::current(),
            };
            let take = move |jobs| updated.commit_all(jobs);
            let queue = start_queue(format!("update-{rank}"), Arc::clone(&frozen), take)?;
            queues.insert(rank, queue);
        }
        Ok(Arc::new(Updates {
            commits: Arc::clone(commits),
            resident,
            databases: queues,
            frozen,
        }))
    }

    /// Submits an update. It is returned if too many wait.
    pub fn submit(&self, job: UpdateJob) -> Result<(), Box<UpdateJob>> {
        let queue = self.databases.get(&job.rank).unwrap_or(&self.resident);
        match queue.try_push(QueueItem::Update(Box::new(job))) {
            Err(
                PushError::Full(QueueItem::Update(job)) | PushError::Closed(QueueItem::Update(job)),
            ) => Err(job),
            _ => Ok(()),
        }
    }

    /// Checks whether updates of a zone are suspended.
    pub fn is_frozen(&self, zone: Name<'_>) -> bool {
        self.frozen.lock().contains(&*lower_case(zone))
    }

    /// Refuses updates of a zone from now on, also after a restart, and returns when earlier ones are done. False if
    /// it was already frozen. May block.
    pub fn freeze(&self, zone: Name<'_>) -> Result<bool, StateError> {
        let is_new = self.frozen.lock().insert(lower_case(zone));
        self.remember(zone, true)?;
        for queue in self.databases.values().chain([&self.resident]) {
            let (mark, passed) = sync_channel(1);
            if queue.push(QueueItem::Mark(mark)).is_ok() {
                let _ = passed.recv();
            }
        }
        // Everything passed to the journal before is on disk after this.
        self.remember(zone, true)?;
        Ok(is_new)
    }

    /// Accepts updates of a zone again; false if it was not frozen. May block.
    pub fn thaw(&self, zone: Name<'_>) -> Result<bool, StateError> {
        self.remember(zone, false)?;
        Ok(self.frozen.lock().remove(&*lower_case(zone)))
    }

    fn remember(&self, zone: Name<'_>, is_frozen: bool) -> Result<(), StateError> {
        let Some(store) = self.commits.store() else {
            return Ok(());
        };
        let (kind, name, value) = (FROZEN, lower_case(zone).into_vec(), Secret::default());
        let change = if is_frozen {
            StateChange::SetItem { kind, name, value }
        } else {
            StateChange::RemoveItem { kind, name }
        };
        store.write(vec![change]).map(|_| ())
    }
}

/// Checks whether a zone is frozen according to the state store, when no queues run.
pub fn is_kept_frozen(store: &StateStore, zone: Name<'_>) -> Result<bool, StateError> {
    Ok(store.item(FROZEN, &lower_case(zone))?.is_some())
}

/// Starts a queue, which passes on waiting updates in groups.
fn start_queue(
    name: String,
    frozen: Frozen,
    take: impl Fn(Vec<UpdateJob>) + Send + 'static,
) -> std::io::Result<QueueOwner<QueueItem>> {
    let queue = Queue::new("updates", WAITING);
    let owner = QueueOwner::new(&queue);
    worker::start(name, move || {
        while let Popped::Item(first) = queue.pop(None) {
            let (group, marks) = collect(first, &queue);
            let is_frozen =
                |job: &UpdateJob| frozen.lock().contains(&*lower_case(job.zone.as_name()));
            let (held, taken): (Vec<_>, Vec<_>) = group.into_iter().partition(is_frozen);
            for job in held {
                let refused = refused(Rcode::Refused, "the zone is frozen");
                (job.done)(UpdateOutcome::Refused(refused));
            }
            // An update that is our own mistake stays unanswered, and the queue continues.
            panic_guard_item("committing updates", || take(taken));
            for mark in marks {
                let _ = mark.try_send(());
            }
        }
    })?;
    Ok(owner)
}

/// Takes what waits, up to a mark or the size of a group.
fn collect(first: QueueItem, queue: &Queue<QueueItem>) -> (Vec<UpdateJob>, Vec<SyncSender<()>>) {
    let (mut group, mut marks) = (Vec::new(), Vec::new());
    let mut next = Some(first);
    while let Some(item) = next {
        match item {
            QueueItem::Update(job) => group.push(*job),
            QueueItem::Mark(mark) => marks.push(mark),
        }
        let has_room = marks.is_empty() && group.len() < GROUP;
        next = has_room.then(|| queue.try_pop()).flatten();
    }
    (group, marks)
}

/// Reads the message of an update. A malformed one gets its error as the outcome.
fn read(job: UpdateJob) -> Option<(NameBuf, u16, UpdateChange, UpdateDone)> {
    match UpdateRequest::read(&job.message) {
        Ok(request) => {
            let change = UpdateChange {
                request,
                permission: job.permission,
                serial: job.serial,
                now: job.now,
            };
            Some((job.zone, job.rank, change, job.done))
        }
        Err(refused) => {
            (job.done)(UpdateOutcome::Refused(refused));
            None
        }
    }
}

fn commit_resident(commits: &Arc<Commits>, job: UpdateJob) {
    let Some((zone, rank, change, done)) = read(job) else {
        return;
    };
    let source = VersionSource::new(zone, rank, ZoneStorage::File, JournalOrigin::Change);
    commits.conditional(source, &change, move |result| done(commit_outcome(result)));
}

fn commit_outcome(result: Result<CommittedVersion, CommitError>) -> UpdateOutcome {
    match result {
        Ok(committed) if committed.difference.is_empty() => UpdateOutcome::Unchanged,
        Ok(committed) => UpdateOutcome::Changed {
            records: records_of(&committed.difference),
            serial: committed.zone.serial(),
        },
        Err(CommitError::Refused(refused)) => UpdateOutcome::Refused(refused),
        // RFC 2136 has no code for a zone that could no longer be served.
        Err(CommitError::Invalid(error)) => UpdateOutcome::Refused(refused(Rcode::Refused, error)),
        Err(CommitError::NoSuchZone) => {
            UpdateOutcome::Refused(refused(Rcode::NotAuth, CommitError::NoSuchZone))
        }
        Err(error) => UpdateOutcome::Failed(error.to_string()),
    }
}

/// A database whose zones are updated.
struct UpdatedDatabase {
    followed: FollowedDatabase,
    commits: Arc<Commits>,
    runtime: Handle,
}

impl UpdatedDatabase {
    /// Commits updates in one transaction, each with its own result, which is reported when it is served.
    fn commit_all(&self, jobs: Vec<UpdateJob>) {
        let read: Vec<_> = jobs.into_iter().filter_map(read).collect();
        if read.is_empty() {
            return;
        }
        let changes: Vec<(NameBuf, &dyn ConditionalChange)> = read
            .iter()
            .map(|(zone, _, change, _)| (*zone, change as &dyn ConditionalChange))
            .collect();
        let backend = &self.followed.backend;
        let results = self.runtime.block_on(async {
            let results = backend.commit_group(&changes).await;
            for committed in results.iter().flatten() {
                backend.await_replica(committed).await;
            }
            results
        });
        let changed = results.iter().flatten().filter(|one| one.is_changed);
        let changed: Vec<&Committed> = changed.collect();
        let followed = self
            .followed
            .follow_all(&self.commits, &self.runtime, &changed);
        for (committed, followed) in changed.iter().zip(followed) {
            // It is in the database, so the client gets NOERROR; this server's answers follow.
            if let Err(error) = followed {
                tracing::error!(
                    "zone {}: updated in the database, but this server does not serve the change yet: {error}",
                    committed.apex
                );
            }
        }
        for ((.., done), result) in read.into_iter().zip(results) {
            done(database_outcome(result));
        }
    }
}

fn database_outcome(result: Result<Committed, WriteError>) -> UpdateOutcome {
    match result {
        Ok(committed) if !committed.is_changed => UpdateOutcome::Unchanged,
        Ok(committed) => UpdateOutcome::Changed {
            records: committed.difference.as_ref().map_or(1, records_of),
            serial: committed.serial,
        },
        Err(WriteError::Refused(refused)) => UpdateOutcome::Refused(refused),
        Err(error @ (WriteError::Invalid(_) | WriteError::ReadOnly(_))) => {
            UpdateOutcome::Refused(refused(Rcode::Refused, error))
        }
        Err(WriteError::NoSuchZone) => {
            UpdateOutcome::Refused(refused(Rcode::NotAuth, WriteError::NoSuchZone))
        }
        Err(error) => UpdateOutcome::Failed(error.to_string()),
    }
}

/// Counts the records of a difference besides the SOA.
fn records_of(difference: &Difference) -> u64 {
    let records = difference.removed.iter().chain(&difference.added);
    records.filter(|record| record.rtype != Type::SOA).count() as u64
}
