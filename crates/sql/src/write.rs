//! Changes to database zones: validated, written in one transaction on the primary, announced to all servers.
//!
//! This is the only path by which Nameward changes a database zone. A [`ZoneChange`] is a list of steps; all or none of
//! them take effect. Changes to one zone wait for each other: through a lock on its `domains` row, in SQLite through
//! the file lock, so that none is lost and none fails because of another. If several nodes of a cluster accept writes,
//! a change that conflicts with one on another node is retried ([`retry`]). PowerDNS may use the database at the same
//! time; the columns it derives from names are kept correct ([`derive`]). The serial is increased unless the change
//! sets the SOA.

mod attributes;
mod autoprimaries;
mod check;
mod comments;
mod commit;
mod content;
mod current;
mod derive;
mod edit;
mod error;
mod group;
mod health_results;
mod history;
mod insert;
mod key_refusal;
mod key_step;
mod keys;
mod leases;
mod local_changes;
mod members;
mod overview;
mod patch;
mod rectify;
mod replace_zone;
mod replica;
mod request;
mod retry;
mod rows;
mod search;
mod serial;
mod session;
mod tsig;
mod work;
mod writer;
mod zone_copy;
mod zone_row;
mod zones;

use super::SqlFuture;
use super::{SqlBackend, SqlError, ZoneRow};
pub use attributes::{AttributeChange, MetadataEdit, NewComment, StoredMetadata};
pub use autoprimaries::AutoprimaryRow;
pub use comments::StoredComment;
use commit::LockedZone;
pub use content::{keeps_text, powerdns_text};
pub use current::{ZoneProgress, ZoneProgressList};
pub use error::{InvalidChange, ReadOnly, WriteError};
pub(super) use group::CommitQueue;
pub use health_results::{FleetResults, ForcedResult, OwnResults};
pub(super) use history::create as create_history;
pub use key_refusal::{KeyRefusal, STORED_KEYS_MAX};
pub use key_step::{KeyStep, ParentRecords};
pub use keys::{KeyEdit, StoredKey};
pub use leases::{LeaseHolder, LeaseRenewal, LeaseTask, SeenLeases};
pub use local_changes::CommitMark;
use local_changes::LoggedTransaction;
pub(super) use local_changes::OwnCommits;
pub use members::{CatalogMembers, MembersWritten, StoredMember};
use nameward_wire::NameBuf;
use nameward_zone::change::{ChangeAuthor, ConditionalChange, Difference, ZoneChange};
use nameward_zone::{Serial, Zone};
pub use overview::{EachOverview, ZoneOverview};
pub use request::KEY_SERVER;
use request::RequestedChange;
use retry::ConflictRetries;
use session::{Failure, Session};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;
pub use tsig::{TSIG_SECRET_MAX, TsigEdit};
pub(super) use writer::Writer;
pub use zone_copy::{CopyOrder, ZoneCopy};
pub use zones::{MASTER_MAX, NewZone, StoredRecord};

/// How often a change is retried on another connection or server after a failure.
const MOVES_MAX: usize = 3;

/// A change that is in the database.
#[derive(Debug, Clone)]
pub struct Committed {
    /// `domains.id`.
    pub zone: i64,
    /// The zone name.
    pub apex: NameBuf,
    /// False if the change had no effect: nothing was written.
    pub is_changed: bool,
    /// The zone was deleted.
    pub is_gone: bool,
    /// The zone has a SOA.
    pub has_soa: bool,
    /// The serial after the change.
    pub serial: Serial,
    /// The serial before a change of records; `None` if there was no SOA.
    pub previous: Option<Serial>,
    /// The records removed and added, as they are served. `None` if the rows read by the change do not show it: names
    /// with unreadable rows, a zone that was created or deleted.
    pub difference: Option<Difference>,
    /// Identifies its notification, if it has a difference and can be told apart from changes by others.
    pub mark: Option<CommitMark>,
    /// Warnings for the requester.
    pub warnings: Vec<String>,
    /// The author and the reason, if known.
    pub author: Option<Arc<ChangeAuthor>>,
}

impl Committed {
    /// Returns a change that does not affect records: nothing is known about the zone's SOA.
    fn without_records((zone, apex): (i64, NameBuf), is_changed: bool) -> Self {
        Committed {
            zone,
            apex,
            is_changed,
            is_gone: false,
            has_soa: false,
            serial: Serial::default(),
            previous: None,
            difference: None,
            mark: None,
            warnings: Vec::new(),
            author: None,
        }
    }
}

