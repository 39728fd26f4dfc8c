//! Zones stored in files: the inventory, changes, and the published table.
//!
//! A load covers all sources: files that did not change since the last one cost a `stat`, others are read in
//! parallel, and each zone is published as soon as it is ready, in groups. A new version with errors is rejected: the
//! old one stays in service. A zone without an older version is answered SERVFAIL until it is read, or fixed: it is
//! ours, so REFUSED would be wrong. A zone whose file is missing is withdrawn after a grace period ([`missing`]),
//! unless a directory could not be read, which makes the loss uncertain.
//!
//! A file that was seen to change is checked alone ([`scan`]), unless more may depend on it.

#![deny(unsafe_code)]

mod discovery;
mod inventory;
mod list;
mod load;
mod loader;
mod missing;
mod publish;
mod scan;
mod subset;
mod watch;
mod write_back;
mod zone_file;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nameward_import::{OnDisk, bind, open_regular, reason_of};
use nameward_wire::{
    Name, NameBuf,
    zonefile::{Diagnostic, Options},
};
use nameward_zone::{AccessSource, ScriptCheck, Serial, ViewRule, Zone, ZoneLimits};

use discovery::{Candidates, Configurations};
use inventory::KnownZones;
pub use list::{FileList, ListedFile};
use load::Load;
use loader::Job;
use missing::MissingFiles;
pub use missing::{MissingOutlook, MissingZones, Withdrawal};
use publish::Publisher;
pub use publish::ZoneTarget;
use scan::CheckPlan;
pub use subset::{each_zone_name, sources_of};
pub use watch::{ScanScope, Watcher};
pub use write_back::WrittenFiles;
pub use zone_file::{zone_from_file, zone_from_text, zone_from_text_with_warnings};

/// A source of zones in files.
#[derive(Debug, Clone, Default)]
pub struct FileSource {
    /// Its position among all sources: the lower one wins if two have a zone.
    pub rank: u16,
    /// Every `NAME.zone` below it is a zone.
    pub directory: Option<PathBuf>,
    /// Files below it that this server writes: copies of secondary zones, which are not zones of the source.
    pub written: Arc<WrittenFiles>,
    /// Zones with their files.
    pub zones: Arc<FileList>,
    /// A BIND configuration whose zones are served.
    pub named_conf: Option<PathBuf>,
    /// Whether file changes are noticed without a reload.
    pub watch: bool,
    /// How long a zone is still served after its file vanished from the directory.
    pub missing_grace: Duration,
    /// The size limits of each of its zones.
    pub limits: FileLimits,
    /// The check of the LUA records in all files; that of the first source counts.
    pub scripts: ScriptCheck,
}

/// Limits for one zone of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Memory and records.
    pub zone: ZoneLimits,
    /// Octets that `$GENERATE` may produce in any case; a large file may produce more.
    pub generated_octets: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            zone: ZoneLimits::default(),
            generated_octets: Options::new(NameBuf::root()).generated_octets,
        }
    }
}

