//! Copies of zone files in the state store: the last version of each without errors, for a start with a broken file.
//!
//! One thread writes them after zones were loaded. It compares digests first, so a start with unchanged files writes
//! nothing; it pauses as long as it works, writes small zones together and large ones in chunks, and no query or
//! change waits for it.

use crate::commit::Commits;
use crate::contents::{ContentsReader, each_part};
use crate::table::lower_case;
use nameward_base::worker::{self, Mailbox, panic_guard};
use nameward_state::{
    ContentsDigest, FileCopy, ListedFileCopy, StateChange, StateError, StateStore, ZoneStorage,
};
use nameward_wire::{Name, NameBuf};
use nameward_zone::Zone;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of zones remembered individually; for more, all zones are compared.
pub(super) const ZONES_MAX: usize = 10_000;
/// Octets and changes that are written together.
const TOGETHER_OCTETS: usize = 1 << 20;
const TOGETHER: usize = 256;
/// How long the thread works before it pauses for as long.
const WORK: Duration = Duration::from_millis(10);

/// Work of the copying thread.
#[derive(Default)]
struct PendingCopies {
    /// The ranks of all sources of files, in order; `None`: as before.
    ranks: Option<Vec<u16>>,
    /// Compare all zones.
    is_all: bool,
    /// Delete the copies of zones that no source has.
    prunes: bool,
    /// Zones to compare, by name in lower case.
    zones: HashSet<Box<[u8]>>,
    gone: Vec<NameBuf>,
}

/// The handle of the thread that writes copies, which ends with it.
pub(super) struct FileCopies {
    mailbox: Mailbox<PendingCopies>,
    octets_max: Arc<AtomicU64>,
}

impl FileCopies {
    /// Starts the thread, with a size limit for all copies in octets.
    pub(super) fn start(commits: &Arc<Commits>, octets_max: u64) -> std::io::Result<Option<Self>> {
        let Some(store) = commits.store().cloned() else {
            return Ok(None);
        };
        let (mailbox, octets_max) = (Mailbox::default(), Arc::new(AtomicU64::new(octets_max)));
        let copies = FileCopies {
            mailbox: Mailbox::clone(&mailbox),
            octets_max: Arc::clone(&octets_max),
        };
        let commits = Arc::downgrade(commits);
        let run = move || {
            let mut copied: Option<Copied> = None;
            let mut ranks = Vec::new();
            while let Some(mut work) = mailbox.wait(None) {
                ranks = work.ranks.take().unwrap_or(ranks);
                let Some(commits) = commits.upgrade() else {
                    return;
                };
                let mut is_done = false;
                panic_guard("copying zone files to the state store", || {
                    if copied.is_none() {
                        copied = Copied::read(&store);
                    }
                    if let Some(copied) = &mut copied {
                        copied.octets_max = octets_max.load(Ordering::Relaxed);
                        let mut writer = FileCopyWriter::new(&commits, &store, copied);
                        is_done = writer.write_or_log(work, &ranks);
                    }
                });
                if !is_done {
                    // The contents of the store must be read again.
                    copied = None;
                }
            }
        };
        worker::start("file-copies", run)?;
        Ok(Some(copies))
    }

    /// Requests a comparison of all zones of the sources; `prunes` deletes copies of zones that no source has.
    pub(super) fn compare_all(&self, mut ranks: Vec<u16>, prunes: bool) {
        ranks.sort_unstable();
        self.mailbox.put(|pending| {
            pending.ranks = Some(ranks);
            pending.is_all = true;
            pending.prunes = prunes;
        });
    }

    /// Requests a comparison of zones.
    pub(super) fn compare(&self, zones: &[NameBuf]) {
        if zones.is_empty() {
            return;
        }
        self.mailbox.put(|pending| {
            if pending.zones.len() + zones.len() > ZONES_MAX {
                pending.zones.clear();
                pending.is_all = true;
            } else {
                let keys = zones.iter().map(|zone| lower_case(zone.as_name()));
                pending.zones.extend(keys);
            }
        });
    }

