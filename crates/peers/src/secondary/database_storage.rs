//! A database as storage for secondary zones: rows, `last_check`, and other servers that use them.
//!
//! A transferred version is written to the database in one transaction, whose first step locks the zone and compares
//! its serial: two servers on one database may transfer a zone at the same time, and the slower one finds that
//! nothing is left to do. `last_check` is the time of the last successful check, as in PowerDNS. Database calls block
//! dedicated threads.

use super::ZoneSuccessor;
use super::difference_change::DifferenceChange;
use super::storage::{
    HeldVersion, SecondaryStorage, SeenDone, StorageError, StorageOutcome, StorageState,
    StorageStates, VersionDone, ZoneInStorage,
};
use crate::secondary::zone::ZoneState;
use crate::transfer_in::WholeZone;
use crate::transfer_out::encode::condense;
use nameward_base::worker::{self, Queue, QueueOwner};
use nameward_maintain::SoaTimes;
use nameward_maintain::change_feed::LiveChange;
use nameward_maintain::commit::Commits;
use nameward_maintain::follow::databases::{FollowedDatabase, ServedFrom};
use nameward_maintain::leases::{LeaseTask, Leases};
use nameward_maintain::schedule::Moment;
use nameward_sql::write::{Committed, WriteError, ZoneProgress, ZoneProgressList};
use nameward_state::{JournalOrigin, ZoneTimers};
use nameward_wire::NameBuf;
use nameward_zone::change::{ConditionalChange, Difference, soa_serial};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Threads that wait for one database: a large transfer keeps one of them busy for long.
const THREADS: usize = 4;

/// Number of zones from which on all secondary zones are read instead of each by its name.
const MANY: usize = 2000;

/// Jobs that may wait for a database; then the driver of secondary zones waits. Checks that run at one time need far
/// fewer. The bound is for zones that expire together while the database is down: it must not stop other zones.
const WAITING: usize = 1 << 18;

/// Warnings of one transfer that are logged.
const WARNINGS_LOGGED: usize = 5;

/// Work that waits for the database.
type StorageJob = Box<dyn FnOnce(&StorageWorker) + Send>;

/// Stores the secondary zones of a database in it.
pub struct DatabaseStorage {
    database: FollowedDatabase,
    leases: Leases,
    jobs: QueueOwner<StorageJob>,
}

impl DatabaseStorage {
    /// Starts the threads that wait for a database; `runtime` is the one that its connections belong to.
    pub fn start(
        database: &FollowedDatabase,
        (commits, leases): (&Arc<Commits>, &Leases),
        runtime: &Handle,
    ) -> io::Result<Self> {
        let queue: Queue<StorageJob> = Queue::new(format!("storage-{}", database.rank), WAITING);
        let jobs = QueueOwner::new(&queue);
        for _ in 0..THREADS {
            let queue = queue.clone();
            let worker = StorageWorker {
                database: database.clone(),
                commits: Arc::clone(commits),
                runtime: runtime.clone(),
            };
            let run = move || {
                queue.work("maintaining secondary zones of a database", |job| {
                    job(&worker);
                });
            };
            worker::start(format!("storage-{}", database.rank), run)?;
        }
        Ok(DatabaseStorage {
            database: database.clone(),
            leases: leases.clone(),
            jobs,
        })
    }

    fn submit(&self, job: impl FnOnce(&StorageWorker) + Send + 'static) {
        // Closed only when this is dropped. The callers are the secondary driver and its reports, never these threads.
        let _ = self.jobs.push(Box::new(job));
    }

    /// Makes a zone answer SERVFAIL, or answer normally again.
    fn withhold(&self, zone: &NameBuf, is_withheld: bool) {
        if self.database.withhold(zone.as_name(), is_withheld) {
            let zone = *zone;
            self.submit(move |worker| worker.read_again(zone));
        }
    }
}

impl SecondaryStorage for DatabaseStorage {
    fn is_shared(&self) -> bool {
        true
    }

    fn leads_refresh(&self) -> bool {
        self.leases
            .holds(self.database.rank, LeaseTask::Secondaries)
    }

    fn read_states(&self, zones: Vec<NameBuf>, done: SeenDone) {
        self.submit(move |worker| {
            done(worker.read_states(&zones).map_err(StorageError::from));
        });
    }

    fn bring_differences(
        &self,
        zone: &ZoneInStorage<'_>,
        differences: Vec<Difference>,
        _: Moment,
        done: VersionDone,
    ) {
        let name = zone.settings.name.to_buf();
        self.submit(move |worker| {
            let condensed = match <[Difference; 1]>::try_from(differences) {
                Ok([only]) => only,
                Err(several) => condense(&several),
            };
            let brought = worker.bring_differences(name, condensed);
            worker.report(name, brought, done);
        });
    }

    fn bring_whole(
        &self,
        zone: &ZoneInStorage<'_>,
        whole: WholeZone,
        _: Moment,
        done: VersionDone,
    ) {
        let name = zone.settings.name.to_buf();
        // The rows are built from the zone: nothing else is kept while they are written.
        let version = whole.zone;
        let (rule, is_forced) = (zone.settings.policy.zonemd, zone.is_forced);
        self.submit(move |worker| {
            let error = rule.objection(&version);
            if error.is_some() {
                return done(StorageOutcome { held: None, error });
            }
            let has_none = worker.has_no_version(name);
            let brought = worker.bring_whole(name, &version, is_forced);
            drop(version);
            let is_first = has_none && brought.as_ref().is_ok_and(|done| done.is_changed);
            worker.report(name, brought, done);
            if is_first {
                // The follower has read it like zones at a start, which trigger no NOTIFY.
                let change = LiveChange {
                    origin: Some(JournalOrigin::Transfer),
                    ..LiveChange::default()
                };
                worker.commits.report_live_change(name.as_name(), change);
            }
        });
    }

