//! Zones whose files have vanished from a directory: each is served for a grace period before it is withdrawn.
//!
//! A file that is replaced by deleting and rewriting it is missing for a moment, and so is a directory that is
//! briefly not mounted. A directory that loses most of its files at once has hardly lost them on purpose: its zones
//! are served until the files are back or an operator confirms the loss.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use nameward_wire::{Name, NameBuf};

use super::{FileBackend, FileSource, LoadEvent, load::Load, loader::Job, watch::ScanScope};

/// Fewer files than this never count as the loss of a directory.
const LOSS_MIN: usize = 2;
/// Maximum number of zones named per directory.
const NAMED_MAX: usize = 5;
/// How long a file that could not be inspected at the end of its grace period is left alone.
const POSTPONED: Duration = Duration::from_secs(1);

/// When the zone of a missing file is withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// After the grace period of its source: the files were seen to change.
    AfterGrace,
    /// At once, unless its directory lost most of its files: an operator reloads.
    AtOnce,
    /// At once in any case: an operator confirmed the loss.
    Confirmed,
}

/// The zones of one directory whose files are missing. They are still served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingZones {
    /// The directory.
    pub directory: PathBuf,
    /// Number of zones whose files are missing.
    pub number: usize,
    /// Number of zones of the directory that are served, including these.
    pub served: usize,
    /// The names of the first few.
    pub first: Vec<String>,
    /// When the first file was found missing.
    pub since: SystemTime,
    /// How long the zones are served without their files.
    pub outlook: MissingOutlook,
}

/// How long zones are served without their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingOutlook {
    /// For the grace period.
    Withdrawn(Duration),
    /// Until an operator confirms the loss: the directory has lost most of its files.
    Kept,
}

struct MissingFile {
    rank: u16,
    /// `None` if a search found it missing, since that does not know its path.
    path: Option<PathBuf>,
    since: SystemTime,
    /// When the zone is withdrawn; `None` while that is not scheduled.
    due: Option<Instant>,
}

/// All zones whose files are missing, by name in lower case.
#[derive(Default)]
pub(super) struct MissingFiles {
    zones: BTreeMap<Box<[u8]>, MissingFile>,
    /// Sources that have lost most of their files.
    lost: Vec<u16>,
}

impl MissingFiles {
    pub(super) fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Records that the file of a zone is missing.
    pub(super) fn note(&mut self, name: Name<'_>, rank: u16, path: Option<&Path>) {
        let new = || MissingFile {
            rank,
            path: None,
            since: SystemTime::now(),
            due: None,
        };
        let file = self.zones.entry(key(name)).or_insert_with(new);
        file.rank = rank;
        if let Some(path) = path {
            file.path = Some(path.to_path_buf());
        }
    }

    /// Records that a zone has a file, or is withdrawn. Returns whether its file was missing.
    pub(super) fn forget(&mut self, name: Name<'_>) -> bool {
        !self.zones.is_empty() && self.zones.remove(&key(name)).is_some()
    }

