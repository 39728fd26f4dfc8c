//! The only path by which a zone in memory changes.
//!
//! ```text
//! validate   the change becomes a difference and a new version; violations of zone rules are refused
//! durable    the difference goes to the journal, unless the zone is stored elsewhere and there already
//! publish    the new version replaces the old one in the table: the next query sees it
//! notify     the waiting caller, and the NOTIFY sender
//! ```
//! Changes of one zone follow each other without waiting for the disk: each is made on top of the last one passed to
//! the journal, and they are published in that order as they become durable. So many clients of one zone share a disk
//! write. If one cannot be written, those on top of it fail too, because the journal rejects a gap, and the zone
//! continues from the published version. Nothing is ever read again.

mod background;
mod conflicts;
mod load;
mod memory;
pub(crate) mod outcome;
mod pending;
mod storage;

use crate::change_feed::LiveChange;
use crate::contents::contents_of;
use crate::merge::Rebased;
use crate::soa_times::SoaTimes;
use crate::table::{TableWriter, lower_case};
use background::{BackgroundTask, TaskRequest};
use conflicts::ConflictLog;
pub(crate) use conflicts::ConflictSide;
pub use conflicts::FileConflicts;
use nameward_base::sync::Mutex;
use nameward_base::time::now_seconds;
use nameward_base::worker::QueueOwner;
pub use nameward_state::{Durable, WrittenDone};
use nameward_state::{StateChange, StateError, StateStore, Written, ZoneStorage};
use nameward_wire::{Name, NameBuf};
use nameward_zone::change::{
    ChangeError, ConditionalChange, Difference, RecordsAt as _, UnsignedRecords, ZoneChange,
};
use nameward_zone::{RecordList, Serial, Zone};
pub use outcome::{CommitError, CommittedVersion, VersionSource};
use pending::{Gate, InProgress, PendingCommit};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Called with the result of a commit.
type Done = Box<dyn FnOnce(Result<CommittedVersion, CommitError>) + Send>;

/// Is informed of every change of a zone.
pub trait CommitListener: Send + Sync {
    /// Called with each version after it is published.
    fn committed(&self, version: &CommittedVersion);

    /// Called with each live zone that changed in its database: there is no new version here.
    fn live_zone_changed(&self, _: Name<'_>) {}
}

/// Ignores all changes.
impl CommitListener for () {
    fn committed(&self, _: &CommittedVersion) {}
}

impl<F: Fn(&CommittedVersion) + Send + Sync> CommitListener for F {
    fn committed(&self, version: &CommittedVersion) {
        self(version);
    }
}

type ZoneKey = (Box<[u8]>, u16);

/// The commits of all zones.
pub struct Commits {
    table: Arc<TableWriter>,
    durable: Option<Arc<dyn Durable>>,
    zones: Mutex<HashMap<ZoneKey, Arc<Mutex<InProgress>>>>,
    listener: Box<dyn CommitListener>,
    background: QueueOwner<TaskRequest>,
    gate: Arc<Gate>,
    conflicts: ConflictLog,
}

impl Commits {
    /// Commits to a table, durably if there is a state store.
    pub fn new(
        table: Arc<TableWriter>,
        durable: Option<Arc<dyn Durable>>,
        listener: impl CommitListener + 'static,
    ) -> std::io::Result<Arc<Self>> {
        let requests = background::queue();
        let commits = Arc::new(Commits {
            table,
            durable,
            zones: Mutex::default(),
            listener: Box::new(listener),
            background: QueueOwner::new(&requests),
            gate: Arc::default(),
            conflicts: ConflictLog::default(),
        });
        background::start(requests, &commits)?;
        Ok(commits)
    }

    /// Reports that a live zone has changed in its database.
    pub fn report_live_change(&self, zone: Name<'_>, change: LiveChange) {
        self.listener.live_zone_changed(zone);
        self.table.feed().record_live(zone, change);
    }

    /// Returns the table that versions are published in.
    pub fn table(&self) -> &Arc<TableWriter> {
        &self.table
    }

    /// Returns the state store, if there is one.
    pub fn store(&self) -> Option<&StateStore> {
        self.durable.as_ref().map(|durable| durable.store())
    }