/// A progress event of a load.
pub enum LoadEvent<'a> {
    /// A zone was read and is served. The diagnostics are warnings.
    Served(Name<'a>, &'a Zone, &'a [Diagnostic]),
    /// A zone has errors; with whether an older version of it stays in service.
    Refused(Name<'a>, &'a [Diagnostic], Fallback),
    /// A zone is no longer served because its file was removed.
    Removed(Name<'a>),
    /// Zones of a directory are served although their files are missing.
    Missing(&'a MissingZones),
    /// The missing file of a zone is back.
    Returned(Name<'a>),
    /// Another source has the zone too; the first of the two ranks is served, the second is not.
    Contested(Name<'a>, u16, u16),
    /// A source is unusable, in part or completely; one line with the path.
    Problem(&'a str),
    /// Something of a source is not served, or not as before; one line with the path.
    Note(&'a str),
    /// The copy of a secondary does not exist yet; the path where it should be.
    Waiting(Name<'a>, &'a Path),
    /// The list of zones is complete and visible; they are read from now on.
    Known,
    /// Number of finished zones, and of all zones.
    Progress(usize, usize),
}

/// How a rejected zone is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// From the previous version.
    OldVersion,
    /// From the last version without errors, which has this serial and was kept over a restart.
    Copy(Serial),
    /// Not from here: SERVFAIL, unless another source has the zone.
    NotReady,
}

/// The totals of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Zones read and served.
    pub loaded: usize,
    /// Zones whose files did not change.
    pub unchanged: usize,
    /// Zones whose files have errors.
    pub refused: usize,
    /// Rejected zones that are served from a copy of an older version.
    pub kept: usize,
    /// Zones no longer served.
    pub removed: usize,
    /// Secondaries whose copy does not exist yet.
    pub waiting: usize,
    /// Unusable sources.
    pub problems: usize,
}

/// The zones stored in files.
#[derive(Default)]
pub struct FileBackend {
    known: KnownZones,
    configurations: Configurations,
    /// The views of these configurations.
    views: Vec<ViewRule>,
    watcher: Option<Watcher>,
    /// The last load saw two files for one zone.
    has_rivals: bool,
    /// Zones whose files have vanished.
    missing: MissingFiles,
    /// The last report about them, by the rank of their source.
    reported: BTreeMap<u16, MissingZones>,
    /// The directory of each source, by rank, as of the last load.
    directories: HashMap<u16, Option<PathBuf>>,
}

impl FileBackend {
    /// Creates a backend without zones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the watcher, which gets the list of files to watch at each load.
    pub fn watched_by(mut self, watcher: Watcher) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// Brings `table`, which others read in the meantime, up to date with the sources. Zones in the table that did
    /// not come from here are left alone.
    pub fn load(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        self.load_withdrawing(table, sources, Withdrawal::AtOnce, events)
    }

    /// Like [`FileBackend::load`], with control over when zones with missing files are withdrawn.
    pub fn load_withdrawing(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        withdrawal: Withdrawal,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        self.configurations.retain(sources);
        self.load_spared(table, (sources, &[]), withdrawal, events)
    }

    /// Loads what was seen to change. Sources that are not watched are left as they are.
    pub fn check(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        scope: &ScanScope,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        let watched = sources.iter().filter(|source| source.watch);
        if let ScanScope::Files(paths) = scope
            && let Some(plan) = self.plan_checks(watched, CheckPlan::within(sources), paths)
        {
            return self.check_files(table, sources, plan, events);
        }
        let (watched, others): (Vec<_>, Vec<_>) =
            sources.iter().cloned().partition(|source| source.watch);
        let spared: Vec<u16> = others.iter().map(|source| source.rank).collect();
        let withdrawal = Withdrawal::AfterGrace;
        self.load_spared(table, (&watched, &spared), withdrawal, events)
    }

    /// Loads, and leaves zones from sources of the `spared` ranks alone.
    fn load_spared(
        &mut self,
        table: &dyn ZoneTarget,
        (sources, spared): (&[FileSource], &[u16]),
        withdrawal: Withdrawal,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        let started = Instant::now();
        let mut summary = LoadSummary::default();
        let mut report = |event: LoadEvent<'_>| {
            summary.problems += usize::from(matches!(event, LoadEvent::Problem(_)));
            events(event);
        };
        if let Some(watcher) = &self.watcher {
            watcher.begin();
        }
        let watcher = self.watcher.as_ref();
        let scanned = discovery::scan(sources, &mut self.configurations, watcher, &mut report);
        let jobs = self.admit(&scanned.candidates, spared, &mut report);
        let mut load = Load {
            candidates: &scanned.candidates,
            summary,
            publisher: Publisher::new(table),
            events,
        };
        // First of all, so that no zone is served to more clients than its configuration allows; the lists of zones
        // that are about to be removed stay until then.
        let access = self.configurations.access();
        let before = Arc::clone(table.table().access(AccessSource::Imported));
        table.set_access(access.with_leftovers_of(&before));
        // Views lose versions before these are withdrawn, and get new ones after they are loaded: there is no gap.
        let views = self.configurations.views();
        let views_before = std::mem::replace(&mut self.views, views.clone());
        table.set_views(if views_before.is_empty() {
            views.clone()
        } else {
            ViewRule::without_removed(views_before, &views)
        });
        load.announce(&jobs, &mut self.known.slots);
        (load.events)(LoadEvent::Known);
        load.run(&jobs, &mut self.known.slots);
        self.note_returned(&mut load, &jobs);
        if self.directories.is_empty() && withdrawal != Withdrawal::Confirmed {
            self.serve_lost_directory(&mut load, sources);
        }
        if scanned.incomplete {
            self.missing.suspend();
        } else {
            if self.known.has_gone(spared) {
                self.note_unseen(&mut load, sources, spared);
            }
            self.withdraw_missing(&mut load, sources, withdrawal);
        }
        self.note_directories(sources, spared);
        load.publish();
        table.set_access(access);
        table.set_views(views);
        let summary = load.summary;
        self.watch_includes(sources);
        if let Some(watcher) = &self.watcher {
            watcher.end(started.elapsed());
        }
        summary
    }

    /// Watches included files, which are known only when a file is read; a change between that and now is found by
    /// one more check.
    fn watch_includes(&self, sources: &[FileSource]) {
        let Some(watcher) = &self.watcher else {
            return;
        };
        let is_watched = |rank: Option<u16>| {
            let mut sources = sources.iter().filter(|source| source.watch);
            sources.any(|source| Some(source.rank) == rank)
        };
        let slots = self.known.slots.iter().filter(|slot| slot.has_includes());
        watcher.included(slots.filter(|slot| is_watched(slot.rank)));
    }

    /// Returns the zones of BIND configurations, with their types and the servers that they name.
    pub fn configured(&self) -> impl Iterator<Item = &bind::BindZone> {
        self.configurations.zones()
    }

    /// Marks the files that were seen and skips zones that an earlier source already has.
    fn admit(
        &mut self,
        candidates: &Candidates,
        spared: &[u16],
        report: &mut dyn FnMut(LoadEvent<'_>),
    ) -> Vec<Job> {
        self.known.begin(candidates.len());
        self.has_rivals = false;
        let mut jobs = Vec::with_capacity(candidates.len());
        // The directory of the previous file and its key: usually the same for the next one.
        let mut last = (u32::MAX, 0);
        for candidate in 0..candidates.len() {
            let name = candidates.name(candidate);
            if !spared.is_empty() && self.known.is_of(name, spared) {
                continue;
            }
            match self.known.see(name) {
                Some(slot) => {
                    let key = match candidates.place(candidate) {
                        (None, path) => self.known.path_key(Path::new(path)),
                        (Some((number, path)), file) => {
                            if last.0 != number {
                                last = (number, self.known.directory_key(path));
                            }
                            self.known.file_key(last.1, file)
                        }
                    };
                    let file = (candidate, key);
                    let entry = candidates.entry(candidate);
                    let known = &mut self.known.slots[slot];
                    known.is_found = entry.is_found;
                    jobs.push(known.job(file, slot, entry.rank));
                }
                None => {
                    self.has_rivals = true;
                    let mut path = PathBuf::new();
                    candidates.path_into(candidate, &mut path);
                    let path = path.display();
                    let text = format!("{path}: ignored: zone {name} already has a file");
                    report(LoadEvent::Problem(&text));
                }
            }
        }
        jobs
    }
}

/// A source of zones that cannot be read.
#[allow(missing_docs)] // fields whose names say it
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// A named.conf has errors.
    #[error("{0}")]
    NamedConf(Diagnostic),
    /// A file or directory cannot be opened.
    #[error("cannot read {}: {}", path.display(), reason_of(source))]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Maximum number of listed files that a start checks before loading. For a longer list the load reports which cannot
/// be read; the other zones are served.
const PREFLIGHT_FILES: usize = 1000;

/// Checks whether the first listed files and every directory can be opened. Cheap: for a start that should fail at
/// once and not after the first load.
pub fn preflight(sources: &[FileSource]) -> Result<(), PreflightError> {
    for source in sources {
        if let Some(path) = &source.named_conf {
            let found = bind::read(path, &mut OnDisk);
            if let Some(first) = found.diagnostics.first() {
                return Err(PreflightError::NamedConf(first.clone()));
            }
        }
        let files = source.zones.iter().take(PREFLIGHT_FILES);
        let files = files.map(|listed| listed.path()).map(|path| {
            let error = open_regular(&path).err();
            (path, error)
        });
        let directory = source.directory.iter().cloned();
        let directories = directory.map(|path| {
            let error = std::fs::read_dir(&path).err();
            (path, error)
        });
        for (path, error) in files.chain(directories) {
            if let Some(source) = error {
                return Err(PreflightError::Unreadable { path, source });
            }
        }
    }
    Ok(())
}

/// Reads a zone as signed by another server, with the changes in BIND's journal next to its file; an unsigned one is
/// an error.
pub fn signed_version(name: Name<'_>, path: &Path) -> Result<Zone, Vec<Diagnostic>> {
    let mut reader = zone_file::ZoneFileReader::new(ScriptCheck::default());
    let limits = FileLimits::default();
    let read = reader.read((name, path), limits, discovery::FileRole::SignedCopy);
    read.zone.ok_or(read.diagnostics)
}

#[cfg(test)]
mod tests;