    /// Deletes the copies of withdrawn zones.
    pub(super) fn forget(&self, zones: Vec<NameBuf>) {
        if !zones.is_empty() {
            self.mailbox.put(|pending| pending.gone.extend(zones));
        }
    }

    /// Sets the limit for all copies, effective with the next run.
    pub(super) fn set_octets_max(&self, octets: u64) {
        self.octets_max.store(octets, Ordering::Relaxed);
    }
}

impl Drop for FileCopies {
    fn drop(&mut self) {
        self.mailbox.stop();
    }
}

/// The copies in the state store.
struct Copied {
    zones: HashMap<Box<[u8]>, FileCopy>,
    octets: u64,
    octets_max: u64,
    is_full: bool,
}

impl Copied {
    fn read(store: &StateStore) -> Option<Self> {
        match store.file_copies() {
            Ok(copies) => {
                let octets = copies.iter().map(|(_, copy)| copy.octets).sum();
                let zones = copies
                    .into_iter()
                    .map(|(name, copy): ListedFileCopy| (name.into(), copy));
                Some(Copied {
                    zones: zones.collect(),
                    octets,
                    octets_max: 0,
                    is_full: false,
                })
            }
            Err(error) => {
                tracing::warn!("cannot store copies of zone files: {error}");
                None
            }
        }
    }
}

/// One run of the thread.
struct FileCopyWriter<'w> {
    commits: &'w Commits,
    store: &'w StateStore,
    copied: &'w mut Copied,
    changes: Vec<StateChange>,
    octets: usize,
    since: Instant,
}

impl<'w> FileCopyWriter<'w> {
    fn new(commits: &'w Commits, store: &'w StateStore, copied: &'w mut Copied) -> Self {
        FileCopyWriter {
            commits,
            store,
            copied,
            changes: Vec::new(),
            octets: 0,
            since: Instant::now(),
        }
    }

    /// Does some work; false if it was not finished.
    fn write_or_log(&mut self, work: PendingCopies, ranks: &[u16]) -> bool {
        match self.write(work, ranks) {
            Ok(()) => true,
            // The server is stopping.
            Err(StateError::Closed) => false,
            Err(error) => {
                tracing::warn!("cannot store copies of zone files: {error}");
                false
            }
        }
    }