/// When a transferred version replaces the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// If its serial is newer.
    IfNewer,
    /// Whatever its serial is.
    Always,
}

/// The work of one transaction.
enum Task<'t> {
    Change(i64, &'t ZoneChange),
    /// Changes that depend on the contents of their zones, each with its own result.
    Group(&'t [(NameBuf, &'t dyn ConditionalChange)]),
    /// Like a group, but everything is rolled back: the results show what would happen.
    Trial(&'t [(NameBuf, &'t dyn ConditionalChange)]),
    /// A change of records and of attributes of one zone.
    Patch(
        &'t NameBuf,
        &'t dyn ConditionalChange,
        &'t [AttributeChange],
    ),
    /// A complete version of a secondary zone.
    Replace(i64, &'t Zone, Replacement),
    Create(&'t NewZone),
    /// Deletes a zone, after keeping a copy of it if requested.
    Delete(i64, Option<CopyOrder<'t>>),
    /// Restores a zone from its copy.
    Restore(&'t NameBuf, &'t [u8]),
    /// Changes to zone data other than records.
    Attributes(i64, &'t [AttributeChange]),
    /// A step for keys managed by a policy.
    Keys(i64, &'t KeyStep),
    /// A key that belongs to no zone.
    Tsig(&'t TsigEdit),
    /// The members of consumed catalogs.
    Members(&'t [CatalogMembers]),
}

/// A transaction that results in one commit.
pub type CommitFuture<'a> = SqlFuture<'a, Result<Committed, WriteError>>;

impl SqlBackend {
    /// Commits a change. When this returns, it is durable, and no data cached by this backend is older; caches of
    /// answers are up to the caller.
    pub fn commit<'a>(&'a self, zone: i64, change: &'a ZoneChange) -> CommitFuture<'a> {
        self.commit_task(Task::Change(zone, change))
    }

    /// Commits changes to zones in one transaction, in order. Each has its own result: a refused change does not affect
    /// the others. If the database itself refuses, each is retried separately.
    pub fn commit_group<'a>(
        &'a self,
        changes: &'a [(NameBuf, &'a dyn ConditionalChange)],
    ) -> SqlFuture<'a, Vec<Result<Committed, WriteError>>> {
        Box::pin(async move {
            let mut results = self.commit_all(changes).await;
            for (result, (_, change)) in results.iter_mut().zip(changes) {
                if let Ok(committed) = result {
                    committed.author = change.author();
                }
            }
            results
        })
    }

    async fn commit_all(
        &self,
        changes: &[(NameBuf, &dyn ConditionalChange)],
    ) -> Vec<Result<Committed, WriteError>> {
        let failed = match self.transact(&Task::Group(changes)).await {
            Ok(results) => return results,
            Err(error) if changes.len() == 1 => return vec![Err(error)],
            Err(error) => error,
        };
        // It is unknown which of them were written: retrying could make a change twice.
        if let WriteError::Unknown(error) = &failed {
            let unknown = |_| Err(WriteError::Unknown(error.clone()));
            return changes.iter().map(unknown).collect();
        }
        let mut results = Vec::with_capacity(changes.len());
        for alone in changes.chunks(1) {
            let result = self.transact_one(&Task::Group(alone)).await;
            results.push(result);
        }
        results
    }

    /// Returns what a change would do: it is made in a transaction that is rolled back, so that everything is checked
    /// and nothing is kept.
    pub fn try_change<'a>(
        &'a self,
        zone: NameBuf,
        change: &'a dyn ConditionalChange,
    ) -> CommitFuture<'a> {
        Box::pin(async move { self.transact_one(&Task::Trial(&[(zone, change)])).await })
    }

    /// Replaces all data of a secondary zone with a complete version from a primary, unless the zone already has that
    /// serial or a newer one.
    pub fn replace_zone<'a>(&'a self, zone: i64, version: &'a Zone) -> CommitFuture<'a> {
        self.commit_task(Task::Replace(zone, version, Replacement::IfNewer))
    }

    /// Like [`Self::replace_zone`], whatever serial is stored: requested by an operator.
    pub fn force_zone<'a>(&'a self, zone: i64, version: &'a Zone) -> CommitFuture<'a> {
        self.commit_task(Task::Replace(zone, version, Replacement::Always))
    }

    /// Creates a zone with its first records.
    pub fn create_zone<'a>(&'a self, zone: &'a NewZone) -> CommitFuture<'a> {
        self.commit_task(Task::Create(zone))
    }

    /// Deletes a zone with its records, comments, metadata and keys, after keeping a copy of all these if requested.
    pub fn delete_zone<'a>(&'a self, zone: i64, copy: Option<CopyOrder<'a>>) -> CommitFuture<'a> {
        self.commit_task(Task::Delete(zone, copy))
    }

    /// Restores a zone with everything in its copy, unless a zone of this name exists.
    pub fn restore_zone<'a>(&'a self, name: &'a NameBuf, copy: &'a [u8]) -> CommitFuture<'a> {
        self.commit_task(Task::Restore(name, copy))
    }

    /// Records that the follower of this database has received a commit with a [`CommitMark`].
    pub fn note_followed(&self, zone: i64) {
        self.inner.own_commits.follow(zone);
    }

    /// Counts the commits of a zone with a [`CommitMark`] that the follower has not received yet.
    pub fn unfollowed_commits(&self, zone: i64) -> usize {
        self.inner.own_commits.unfollowed(zone)
    }

    /// Gives up on the commits of a zone that the follower did not receive in time.
    pub fn abandon_commits(&self, zone: i64) {
        self.inner.own_commits.abandon(zone);
    }

    fn commit_task<'a>(&'a self, task: Task<'a>) -> CommitFuture<'a> {
        Box::pin(async move { self.transact_one(&task).await })
    }

    async fn transact_one(&self, task: &Task<'_>) -> Result<Committed, WriteError> {
        let results = self.transact(task).await?;
        let only = results.into_iter().next();
        only.unwrap_or(Err(WriteError::NoSuchZone))
    }

    /// Runs a task in one transaction. An error means that nothing was written.
    async fn transact(
        &self,
        task: &Task<'_>,
    ) -> Result<Vec<Result<Committed, WriteError>>, WriteError> {
        self.transact_with(task, &mut MembersWritten::default())
            .await
    }

    /// Runs a task in one transaction, and records the outcome for catalog members.
    async fn transact_with(
        &self,
        task: &Task<'_>,
        members: &mut MembersWritten,
    ) -> Result<Vec<Result<Committed, WriteError>>, WriteError> {
        let writer = &self.inner.writer;
        // It is never closed.
        let _seat = writer.seats.acquire().await;
        let primary = &self.inner.primary;
        let (mut retries, mut moves) = (ConflictRetries::default(), 0);
        loop {
            let mut session = self.changer().await?;
            match attempt(&mut session, task, &self.inner.own_commits, members).await {
                Ok(results) => {
                    writer.give_back(session);
                    for committed in results.iter().flatten() {
                        self.forget(Some(committed.zone));
                    }
                    return Ok(results);
                }
                Err(WriteError::Conflict(text)) => {
                    if session.rollback().await.is_ok() {
                        writer.give_back(session);
                    }
                    match retries.next_pause(Instant::now()) {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(WriteError::Conflict(text)),
                    }
                }
                // Nothing was written. The session may have been idle while the database restarted, or its server may
                // have become a replica or left its cluster.
                Err(WriteError::Sql(SqlError::Unavailable(_) | SqlError::ReadOnly(_)))
                    if moves < MOVES_MAX =>
                {
                    moves += 1;
                    writer.leave(session, primary);
                }
                Err(WriteError::Unknown(error)) => {
                    writer.leave(session, primary);
                    self.forget(None);
                    return Err(WriteError::Unknown(error));
                }
                Err(WriteError::Sql(error)) if error.is_of_server() => {
                    writer.leave(session, primary);
                    return Err(WriteError::Sql(error));
                }
                Err(error) => {
                    if session.rollback().await.is_ok() {
                        writer.give_back(session);
                    }
                    return Err(error);
                }
            }
        }
    }
}