    /// Writes to the state store, if there is one, without waiting; failures are logged.
    pub fn write_state(&self, zone: NameBuf, changes: Vec<StateChange>) {
        let Some(durable) = &self.durable else {
            return;
        };
        let done = move |result: Result<Written, StateError>| {
            if let Err(error) = result {
                tracing::error!("zone {zone}: cannot write its state: {error}");
            }
        };
        durable.submit(changes, Box::new(done));
    }

    /// Makes a requested change, and calls `done` when it is durable and published, or refused.
    pub fn change(
        self: &Arc<Self>,
        source: VersionSource,
        change: &ZoneChange,
        done: impl FnOnce(Result<CommittedVersion, CommitError>) + Send + 'static,
    ) {
        let make = |tip: &Arc<Zone>, _: Option<&Arc<Zone>>| changed(tip, change);
        self.advance(source, None, make, Box::new(done));
    }

    /// Makes a change that depends on the zone's contents, like [`Commits::change`].
    pub fn conditional(
        self: &Arc<Self>,
        mut source: VersionSource,
        change: &dyn ConditionalChange,
        done: impl FnOnce(Result<CommittedVersion, CommitError>) + Send + 'static,
    ) {
        source.author = change.author().or(source.author);
        let table = self.table.load();
        let served = table.offered_by(source.zone.as_name(), source.rank);
        let make = |tip: &Arc<Zone>, _: Option<&Arc<Zone>>| {
            let records = UnsignedRecords {
                records: tip,
                signed_by: served.map_or_else(|| tip.signed_by(), |served| served.signed_by()),
            };
            changed(tip, &change.decide(&records)?)
        };
        self.advance(source, None, make, Box::new(done));
    }

    /// Applies a known difference, as from a database or an IXFR.
    pub fn difference(
        self: &Arc<Self>,
        source: VersionSource,
        difference: Difference,
        done: impl FnOnce(Result<CommittedVersion, CommitError>) + Send + 'static,
    ) {
        let make = |tip: &Arc<Zone>, _: Option<&Arc<Zone>>| {
            if let Some((from, _)) = difference.serials()
                && from != tip.serial()
            {
                let have = tip.serial();
                return Err(CommitError::Stale { have, from });
            }
            let zone = tip.apply(&difference)?;
            Ok(NewVersion::new(difference, Some(Arc::new(zone))))
        };
        self.advance(source, None, make, Box::new(done));
    }

    /// Replaces the version of the source by a whole new one, as after a file was read again. `contents` has its records
    /// in the format of the state store, if they are listed already.
    pub fn version(
        self: &Arc<Self>,
        source: VersionSource,
        mut zone: Zone,
        contents: Option<Vec<RecordList>>,
        done: impl FnOnce(Result<CommittedVersion, CommitError>) + Send + 'static,
    ) {
        zone.set_rank(source.rank);
        self.shared_version(source, Arc::new(zone), contents, Box::new(done));
    }

    /// Returns the zone under its own lock, so that work on a large one does not delay others.
    fn zone(&self, zone: Name<'_>, rank: u16) -> Arc<Mutex<InProgress>> {
        let mut zones = self.zones.lock();
        Arc::clone(zones.entry((lower_case(zone), rank)).or_default())
    }

