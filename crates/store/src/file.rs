//! Owns the zones that stand in files: which there are, what changed, and the published table.
//!
//! A load goes over all sources: files that did not change since the last one cost a `stat`, others
//! are read in parallel, and each zone is published as soon as it is ready, many at a time. A new
//! version with errors is not taken: the old one stays in service. A zone that has no older version
//! is answered SERVFAIL until it is read, or mended: it is ours, so REFUSED would be wrong. A zone whose
//! file is gone is withdrawn after a grace period ([`missing`]), unless a directory could not be read, because then
//! nobody knows.
//!
//! A file that was seen to change is looked at alone ([`look`]), unless more may depend on it.

mod discovery;
mod inventory;
mod list;
mod load;
mod loader;
mod missing;
mod publish;
mod scan;
mod signed_copy;
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
use nameward_zone::{AccessSource, Serial, Zone, ZoneLimits};

use discovery::{Candidates, Configurations, Said};
use inventory::KnownZones;
pub use list::{FileList, ListedFile};
use load::Load;
use loader::Job;
use missing::MissingFiles;
pub use missing::{MissingOutlook, MissingZones, Withdrawal};
use publish::Publisher;
pub use publish::ZoneTarget;
use scan::Aim;
pub use subset::{each_zone_name, sources_of};
use watch::Interest;
pub use watch::{Look, Watcher};
pub use write_back::WrittenFiles;

/// Where to look for zones.
#[derive(Debug, Clone, Default)]
pub struct FileSource {
    /// Its place among all sources: the lower one wins where two have a zone.
    pub rank: u16,
    /// Every `NAME.zone` below it is a zone.
    pub directory: Option<PathBuf>,
    /// Files below it that this server writes: copies of secondary zones, which are no zones of the source.
    pub written: Arc<WrittenFiles>,
    /// Zones with their files.
    pub zones: Arc<FileList>,
    /// A configuration of BIND whose zones are served.
    pub named_conf: Option<PathBuf>,
    /// Whether changes of files are noticed without a reload.
    pub watch: bool,
    /// How long the zone of a file that vanished from the directory is served.
    pub missing_grace: Duration,
    /// The size that each of its zones may grow to.
    pub limits: FileLimits,
}

/// Bounds for one zone of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Memory and records.
    pub zone: ZoneLimits,
    /// Octets that `$GENERATE` may make in any case; a large file may make more.
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