async fn attempt(
    session: &mut Session,
    task: &Task<'_>,
    own: &OwnCommits,
    members: &mut MembersWritten,
) -> Result<Vec<Result<Committed, WriteError>>, WriteError> {
    session.find_history().await?;
    session.begin().await?;
    let logged = if session.can_follow_log() {
        own.begin_logged()
    } else {
        None
    };
    session.is_logged = logged.is_some();
    let results = match task {
        Task::Change(zone, change) => {
            let row = commit::lock_zone(session, *zone).await?;
            let mut zone = LockedZone::from_row(session, row).await?;
            vec![Ok(history::change(
                session,
                &mut zone,
                RequestedChange::Change(change),
            )
            .await?)]
        }
        Task::Group(changes) => group(session, changes).await?,
        Task::Trial(changes) => {
            let results = group(session, changes).await?;
            session.rollback().await?;
            return Ok(results);
        }
        Task::Patch(zone, requested, changes) => {
            vec![Ok(patch::make(session, zone, *requested, changes).await?)]
        }
        Task::Replace(zone, version, replacement) => {
            let zone = commit::lock_zone(session, *zone).await?;
            let replaced = replace_zone::replace(session, &zone, version, *replacement).await?;
            vec![Ok(replaced)]
        }
        Task::Create(zone) => vec![Ok(zones::create(session, zone).await?)],
        Task::Delete(zone, copy) => vec![Ok(zones::delete(session, *zone, *copy).await?)],
        Task::Restore(name, copy) => vec![Ok(zone_copy::restore(session, name, copy).await?)],
        Task::Attributes(zone, changes) => {
            vec![Ok(attributes::change(session, *zone, changes).await?)]
        }
        Task::Keys(zone, step) => vec![Ok(key_step::take(session, *zone, step).await?)],
        Task::Tsig(edit) => vec![Ok(tsig::change(session, edit).await?)],
        Task::Members(catalogs) => {
            *members = members::write(session, catalogs).await?;
            Vec::new()
        }
    };
    // Without a change there is nothing but claims, which other servers would mistake for one.
    let is_changed = |result: &Result<Committed, WriteError>| {
        result.as_ref().is_ok_and(|committed| committed.is_changed)
    };
    if session.has_claims() && !results.is_empty() && !results.iter().any(is_changed) {
        session.rollback().await?;
        return Ok(results);
    }
    commit_marked(session, own, &results, logged).await?;
    Ok(results)
}