    /// Makes the next version of a zone on top of the last one, and completes it.
    fn advance(
        self: &Arc<Self>,
        source: VersionSource,
        contents: Option<Vec<RecordList>>,
        make: impl FnOnce(&Arc<Zone>, Option<&Arc<Zone>>) -> Result<NewVersion, CommitError>,
        done: Done,
    ) {
        // Before the lock: the thread that drains the queue needs it.
        self.gate.enter();
        let gate = Arc::clone(&self.gate);
        let done: Done = Box::new(move |result| {
            gate.leave();
            done(result);
        });
        let place = self.zone(source.zone.as_name(), source.rank);
        let mut under_way = place.lock();
        let last = self.last(&under_way, source.zone.as_name(), source.rank);
        let made = last.ok_or(CommitError::NoSuchZone).and_then(|tip| {
            let made = make(&tip, under_way.file_version.as_ref())?;
            let (difference, zone) = (&made.difference, made.zone.as_deref());
            let mut changes = match &made.rebased {
                Some(rebased) => vec![rebased.journal(difference)],
                None => self.durably(&source, &tip, difference, zone, contents)?,
            };
            if let (Some(now), Some(zone)) = (source.confirmed, &made.zone) {
                let timers = SoaTimes::from_zone(zone).confirmed(now, Duration::ZERO);
                let zone = source.zone;
                changes.push(StateChange::SetTimers { zone, timers });
            }
            Ok((tip, made, changes))
        });
        let (tip, made, changes) = match made {
            Ok(made) => made,
            Err(error) => {
                drop(under_way);
                return done(Err(error));
            }
        };
        // A version that contains more than its file is durable before it is served.
        let is_storage_first = source.is_storage_first() && made.rebased.is_none();
        let file_version_before = under_way.file_version.clone();
        under_way.note_file_version(&source, &tip, &made);
        let NewVersion {
            difference, zone, ..
        } = made;
        let is_packed = zone.as_ref().is_some_and(|zone| zone.is_packed());
        under_way.note(&difference, is_packed);
        self.want_digest(&source, &mut under_way, &changes);
        let is_first = tip.is_stub() && zone.is_some();
        let zone = zone.unwrap_or(tip);
        let committed = CommittedVersion {
            zone,
            difference: Arc::new(difference),
            is_first,
            origin: source.origin,
            author: source.author.clone(),
        };
        // A version that its storage already has is served at once, unless older versions are still pending.
        let is_published = is_storage_first && under_way.count == 0;
        if is_published {
            self.publish(&committed);
        }
        let Some(durable) = self
            .durable
            .as_ref()
            .filter(|_| !(changes.is_empty() && under_way.count == 0))
        else {
            drop(under_way);
            let result = is_published || self.publish(&committed);
            return done(result.then_some(committed).ok_or(CommitError::NoSuchZone));
        };
        under_way.tip = Some(Arc::clone(&committed.zone));
        under_way.count += 1;
        let pending = PendingCommit {
            source,
            committed,
            place: Arc::clone(&place),
            is_storage_first,
            is_published,
            file_version_before,
            done,
        };
        let commits = Arc::clone(self);
        // Under the lock, so that the journal gets the versions in order.
        durable.submit(
            changes,
            Box::new(move |written| commits.finish(pending, written)),
        );
    }

    /// Returns the version that the next one is based on.
    fn last(&self, under_way: &InProgress, zone: Name<'_>, rank: u16) -> Option<Arc<Zone>> {
        let published = || self.table.version(zone, rank);
        under_way.tip.clone().or_else(published)
    }

    /// Returns the state changes that make a new version durable.
    fn durably(
        &self,
        source: &VersionSource,
        tip: &Zone,
        difference: &Difference,
        zone: Option<&Zone>,
        contents: Option<Vec<RecordList>>,
    ) -> Result<Vec<StateChange>, CommitError> {
        let Some(zone) = zone else {
            return Ok(Vec::new());
        };
        if self.durable.is_none() {
            return if source.is_storage_first() {
                Ok(Vec::new())
            } else {
                Err(CommitError::NoStore(source.zone.to_string()))
            };
        }
        let serial = zone.serial();
        let name = source.zone;
        let is_forward = serial.is_after(tip.serial()) && difference.serials().is_some();
        // A forced transfer may lead back: no journal leads there.
        let is_forced = contents.is_some() && !is_forward && !difference.is_empty();
        let is_whole = tip.is_stub() || is_rewrite(difference, zone) || is_forced;
        if source.storage == ZoneStorage::Store && is_whole {
            let parts = Arc::new(contents.unwrap_or_else(|| contents_of(zone)));
            return Ok(vec![StateChange::SetContents {
                zone: name,
                serial,
                parts,
            }]);
        }
        if difference.is_empty() {
            return Ok(Vec::new());
        }
        if !is_forward && !source.is_storage_first() {
            return Err(CommitError::Invalid(ChangeError::Invalid {
                owner: name.to_string(),
                what: format!("serial {serial} is not greater than {}", tip.serial()),
            }));
        }
        let storage = source.storage;
        let restart = StateChange::RestartJournal {
            zone: name,
            storage,
            serial,
        };
        if !is_forward {
            let before = tip.serial();
            tracing::warn!(
                "zone {name}: changed, but serial {serial} is not greater than {before}: secondaries will not transfer \
                 it"
            );
            return Ok(vec![restart]);
        }
        Ok(vec![StateChange::Append {
            zone: name,
            storage,
            origin: source.origin,
            difference: Arc::new(difference.clone()),
            time: now_seconds(),
            author: source.author.clone(),
        }])
    }

