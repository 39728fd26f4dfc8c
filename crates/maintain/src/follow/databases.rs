//! Follows databases: their zone lists, and their changes.
//!
//! Each database has a thread that reads its zone list, publishes stubs (live) or contents (resident) in the
//! table, and then follows its changes. A database that is down is retried with back-off; its known zones stay in the
//! table in the meantime, and live ones that cannot be looked up are answered SERVFAIL. A thread that panics is
//! restarted with what it knew.

mod first_read;
mod followed_zones;
mod follower;
mod own_change;
mod pending_reads;
mod withheld;
mod zone_faults;
mod zone_list_file;

use crate::change_feed::LiveChange;
use crate::commit::Commits;
use crate::follow::unknown;
use crate::policy::PolicyTable;
use first_read::FirstRead;
use follower::DatabaseFollower;
use nameward_base::sync::Mutex;
use nameward_base::worker::{self, panic_guard};
use nameward_sql::{
    SqlBackend, SqlError,
    write::{CommitMark, Committed, WriteError, ZoneProgress, ZoneProgressList},
};
use nameward_state::JournalOrigin;
use nameward_wire::Name;
use own_change::{OwnChange, ReportedVersions};
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc, oneshot, watch},
    time::timeout,
};
use withheld::WithheldZones;
use zone_faults::ZoneFaultLog;
pub use zone_faults::{DatabaseZoneFaults, NamedZones};

/// Maximum number of this server's own changes waiting to be followed.
const OWN_CHANGES: usize = 64;
/// Maximum time for following a change of this server: a resident zone may have to be read as a whole.
const OWN_CHANGE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long shutdown waits for followers that are processing a zone.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which it checks whether they have ended.
const END_INTERVAL: Duration = Duration::from_millis(5);

/// How the zones of a database are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedFrom {
    /// Looked up at query time.
    Lookups,
    /// Held in memory.
    Memory,
}

/// A database to follow.
#[allow(missing_docs)] // fields whose names say it
pub struct DatabaseSource {
    pub rank: u16,
    pub served_from: ServedFrom,
    /// Its number among the look-up sources.
    pub lookup_source: u32,
    pub backend: SqlBackend,
}

/// The settings for following all databases.
pub struct FollowSettings<'t> {
    /// Interval at which the zone list is read without a change notice.
    pub refresh_interval: Duration,
    /// The directory for zone lists, for the next start.
    pub state_directory: Option<&'t Path>,
    /// Returns memory to the system that a load needed only while it ran.
    pub give_back: fn(),
    /// The table for zone policies.
    pub policies: &'t Arc<PolicyTable>,
}

/// The databases of a running server.
#[derive(Clone, Default)]
pub struct Databases {
    list: Vec<FollowedDatabase>,
    followers: Arc<Followers>,
}