/// Commits the transaction of these results, so that its notification is recognised.
async fn commit_marked(
    session: &mut Session,
    own: &OwnCommits,
    results: &[Result<Committed, WriteError>],
    logged: Option<LoggedTransaction>,
) -> Result<(), WriteError> {
    // Before it ends: its notification may arrive before its result.
    let marked = results.iter().flatten();
    let marked = marked.filter_map(|committed| Some((committed.zone, committed.mark?)));
    let marked: Vec<_> = marked.collect();
    own.begin(&marked);
    // Whatever has no mark is followed by reading everything.
    let is_followed = |result: &Result<Committed, WriteError>| {
        result
            .as_ref()
            .is_ok_and(|committed| committed.mark.is_some() || !committed.is_changed)
    };
    if let Some(logged) = logged
        && !marked.is_empty()
        && results
            .iter()
            .all(|result| result.is_err() || is_followed(result))
    {
        own.announce_logged(logged, marked.iter().map(|(zone, _)| *zone).collect());
    }
    let ended = session.commit().await;
    if ended.is_err() {
        own.undo(&marked);
        own.fail_logged();
    } else {
        own.end_logged();
    }
    ended.map_err(|failure| match failure {
        Failure::Conflict(text) => WriteError::Conflict(text),
        Failure::Sql(
            error @ (SqlError::Unavailable(_) | SqlError::Timeout(_) | SqlError::Cancelled(_)),
        ) => WriteError::Unknown(error),
        Failure::Sql(error) => WriteError::Sql(error),
    })
}

/// Makes changes one after another. A refused change has written nothing, so the others continue.
async fn group(
    session: &mut Session,
    changes: &[(NameBuf, &dyn ConditionalChange)],
) -> Result<Vec<Result<Committed, WriteError>>, WriteError> {
    let mut results = Vec::with_capacity(changes.len());
    let mut locked: HashMap<NameBuf, LockedZone> = HashMap::new();
    for (name, requested) in changes {
        match conditional(session, &mut locked, *name, *requested).await {
            Err(
                error @ (WriteError::Sql(_) | WriteError::Conflict(_) | WriteError::Unknown(_)),
            ) => return Err(error),
            result => results.push(result),
        }
    }
    Ok(results)
}

/// Makes one change of a group. What is known about a zone stays valid until the end of the transaction.
async fn conditional(
    session: &mut Session,
    locked: &mut HashMap<NameBuf, LockedZone>,
    name: NameBuf,
    requested: &dyn ConditionalChange,
) -> Result<Committed, WriteError> {
    let zone = match locked.entry(name) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => {
            let row = commit::lock_named(session, name.as_name()).await?;
            unknown.insert(LockedZone::from_row(session, row).await?)
        }
    };
    history::change(session, zone, RequestedChange::When(requested)).await
}