    /// Returns the sources that have zones here.
    pub(super) fn ranks(&self) -> Vec<u16> {
        let mut ranks: Vec<u16> = self.zones.values().map(|file| file.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Returns the zones to withdraw of a source that serves this many zones; `None` if most files are missing, so that none of
    /// their zones is withdrawn.
    pub(super) fn decide(
        &mut self,
        source: &FileSource,
        served: usize,
        withdrawal: Withdrawal,
        now: Instant,
    ) -> Option<Vec<NameBuf>> {
        let (rank, grace) = (source.rank, source.missing_grace);
        let missing = self.zones.values().filter(|file| file.rank == rank).count();
        let is_loss = is_loss(missing, served) && withdrawal != Withdrawal::Confirmed;
        self.lost.retain(|lost| *lost != rank);
        let files = self.zones.iter_mut();
        let files = files.filter(|(_, file)| file.rank == rank);
        if is_loss {
            self.lost.push(rank);
            files.for_each(|(_, file)| file.due = None);
            return None;
        }
        let mut withdrawn = Vec::new();
        for (name, file) in files {
            let due = *file.due.get_or_insert(now + grace);
            if due <= now || withdrawal != Withdrawal::AfterGrace {
                withdrawn.push(NameBuf::from(Name::from_valid_wire(name)));
            }
        }
        Some(withdrawn)
    }

    /// Suspends all withdrawals: a directory could not be read, so it is unknown which files are missing.
    pub(super) fn suspend(&mut self) {
        self.zones.values_mut().for_each(|file| file.due = None);
    }

    /// Returns when the next grace period ends.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.zones.values().filter_map(|file| file.due).min()
    }

    /// Returns what to inspect because grace periods have ended.
    pub(super) fn overdue(&self, now: Instant) -> Option<ScanScope> {
        let overdue = self.zones.values();
        let overdue = overdue.filter(|file| file.due.is_some_and(|due| due <= now));
        let paths: Vec<Option<PathBuf>> = overdue.map(|file| file.path.clone()).collect();
        let known: Vec<PathBuf> = paths.iter().flatten().cloned().collect();
        match (paths.len(), known.len()) {
            (0, _) => None,
            (all, found) if all == found => Some(ScanScope::Files(known)),
            _ => Some(ScanScope::All),
        }
    }

    /// Postpones the grace periods that have ended: the inspection was inconclusive.
    pub(super) fn postpone(&mut self, now: Instant) {
        for file in self.zones.values_mut() {
            if file.due.is_some_and(|due| due <= now) {
                file.due = Some(now + POSTPONED);
            }
        }
    }

    /// Describes the zones whose files are missing of a source that serves this many zones.
    pub(super) fn describe(&self, source: &FileSource, served: usize) -> Option<MissingZones> {
        let files = || {
            let zones = self.zones.iter();
            zones.filter(|(_, file)| file.rank == source.rank)
        };
        let first = files().take(NAMED_MAX);
        Some(MissingZones {
            directory: source.directory.clone()?,
            number: files().count(),
            served,
            first: first
                .map(|(name, _)| Name::from_valid_wire(name).to_string())
                .collect(),
            since: files().map(|(_, file)| file.since).min()?,
            outlook: if self.lost.contains(&source.rank) {
                MissingOutlook::Kept
            } else {
                MissingOutlook::Withdrawn(source.missing_grace)
            },
        })
    }
}

impl FileBackend {
    /// Sorts the zones whose files a full load did not see: those of a directory that is still a source are missing,
    /// others were removed from the configuration.
    pub(super) fn note_unseen(
        &mut self,
        load: &mut Load<'_>,
        sources: &[FileSource],
        spared: &[u16],
    ) {
        let table = load.publisher.target.table();
        for zone in table.offered() {
            let (name, rank) = (zone.id(), zone.rank());
            if !self.known.is_gone(name, rank, spared) {
                continue;
            }
            let is_source = |source: &&FileSource| source.rank == rank;
            let directory = sources
                .iter()
                .find(is_source)
                .map(|source| &source.directory);
            let is_same = directory.is_some_and(|now| self.directories.get(&rank) == Some(now));
            let Some(slot) = self.known.find(name) else {
                continue;
            };
            let slot = &mut self.known.slots[slot];
            slot.is_missing = is_same && slot.is_found && slot.served;
            if slot.is_missing {
                self.missing.note(name, rank, None);
            } else {
                self.missing.forget(name);
                load.remove(name, rank);
            }
        }
        self.known.forget_gone(spared);
    }

    /// Serves the copies of zone files if a directory has lost most of its files while the server was down: a file system that is
    /// not mounted looks like an empty directory.
    pub(super) fn serve_lost_directory(&mut self, load: &mut Load<'_>, sources: &[FileSource]) {
        let lost = sources.iter().find(|source| {
            let directory = source.directory.as_deref();
            let before =
                directory.map_or(0, |directory| load.publisher.target.zones_before(directory));
            let now = self.known.found_of(source.rank);
            is_loss(before.saturating_sub(now), before)
        });
        let Some(rank) = lost.map(|source| source.rank) else {
            return;
        };
        load.publish();
        for name in load.publisher.target.zones_without_source() {
            let name = name.as_name();
            let Some(zone) = load.publisher.target.last_good(name) else {
                continue;
            };
            let Some(slot) = self.known.see(name) else {
                continue;
            };
            let slot = &mut self.known.slots[slot];
            slot.record_version(None, Vec::new(), rank);
            (slot.is_found, slot.is_missing) = (true, true);
            self.missing.note(name, rank, None);
            load.publisher.offer(zone, rank, None);
            load.summary.kept += 1;
        }
    }