    /// Finishes a commit when it is on disk, or was rejected.
    fn finish(self: Arc<Self>, pending: PendingCommit, written: Result<Written, StateError>) {
        let PendingCommit {
            source, committed, ..
        } = pending;
        let stored = match written {
            Ok(written) => {
                if !written.overfull.is_empty() {
                    self.relieve_journal(&source);
                }
                Ok(())
            }
            Err(error) if !pending.is_storage_first => Err(error.into()),
            // The storage has it, so it is served; only the history is lost.
            Err(error) => {
                self.restart_journal(&source, committed.zone.serial(), &error);
                Ok(())
            }
        };
        let result = stored.and_then(|()| {
            if pending.is_published || self.publish(&committed) {
                Ok(committed)
            } else {
                Err(CommitError::NoSuchZone)
            }
        });
        let mut under_way = pending.place.lock();
        under_way.count -= 1;
        if under_way.count == 0 || result.is_err() {
            under_way.tip = None;
        }
        if result.is_err() {
            under_way.file_version = pending.file_version_before;
        }
        drop(under_way);
        // The callback may end the server.
        drop(self);
        (pending.done)(result);
    }

    fn restart_journal(&self, source: &VersionSource, serial: Serial, error: &StateError) {
        let (zone, storage) = (source.zone, source.storage);
        match error {
            // It was changed unobserved by this server, as while it was down.
            StateError::Gap { .. } => tracing::debug!("zone {zone}: journal restarted: {error}"),
            _ => tracing::error!("zone {zone}: cannot write the change to the journal: {error}"),
        }
        let restart = StateChange::RestartJournal {
            zone,
            storage,
            serial,
        };
        self.write_state(zone, vec![restart]);
        let digest = BackgroundTask::Digest;
        let is_requested = self.request(zone, source.rank, digest);
        self.zone(zone.as_name(), source.rank).lock().has_digest = is_requested;
    }

    /// Reports a published version, and those served over it, to the listener and in the feed.
    fn report(&self, committed: &CommittedVersion) {
        self.listener.committed(committed);
        self.table.feed().record_commit(committed);
        // A version that is served over this one has changed with it.
        for version in self.table.layers_over(committed.zone.id()) {
            if let Some(zone) = self.table.load().exact(version.as_name()) {
                self.listener.committed(&CommittedVersion {
                    zone: Arc::clone(zone),
                    difference: Arc::default(),
                    is_first: false,
                    ..committed.clone()
                });
            }
        }
    }

    fn publish(&self, committed: &CommittedVersion) -> bool {
        let is_there = self.table.replace(Arc::clone(&committed.zone));
        if is_there && (committed.is_first || !committed.difference.is_empty()) {
            self.report(committed);
        }
        if committed.zone.is_worth_packing() {
            let (zone, rank) = (NameBuf::from(committed.zone.id()), committed.zone.rank());
            self.request(zone, rank, BackgroundTask::Pack);
        }
        is_there
    }
}

/// A new version being committed.
struct NewVersion {
    difference: Difference,
    /// `None` if the zone already has this state.
    zone: Option<Arc<Zone>>,
    /// The version of the zone's file and what it lacks, if it was edited while it lacked changes.
    rebased: Option<Rebased>,
}

impl NewVersion {
    fn new(difference: Difference, zone: Option<Arc<Zone>>) -> Self {
        NewVersion {
            difference,
            zone,
            rebased: None,
        }
    }
}

/// Applies a change to a version; there is no new version if it changes nothing.
fn changed(tip: &Arc<Zone>, change: &ZoneChange) -> Result<NewVersion, CommitError> {
    let difference = tip.difference_of(change)?;
    let zone = if difference.is_empty() {
        None
    } else {
        Some(Arc::new(tip.apply(&difference)?))
    };
    Ok(NewVersion::new(difference, zone))
}

/// Checks whether writing the whole zone costs no more than writing the difference.
fn is_rewrite(difference: &Difference, zone: &Zone) -> bool {
    difference.octets() > zone.heap_bytes() / 2
}