    fn confirm(&self, zone: &NameBuf, timers: ZoneTimers) {
        let zone = *zone;
        self.submit(move |worker| {
            let backend = &worker.database.backend;
            let set = backend.set_last_check(&zone, timers.refreshed);
            if let Err(error) = worker.runtime.block_on(set) {
                tracing::warn!("zone {zone}: cannot write last_check to the database: {error}");
            }
        });
    }

    fn show(&self, zone: &ZoneInStorage<'_>) {
        let is_withheld = zone.state == ZoneState::Expired;
        self.withhold(&zone.settings.name.to_buf(), is_withheld);
    }

    fn forget(&self, zone: &ZoneInStorage<'_>, _: ZoneSuccessor) {
        self.withhold(&zone.settings.name.to_buf(), false);
    }
}

/// The components that a thread works with.
struct StorageWorker {
    database: FollowedDatabase,
    commits: Arc<Commits>,
    runtime: Handle,
}

impl StorageWorker {
    /// Checks whether a resident zone has no contents in memory yet.
    fn has_no_version(&self, zone: NameBuf) -> bool {
        let version = self
            .commits
            .table()
            .version(zone.as_name(), self.database.rank);
        self.database.served_from == ServedFrom::Memory
            && version.is_none_or(|version| version.is_stub())
    }

    fn standing(&self, zones: &[NameBuf]) -> Result<Vec<ZoneProgress>, WriteError> {
        let list = if zones.len() < MANY {
            ZoneProgressList::Named(zones)
        } else {
            ZoneProgressList::Secondary
        };
        self.database.zone_progress(&self.runtime, list)
    }

    fn read_states(&self, zones: &[NameBuf]) -> Result<StorageStates, WriteError> {
        let wanted: HashSet<&NameBuf> = zones.iter().collect();
        let found = self.standing(zones)?.into_iter();
        let found = found.filter(|zone| wanted.contains(&zone.name));
        Ok(found.map(|zone| (zone.name, state_of(&zone))).collect())
    }

    fn id_of(&self, zone: NameBuf) -> Result<i64, WriteError> {
        let found = self.standing(&[zone])?;
        let first = found.first().map(|zone| zone.id);
        first.ok_or(WriteError::NoSuchZone)
    }

    fn bring_differences(
        &self,
        zone: NameBuf,
        difference: Difference,
    ) -> Result<Committed, WriteError> {
        let change = DifferenceChange::new(zone, difference);
        let commit = async {
            let group: [(NameBuf, &dyn ConditionalChange); 1] = [(zone, &change)];
            let mut results = self.database.backend.commit_group(&group).await;
            results.pop().unwrap_or(Err(WriteError::NoSuchZone))
        };
        self.runtime.block_on(commit)
    }

    fn bring_whole(
        &self,
        zone: NameBuf,
        version: &nameward_zone::Zone,
        is_forced: bool,
    ) -> Result<Committed, WriteError> {
        let id = self.id_of(zone)?;
        let backend = &self.database.backend;
        if is_forced {
            self.runtime.block_on(backend.force_zone(id, version))
        } else {
            self.runtime.block_on(backend.replace_zone(id, version))
        }
    }

    /// Updates this server's answers with the stored version, and reports the state of the database.
    fn report(&self, zone: NameBuf, brought: Result<Committed, WriteError>, done: VersionDone) {
        let error = match brought {
            Ok(committed) => {
                for warning in committed.warnings.iter().take(WARNINGS_LOGGED) {
                    tracing::warn!("zone {zone}: {warning}");
                }
                if committed.is_changed {
                    self.follow(&committed);
                }
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let seen = self.read_states(&[zone]);
        let held = match seen {
            Ok(states) => states.into_iter().next().and_then(|(_, state)| state.held),
            Err(_) => None,
        };
        let error = match (&held, error) {
            (None, None) => Some("the written zone cannot be read back from the database".into()),
            (_, error) => error,
        };
        done(StorageOutcome { held, error });
    }

    fn follow(&self, committed: &Committed) {
        let backend = &self.database.backend;
        self.runtime.block_on(backend.await_replica(committed));
        if let Err(error) = self.database.follow(&self.runtime, committed) {
            tracing::error!(
                "zone {}: transferred into the database, but this server cannot serve it yet: {error}",
                committed.apex
            );
        }
    }

    fn read_again(&self, zone: NameBuf) {
        let read = self.id_of(zone).map_err(|error| error.to_string());
        let read = read.and_then(|id| {
            let read = self.database.read_again(&self.runtime, id);
            read.map_err(|error| error.to_string())
        });
        if let Err(error) = read {
            tracing::debug!("zone {zone}: cannot read it again: {error}");
        }
    }
}

/// Returns the state of a zone as the refresh logic sees it.
fn state_of(zone: &ZoneProgress) -> StorageState {
    let held = zone.soa.as_deref().and_then(|soa| {
        Some(HeldVersion {
            serial: soa_serial(soa)?,
            times: SoaTimes::from_soa(soa),
            contents: None,
        })
    });
    // PowerDNS writes 0 to request a check, which says nothing about the age.
    let refreshed = zone.last_check.filter(|seconds| *seconds > 0);
    StorageState {
        held,
        refreshed: refreshed.and_then(|seconds| u64::try_from(seconds).ok()),
    }
}