    /// Records the current directories of sources.
    pub(super) fn note_directories(&mut self, sources: &[FileSource], spared: &[u16]) {
        let is_source = |rank: &u16| sources.iter().any(|source| source.rank == *rank);
        let directories = &mut self.directories;
        directories.retain(|rank, _| is_source(rank) || spared.contains(rank));
        directories.extend(
            sources
                .iter()
                .map(|source| (source.rank, source.directory.clone())),
        );
    }

    /// Records a vanished file that was inspected alone.
    pub(super) fn note_missing(
        &mut self,
        load: &mut Load<'_>,
        name: Name<'_>,
        rank: u16,
        path: &Path,
    ) {
        let slot = self
            .known
            .find(name)
            .map(|slot| &mut self.known.slots[slot]);
        match slot {
            Some(slot) if slot.served => {
                slot.is_missing = true;
                self.missing.note(name, rank, Some(path));
            }
            _ => {
                load.remove(name, rank);
                self.known.forget(name);
            }
        }
    }

    /// Records that files exist which may have been missing.
    pub(super) fn note_returned(&mut self, load: &mut Load<'_>, jobs: &[Job]) {
        if self.missing.is_empty() {
            return;
        }
        for job in jobs {
            let name = load.candidates.name(job.candidate);
            if self.missing.forget(name) {
                (load.events)(LoadEvent::Returned(name));
            }
        }
    }

    /// Withdraws zones whose files are missing, where that is due.
    pub(super) fn withdraw_missing(
        &mut self,
        load: &mut Load<'_>,
        sources: &[FileSource],
        withdrawal: Withdrawal,
    ) {
        let now = Instant::now();
        for rank in self.missing.ranks() {
            let is_it = |source: &&FileSource| source.rank == rank;
            let Some(source) = sources.iter().find(is_it) else {
                continue;
            };
            if withdrawal == Withdrawal::AfterGrace && !source.watch {
                continue;
            }
            let served = self.known.found_of(rank);
            let withdrawn = self.missing.decide(source, served, withdrawal, now);
            load.summary.problems += usize::from(withdrawn.is_none());
            for name in withdrawn.unwrap_or_default() {
                load.remove(name.as_name(), rank);
                self.missing.forget(name.as_name());
                self.known.forget(name.as_name());
            }
            if let Some(missing) = self.missing.describe(source, served) {
                let is_known = self.reported.get(&rank) == Some(&missing);
                if !is_known || withdrawal != Withdrawal::AfterGrace {
                    (load.events)(LoadEvent::Missing(&missing));
                }
                self.reported.insert(rank, missing);
            }
        }
        let left = self.missing.ranks();
        self.reported.retain(|rank, _| left.contains(rank));
    }

    /// Lists the zones that are served although their files are missing, by directory.
    pub fn missing_zones(&self) -> Vec<MissingZones> {
        self.reported.values().cloned().collect()
    }

    /// Returns when [`FileBackend::overdue`] next has something to inspect.
    pub fn next_withdrawal(&self) -> Option<Instant> {
        self.missing.next_due()
    }

    /// Returns what to inspect because the grace periods of missing files have ended.
    pub fn overdue(&self) -> Option<ScanScope> {
        self.missing.overdue(Instant::now())
    }

    /// Postpones the withdrawals that an inspection of overdue files left undecided.
    pub fn postpone_overdue(&mut self) {
        self.missing.postpone(Instant::now());
    }
}

/// Checks whether this many of a directory's zones are most of them.
fn is_loss(missing: usize, served: usize) -> bool {
    missing >= LOSS_MIN && missing * 2 > served
}

fn key(name: Name<'_>) -> Box<[u8]> {
    name.as_wire().to_ascii_lowercase().into()
}