/// An event of a load while it runs.
pub enum LoadEvent<'a> {
    /// A zone was read and is served. The diagnostics are warnings.
    Served(Name<'a>, &'a Zone, &'a [Diagnostic]),
    /// A zone has errors; whether an older version of it stays in service.
    Refused(Name<'a>, &'a [Diagnostic], Standing),
    /// A zone is no longer served because its file is gone.
    Removed(Name<'a>),
    /// Zones of a directory are served although their files are missing.
    Missing(&'a MissingZones),
    /// The file of a zone that was missing is back.
    Returned(Name<'a>),
    /// Another source has the zone too; the first of the two ranks is served, the second is not.
    Contested(Name<'a>, u16, u16),
    /// A source could not be used, in part or at all; one line with the path.
    Trouble(&'a str),
    /// Something of a source is not served, or not as it was; one line with the path.
    Note(&'a str),
    /// The copy of a secondary is not there; the path where it should be.
    Waiting(Name<'a>, &'a Path),
    /// Which zones there are is known and visible; they are read from now on.
    Known,
    /// So many zones of so many are done.
    Progress(usize, usize),
}

/// Whether a refused zone is answered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// By the version from before.
    OldVersion,
    /// By the last version that was without errors, which has this serial and was kept over a restart.
    Copy(Serial),
    /// Not from here: SERVFAIL, unless another source has the zone.
    NotReady,
}

/// The sum of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Zones read and served.
    pub loaded: usize,
    /// Zones whose files did not change.
    pub unchanged: usize,
    /// Zones whose files have errors.
    pub refused: usize,
    /// Zones of these that are served from a copy of an older version.
    pub kept: usize,
    /// Zones no longer served.
    pub removed: usize,
    /// Secondaries whose copy is not there yet.
    pub waiting: usize,
    /// Sources that could not be used.
    pub troubles: usize,
}

/// The zones that stand in files.
#[derive(Default)]
pub struct FileBackend {
    known: KnownZones,
    configurations: Configurations,
    watcher: Option<Watcher>,
    /// The last load saw two files for one zone.
    has_rivals: bool,
    /// Zones whose files have vanished.
    missing: MissingFiles,
    /// Last report about them, by the rank of their source.
    reported: BTreeMap<u16, MissingZones>,
    /// The directory of each source, by rank, as of the last load.
    directories: HashMap<u16, Option<PathBuf>>,
}

impl FileBackend {
    /// No zones yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has `watcher` get the list of files to watch at each load.
    pub fn watched_by(mut self, watcher: Watcher) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// Brings `table`, which others read meanwhile, to what the sources say now. Zones of the
    /// table that did not come from here are left alone.
    pub fn load(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        self.load_withdrawing(table, sources, Withdrawal::AtOnce, events)
    }

    /// As [`FileBackend::load`], and says when zones are withdrawn whose files are missing.
    pub fn load_withdrawing(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        withdrawal: Withdrawal,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        self.configurations.keep(sources);
        self.load_spared(table, (sources, &[]), withdrawal, events)
    }

    /// Loads what was seen to change. Sources that are not watched are left as they are.
    pub fn look(
        &mut self,
        table: &dyn ZoneTarget,
        sources: &[FileSource],
        look: &Look,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        let watched = sources.iter().filter(|source| source.watch);
        if let Look::At(paths) = look
            && let Some(aim) = self.aim(watched, Aim::within(sources), paths)
        {
            return self.look_at(table, sources, aim, events);
        }
        let (watched, others): (Vec<_>, Vec<_>) =
            sources.iter().cloned().partition(|source| source.watch);
        let spared: Vec<u16> = others.iter().map(|source| source.rank).collect();
        let withdrawal = Withdrawal::AfterGrace;
        self.load_spared(table, (&watched, &spared), withdrawal, events)
    }

    /// Loads, and leaves zones alone that are from sources of the `spared` ranks.
    fn load_spared(
        &mut self,
        table: &dyn ZoneTarget,
        (sources, spared): (&[FileSource], &[u16]),
        withdrawal: Withdrawal,
        events: &mut dyn FnMut(LoadEvent<'_>),
    ) -> LoadSummary {
        let begun = Instant::now();
        let mut summary = LoadSummary::default();
        let mut say = |said: Said<'_>| match said {
            Said::Trouble(text) => {
                summary.troubles += 1;
                events(LoadEvent::Trouble(text));
            }
            Said::Note(text) => events(LoadEvent::Note(text)),
        };
        if let Some(watcher) = &self.watcher {
            watcher.begin();
        }
        let watcher = self.watcher.as_ref();
        let scanned = discovery::scan(sources, &mut self.configurations, watcher, &mut say);
        let jobs = self.admit(&scanned.candidates, spared, &mut say);
        let mut load = Load {
            candidates: &scanned.candidates,
            summary,
            publisher: Publisher::new(table),
            events,
        };
        // First of all, so that no zone is served to more clients than its configuration lets in; the lists of zones
        // that are about to go stay until they are gone.
        let access = self.configurations.access();
        let before = Arc::clone(table.table().access(AccessSource::Imported));
        table.set_access(access.with_leftovers_of(&before));
        load.announce(&jobs, &mut self.known.slots);
        (load.events)(LoadEvent::Known);
        load.run(&jobs, &mut self.known.slots);
        self.note_returned(&mut load, &jobs);
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
        let summary = load.summary;
        self.watch_includes(sources);
        if let Some(watcher) = &self.watcher {
            watcher.end(begun.elapsed());
        }
        summary
    }

    /// Included files are known only when a file is read; a change between that and now is found by one more look.
    fn watch_includes(&self, sources: &[FileSource]) {
        let Some(watcher) = &self.watcher else {
            return;
        };
        let is_watched = |rank: Option<u16>| {
            let mut sources = sources.iter().filter(|source| source.watch);
            sources.any(|source| Some(source.rank) == rank)
        };
        let slots = self.known.slots.iter().filter(|slot| slot.has_includes());
        let mut is_new = false;
        for slot in slots.filter(|slot| is_watched(slot.rank)) {
            for path in slot.includes() {
                is_new |= watcher.file(path, Interest::All);
            }
        }
        if is_new {
            watcher.ask();
        }
    }

    /// The zones of BIND configurations, with their types and the servers that they name.
    pub fn configured(&self) -> impl Iterator<Item = &bind::BindZone> {
        self.configurations.zones()
    }

    /// Marks what was seen and passes over a zone that an earlier source has already.
    fn admit(
        &mut self,
        candidates: &Candidates,
        spared: &[u16],
        say: &mut dyn FnMut(Said<'_>),
    ) -> Vec<Job> {
        self.known.begin(candidates.len());
        self.has_rivals = false;
        let mut jobs = Vec::with_capacity(candidates.len());
        // The directory of the file before and its key: mostly that of the next one.
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
                    let rank = candidates.rank(candidate);
                    let known = &mut self.known.slots[slot];
                    known.is_found = candidates.is_found(candidate);
                    jobs.push(known.job(file, slot, rank));
                }
                None => {
                    self.has_rivals = true;
                    let mut path = PathBuf::new();
                    candidates.path_into(candidate, &mut path);
                    let path = path.display();
                    let text = format!("{path}: the zone {name} has a file already: ignored");
                    say(Said::Trouble(&text));
                }
            }
        }
        jobs
    }
}

/// A source of zones that cannot be read; one line that says which and why.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// A named.conf has errors.
    #[error("{0}")]
    NamedConf(Diagnostic),
    /// A file or directory cannot be opened.
    #[error("cannot read {}: {}", path.display(), reason_of(source))]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The answer of the system.
        source: std::io::Error,
    },
}