    fn write(&mut self, work: PendingCopies, ranks: &[u16]) -> Result<(), StateError> {
        for zone in &work.gone {
            self.remove(zone.as_name())?;
        }
        let table = self.commits.table().load();
        // If two sources have a zone, the first one is served.
        let rank_of = |name: Name<'_>| {
            let mut ranks = ranks.iter().copied();
            ranks.find(|rank| table.offered_by(name, *rank).is_some())
        };
        for name in &work.zones {
            let name = Name::from_valid_wire(name);
            if let Some(rank) = rank_of(name) {
                self.compare(name, rank)?;
            }
        }
        if work.is_all {
            for zone in table.offered() {
                let (name, rank) = (zone.id(), zone.rank());
                if rank_of(name) == Some(rank) {
                    self.compare(name, rank)?;
                }
            }
        }
        if work.prunes {
            let names: Vec<Box<[u8]>> = self.copied.zones.keys().cloned().collect();
            for name in names {
                let name = Name::from_valid_wire(&name);
                if rank_of(name).is_none() {
                    self.remove(name)?;
                }
            }
        }
        self.flush()
    }

    /// Writes the version in a zone's file, unless the store has it.
    fn compare(&mut self, name: Name<'_>, rank: u16) -> Result<(), StateError> {
        self.rest();
        let Some(version) = self.commits.file_version(name, rank) else {
            return Ok(());
        };
        if version.is_stub() {
            return Ok(());
        }
        if self.copied.octets_max == 0 {
            return self.leave_out(name);
        }
        let digest = ContentsDigest::from_zone(&version);
        let before = self.copied.zones.get(&lower_case(name));
        if before.is_some_and(|copy| copy.digest == digest) {
            return Ok(());
        }
        let left = self.copied.octets_max + before.map_or(0, |copy| copy.octets);
        // Records take more space in memory than in a copy.
        let expected = version.heap_bytes() as u64 / 2;
        if self.copied.octets + expected > left {
            return self.leave_out(name);
        }
        self.copy(&version, digest)
    }

    /// Stores no copy of a zone, and drops an older one, which would move its serial back.
    fn leave_out(&mut self, name: Name<'_>) -> Result<(), StateError> {
        if !self.copied.is_full && self.copied.octets_max > 0 {
            tracing::warn!(
                "zone {name}: no copy of its file is stored: copies exceed journal.file_copies_max_mb; other zones may \
                 be affected too"
            );
            self.copied.is_full = true;
        }
        self.remove(name)
    }

    fn copy(&mut self, version: &Arc<Zone>, digest: ContentsDigest) -> Result<(), StateError> {
        let zone = NameBuf::from(version.id());
        let (mut octets, mut parts) = (0, 0);
        each_part(version, |records| {
            octets += records.as_bytes().len();
            self.octets += records.as_bytes().len();
            self.changes.push(StateChange::KeepFileCopyPart {
                zone,
                digest,
                part: parts,
                records: Arc::new(records),
            });
            parts += 1;
            self.rest();
            self.flush_full()
        })?;
        let copy = FileCopy {
            serial: version.serial(),
            digest,
            octets: octets as u64,
            parts,
        };
        self.changes.push(StateChange::KeepFileCopy {
            zone,
            copy: copy.clone(),
        });
        self.copied.octets += copy.octets;
        let before = self.copied.zones.insert(lower_case(zone.as_name()), copy);
        self.copied.octets -= before.map_or(0, |copy| copy.octets);
        self.flush_full()
    }

    fn remove(&mut self, name: Name<'_>) -> Result<(), StateError> {
        let Some(copy) = self.copied.zones.remove(&lower_case(name)) else {
            return Ok(());
        };
        self.copied.octets -= copy.octets;
        let zone = name.into();
        self.changes.push(StateChange::RemoveFileCopy { zone });
        self.flush_full()
    }

    fn flush_full(&mut self) -> Result<(), StateError> {
        if self.changes.len() >= TOGETHER || self.octets >= TOGETHER_OCTETS {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StateError> {
        self.octets = 0;
        let changes = std::mem::take(&mut self.changes);
        if !changes.is_empty() {
            self.store.write(changes)?;
        }
        Ok(())
    }

    /// Leaves half of the time to other threads.
    fn rest(&mut self) {
        let worked = self.since.elapsed();
        if worked >= WORK {
            thread::sleep(worked.min(Duration::from_secs(1)));
            self.since = Instant::now();
        }
    }
}

/// Returns the last version of a zone's file without errors, if the state store has it.
pub(in crate::follow) fn last_good(
    store: &StateStore,
    name: Name<'_>,
) -> Result<Option<Zone>, StateError> {
    let zone = NameBuf::from(name);
    let mut reader = ContentsReader::new(&zone);
    if store.file_copy(&zone, |part| reader.push(&part))?.is_none() {
        return Ok(None);
    }
    let Some(copy) = reader.finish(store, Vec::new())? else {
        return Ok(None);
    };
    // If `zone sync` wrote the file since, it has the journal up to that point.
    let stored = store
        .zone(&zone)?
        .filter(|stored| stored.storage == ZoneStorage::File);
    let Some(stored) = stored else {
        return Ok(Some(copy));
    };
    let lacking = store.journal_after_base(&zone)?;
    let file = lacking.first().map_or(stored.serial, |first| first.from);
    let later = store
        .journal_from(&zone, copy.serial())?
        .unwrap_or_default();
    let settled = later.iter().position(|entry| entry.to == file);
    let Some(settled) = settled.filter(|_| copy.serial() != file) else {
        return Ok(Some(copy));
    };
    let mut version = Arc::new(copy);
    for entry in &later[..=settled] {
        match version.apply(&entry.difference) {
            Ok(next) => version = Arc::new(next),
            Err(error) => {
                tracing::warn!(
                    "zone {zone}: the journal does not match the copy of its file: {error}"
                );
                break;
            }
        }
    }
    let packed = version.pack();
    Ok(packed.or_else(|| Arc::try_unwrap(version).ok()))
}