/// The threads that follow databases, and the means to end them.
#[derive(Default)]
struct Followers {
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Followers {
    /// Ends the threads and waits for that: one that waits for a database when the runtime ends would panic.
    fn end(&self) {
        self.stop.send_replace(true);
        let started = Instant::now();
        let threads = std::mem::take(&mut *self.threads.lock());
        while threads.iter().any(|thread| !thread.is_finished()) {
            if started.elapsed() > SHUTDOWN_TIMEOUT {
                return tracing::warn!("a database follower did not stop in time");
            }
            thread::sleep(END_INTERVAL);
        }
        // They have ended: a panic was caught and logged.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// A database of a running server.
#[allow(missing_docs)] // fields whose names say it
#[derive(Clone)]
pub struct FollowedDatabase {
    pub rank: u16,
    pub served_from: ServedFrom,
    pub backend: SqlBackend,
    own: mpsc::Sender<OwnChange>,
    link: Arc<FollowerLink>,
}

/// The state that a database shares with the thread that follows it.
#[derive(Default)]
struct FollowerLink {
    refresh: Notify,
    /// Notified when this server created or deleted zones.
    relist: Notify,
    withheld: WithheldZones,
    reported: ReportedVersions,
    faults: ZoneFaultLog,
}

impl Databases {
    /// Requests that the zone lists are read again.
    pub fn request_refresh(&self) {
        self.list
            .iter()
            .for_each(|one| one.link.refresh.notify_one());
    }

    /// Closes them, at shutdown. May block.
    pub fn close(&self) {
        self.followers.end();
        for one in &self.list {
            if let Err(error) = one.backend.close() {
                let address = &one.backend.options().address;
                tracing::warn!("{address}: cannot truncate the write-ahead log: {error}");
            }
        }
    }

    /// Returns the zones of all databases that are not answered as they should be.
    pub fn zone_faults(&self) -> DatabaseZoneFaults {
        let mut all = DatabaseZoneFaults::default();
        for one in &self.list {
            one.link.faults.add_to(&mut all);
        }
        all
    }

    /// Returns the one with this rank.
    pub fn find(&self, rank: u16) -> Option<&FollowedDatabase> {
        self.list.iter().find(|database| database.rank == rank)
    }

    /// Returns all of them, in configuration order.
    pub fn all(&self) -> &[FollowedDatabase] {
        &self.list
    }
}

impl FollowedDatabase {
    /// Waits until a change that this server made in a zone is in its answers.
    pub fn follow(&self, runtime: &Handle, committed: &Committed) -> Result<(), PublishError> {
        let followed = self.hand_over(runtime, |done| own_change(committed, done))?;
        runtime.block_on(await_followed(followed))
    }

    /// Reads how far zones are: their serials and checks. Blocks until the database has answered.
    pub fn zone_progress(
        &self,
        runtime: &Handle,
        list: ZoneProgressList<'_>,
    ) -> Result<Vec<ZoneProgress>, WriteError> {
        runtime.block_on(self.backend.standing(list))
    }

    /// Requests that the zone list is read again.
    pub fn request_list(&self) {
        self.link.relist.notify_one();
    }

    /// Makes a zone answer SERVFAIL although the database has it, or answer again; returns whether that is new. It
    /// takes effect when the zone is read again.
    pub fn withhold(&self, zone: Name<'_>, is_withheld: bool) -> bool {
        self.link.withheld.set(zone, is_withheld)
    }

    /// Reads a zone again, and waits for that.
    pub fn read_again(&self, runtime: &Handle, zone: i64) -> Result<(), PublishError> {
        let followed = self.hand_over(runtime, |done| OwnChange {
            zone,
            difference: None,
            mark: None,
            is_gone: false,
            author: None,
            done,
        })?;
        runtime.block_on(await_followed(followed))
    }

    /// Waits until changes that this server made, in slice order, are in its answers; each has its own result.
    pub fn follow_all(
        &self,
        commits: &Commits,
        runtime: &Handle,
        committed: &[&Committed],
    ) -> Vec<Result<(), PublishError>> {
        // All are passed on before any is waited for: those of a resident zone share a write to the journal.
        let handed = committed.iter().map(|one| {
            if self.outdate(commits, one) {
                Ok(None)
            } else {
                let handed = self.hand_over(runtime, |done| own_change(one, done));
                handed.map(Some)
            }
        });
        let handed: Vec<Result<Option<Followed>, PublishError>> = handed.collect();
        let wait = |followed: Option<Followed>| match followed {
            Some(followed) => runtime.block_on(await_followed(followed)),
            None => Ok(()),
        };
        handed.into_iter().map(|one| one.and_then(wait)).collect()
    }

    /// Invalidates everything cached of a live zone, without the follower: nothing of it is in memory. False if not
    /// only records changed, or the zone is in memory.
    fn outdate(&self, commits: &Commits, committed: &Committed) -> bool {
        if self.served_from != ServedFrom::Lookups || committed.difference.is_none() {
            return false;
        }
        let name = committed.apex.as_name();
        let version = commits.table().version(name, self.rank);
        let live = version.as_ref().and_then(|zone| zone.live());
        let Some(live) = live.filter(|live| live.id() == committed.zone) else {
            return false;
        };
        live.advance();
        if committed.mark.is_some() {
            self.backend.note_followed(committed.zone);
        }
        if let Some(CommitMark::Versions { after, .. }) = committed.mark {
            self.link.reported.note(committed.zone, after);
        }
        let change = LiveChange {
            serial: committed.has_soa.then_some(committed.serial.0),
            author: committed.author.clone(),
            origin: Some(JournalOrigin::Change),
        };
        commits.report_live_change(name, change);
        true
    }

    /// Passes a change to the follower, which reports when it is in the answers.
    fn hand_over(
        &self,
        runtime: &Handle,
        change: impl FnOnce(oneshot::Sender<Result<(), SqlError>>) -> OwnChange,
    ) -> Result<Followed, PublishError> {
        let (done, followed) = oneshot::channel();
        let sent = match self.own.try_send(change(done)) {
            Err(mpsc::error::TrySendError::Full(change)) => {
                runtime.block_on(self.own.send(change)).is_ok()
            }
            sent => sent.is_ok(),
        };
        sent.then_some(followed).ok_or(PublishError::FollowerEnded)
    }
}

/// A change that is in the database, but not in this server's answers.
#[allow(missing_docs)] // the messages describe the errors
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("the database follower has stopped")]
    FollowerEnded,
    #[error("reading the zone timed out")]
    Timeout,
    /// The database could not be read.
    #[error("{0}")]
    Database(String),
}

/// Gets the result when a change is in the answers.
type Followed = oneshot::Receiver<Result<(), SqlError>>;

fn own_change(committed: &Committed, done: oneshot::Sender<Result<(), SqlError>>) -> OwnChange {
    OwnChange {
        zone: committed.zone,
        difference: committed.difference.clone(),
        mark: committed.mark,
        is_gone: committed.is_gone,
        author: committed.author.clone(),
        done,
    }
}

async fn await_followed(followed: Followed) -> Result<(), PublishError> {
    match timeout(OWN_CHANGE_TIMEOUT, followed).await {
        Ok(Ok(result)) => result.map_err(|error| PublishError::Database(error.to_string())),
        Ok(Err(_)) => Err(PublishError::FollowerEnded),
        Err(_) => Err(PublishError::Timeout),
    }
}

/// Starts to follow databases. Call within the runtime. Each receiver gets a message when its database was first
/// queried for its zones, whether it answered or not.
pub fn start(
    commits: &Arc<Commits>,
    sources: Vec<DatabaseSource>,
    settings: &FollowSettings<'_>,
) -> std::io::Result<(Databases, Vec<oneshot::Receiver<()>>)> {
    let mut all = Databases::default();
    let mut queried = Vec::new();
    let first_read = FirstRead::new(commits, sources.len());
    for source in sources {
        unknown::begin(commits.table(), source.rank);
        let name = format!("database-{}", source.rank);
        let (mut follower, database, first_queried) =
            DatabaseFollower::new(commits, source, settings, Arc::clone(&first_read));
        all.list.push(database);
        let (runtime, mut stopped) = (Handle::current(), all.followers.stop.subscribe());
        // A thread of its own: reading many zones would keep others of the runtime waiting.
        let run = move || follow_to_the_end(&mut follower, &runtime, &mut stopped);
        let thread = worker::start(name, run)?;
        all.followers.threads.lock().push(thread);
        queried.push(first_queried);
    }
    Ok((all, queried))
}

/// Runs a follower until the watch on its database ends, or it is stopped. A panic is a bug and must not leave zones
/// outdated forever: the follower starts over and reads everything.
fn follow_to_the_end(
    follower: &mut DatabaseFollower,
    runtime: &Handle,
    stopped: &mut watch::Receiver<bool>,
) {
    loop {
        let following = async {
            tokio::select! {
                () = follower.run() => {}
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
            }
        };
        if panic_guard("following a database", || runtime.block_on(following)) {
            return;
        }
        // A panic leaves the list of zones and their contents half done: both are read again.
        follower.restart();
    }
}