/// Files of a list that a start looks at before it loads them. Of a longer list the load reports which cannot be read;
/// the other zones are served.
const PREFLIGHT_FILES: usize = 1000;

/// Returns whether the first listed files and every directory can be opened. Cheap: for a start that should fail at once
/// and not after the first load.
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

/// Reads one zone from text that is part of the program; `label` stands for its file.
pub fn zone_from_text(name: Name<'_>, label: &str, text: &[u8]) -> Result<Zone, Vec<Diagnostic>> {
    zone_file::from_text(name, Path::new(label), text)
}

/// Reads one zone from text, with its warnings; `label` stands for its file.
pub fn zone_from_text_with_warnings(
    name: Name<'_>,
    label: &str,
    text: &[u8],
) -> Result<(Zone, Vec<Diagnostic>), Vec<Diagnostic>> {
    zone_file::from_labelled(name, Path::new(label), text)
}

/// Reads a zone as another server signed it, with the changes of BIND's journal beside its file; one that is not signed is
/// an error.
pub fn signed_version(name: Name<'_>, path: &Path) -> Result<Zone, Vec<Diagnostic>> {
    let mut reader = zone_file::ZoneFileReader::new();
    let limits = FileLimits::default();
    let read = reader.read((name, path), limits, discovery::FileRole::SignedCopy);
    read.zone.ok_or(read.diagnostics)
}

/// Reads one zone from a file and what that includes; the zone comes with warnings, or there are errors.
pub fn zone_from_file(
    name: Name<'_>,
    path: &Path,
) -> Result<(Zone, Vec<Diagnostic>), Vec<Diagnostic>> {
    zone_file::from_file(name, path)
}

#[cfg(test)]
mod tests;
