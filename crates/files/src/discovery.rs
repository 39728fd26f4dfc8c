//! The search for zone files: maps file names to zone names.
//!
//! Directories are walked without following links to directories, so a walk terminates; hidden files are those of
//! editors and of mounts being replaced, and are skipped.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    net::IpAddr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_base::sandbox;
use nameward_import::{Files, OnDisk, bind, reason_of};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessRules, ScriptCheck, ViewRule};

use super::{
    FileLimits, FileSource, LoadEvent, WrittenFiles,
    list::FileList,
    watch::{Interest, WatchedFiles, Watcher},
};

/// Maximum depth of nested directories.
const DEPTH_MAX: usize = 32;

/// Files that should contain a zone. Names and paths are in one buffer: there may be a hundred thousand of them, and
/// they are needed for the duration of a load.
#[derive(Default)]
pub(super) struct Candidates {
    bytes: Vec<u8>,
    directories: Vec<PathBuf>,
    list: Vec<DirectoryEntry>,
    /// The rank of the source being searched.
    rank: u16,
    /// The size limits of zones, by the rank of their source.
    limits: Vec<(u16, FileLimits)>,
    pub(super) scripts: ScriptCheck,
}

/// A file that should contain a zone.
pub(super) struct DirectoryEntry {
    /// Offset of the zone's name, followed by the file's name.
    start: usize,
    /// Length of the zone's name, in wire format and lower case.
    zone: u8,
    /// Length of the file's name.
    file: u32,
    /// Index of its directory; listed files have none.
    directory: Option<u32>,
    /// Rank of its source.
    pub rank: u16,
    pub role: FileRole,
    /// It was found in a directory, not listed: without the file there is no zone.
    pub is_found: bool,
}

/// The contents of a zone file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileRole {
    /// The zone itself.
    Zone,
    /// The copy of a zone from another server: it may be missing.
    Copy,
    /// The zone as signed by BIND, with a journal next to it: it may be missing, and is never served without
    /// signatures.
    SignedCopy,
}

impl FileRole {
    /// Returns the role of a zone's file in a BIND configuration.
    pub(super) fn from_zone(zone: &bind::BindZone) -> Self {
        match (zone.is_signed_copy(), zone.is_copy()) {
            (true, _) => FileRole::SignedCopy,
            (false, true) => FileRole::Copy,
            (false, false) => FileRole::Zone,
        }
    }
}

impl Candidates {
    /// Creates an empty list with the size limits and the check of scripts of the sources.
    pub(super) fn bounded_by(sources: &[FileSource]) -> Self {
        let limits = sources.iter().map(|source| (source.rank, source.limits));
        let scripts = sources.first().map(|first| first.scripts.clone());
        Self {
            limits: limits.collect(),
            scripts: scripts.unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the size limits of the zone.
    pub(super) fn limits(&self, index: usize) -> FileLimits {
        let rank = self.list[index].rank;
        let found = self.limits.iter().find(|(of, _)| *of == rank);
        found.map_or_else(FileLimits::default, |(_, limits)| *limits)
    }

    /// Adds one file of the source with a rank.
    pub(super) fn add(&mut self, zone: Name<'_>, path: &Path, rank: u16) -> &mut DirectoryEntry {
        self.rank = rank;
        self.push(zone, path.as_os_str(), None)
    }

    pub(super) fn entry(&self, index: usize) -> &DirectoryEntry {
        &self.list[index]
    }

    /// Returns the zone's name, in lower case.
    pub(super) fn name(&self, index: usize) -> Name<'_> {
        let entry = &self.list[index];
        Name::from_valid_wire(&self.bytes[entry.start..entry.start + usize::from(entry.zone)])
    }

    /// Writes the path of the file into a reusable buffer.
    pub(super) fn path_into(&self, index: usize, path: &mut PathBuf) {
        let (directory, file) = self.place(index);
        path.as_mut_os_string().clear();
        if let Some((_, directory)) = directory {
            path.push(directory);
        }
        path.push(file);
    }

    /// Returns the directory of a file, as its number and path, and the name of the file; a file of a BIND
    /// configuration has its whole path as name.
    pub(super) fn place(&self, index: usize) -> (Option<(u32, &Path)>, &OsStr) {
        let entry = &self.list[index];
        let start = entry.start + usize::from(entry.zone);
        let file = OsStr::from_bytes(&self.bytes[start..start + entry.file as usize]);
        let directory = entry.directory;
        let directory = directory.map(|number| (number, &*self.directories[number as usize]));
        (directory, file)
    }

    fn push(
        &mut self,
        zone: Name<'_>,
        file: &OsStr,
        directory: Option<u32>,
    ) -> &mut DirectoryEntry {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(zone.as_wire());
        // Length octets are at most 63, below the letters.
        self.bytes[start..].make_ascii_lowercase();
        self.bytes.extend_from_slice(file.as_bytes());
        self.list.push(DirectoryEntry {
            start,
            zone: zone.as_wire().len() as u8,
            file: file.len() as u32,
            directory,
            rank: self.rank,
            role: FileRole::Zone,
            is_found: false,
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn push_list(&mut self, list: &FileList) {
        let first = self.directories.len();
        self.directories.extend_from_slice(list.directories());
        self.list.reserve(list.len());
        for listed in list.iter() {
            let directory = (first + listed.number) as u32;
            self.push(listed.zone, listed.file, Some(directory));
        }
    }
}

/// The result of a search.
pub(super) struct Scanned {
    pub candidates: Candidates,
    /// The search was incomplete: a zone that is not among the candidates may still exist.
    pub incomplete: bool,
}

/// The last valid state of BIND configurations, by path.
#[derive(Default)]
pub(super) struct Configurations(HashMap<PathBuf, bind::Taken>);

impl Configurations {
    pub(super) fn zones(&self) -> impl Iterator<Item = &bind::BindZone> {
        self.0.values().flat_map(|imported| &imported.zones)
    }

    /// Returns the views of those that have several, in their order.
    pub(super) fn views(&self) -> Vec<ViewRule> {
        let mut paths: Vec<_> = self.0.keys().collect();
        paths.sort_unstable();
        let views = paths.into_iter().flat_map(|path| &self.0[path].views);
        views.cloned().collect()
    }

    /// Returns the zones of one of them.
    pub(super) fn zones_in(&self, path: &Path) -> &[bind::BindZone] {
        self.0.get(path).map_or(&[], |imported| &imported.zones)
    }

    /// Returns the access lists of their zones. If two have a zone, a client must be in the lists of both.
    pub(super) fn access(&self) -> AccessRules {
        let mut rules = AccessRules::default();
        for zone in self.zones() {
            if let Some(list) = zone.allow_query() {
                let list = match rules.zone(zone.name()) {
                    Some(other) if other != list => Arc::new(list.intersection(other)),
                    _ => Arc::clone(list),
                };
                rules.set_zone(zone.name(), list);
            }
        }
        for imported in self.0.values() {
            if let Some(list) = &imported.blackhole {
                rules.blackhole = Some(match rules.blackhole {
                    Some(other) => Arc::new(list.union(&other)),
                    None => Arc::clone(list),
                });
            }
        }
        rules
    }

    /// Drops those that no source has any longer.
    pub(super) fn retain(&mut self, sources: &[FileSource]) {
        let is_named = |path: &PathBuf| {
            let mut sources = sources.iter();
            sources.any(|source| source.named_conf.as_ref() == Some(path))
        };
        self.0.retain(|path, _| is_named(path));
    }

    /// Reads one again; returns its zones if they are known, possibly from before.
    fn read(
        &mut self,
        path: &Path,
        watcher: Option<&Watcher>,
        report: &mut dyn FnMut(LoadEvent<'_>),
    ) -> Option<&[bind::BindZone]> {
        let found = bind::read(path, &mut Watched(watcher));
        for diagnostic in &found.diagnostics {
            report(LoadEvent::Problem(&diagnostic.to_string()));
        }
        if found.diagnostics.is_empty() {
            let mut taken = found.take();
            for note in std::mem::take(&mut taken.notes) {
                report(LoadEvent::Note(&note.to_string()));
            }
            if let Some(note) = journals(&taken.zones) {
                report(LoadEvent::Note(&format!("{}: {note}", path.display())));
            }
            self.0.insert(path.to_path_buf(), taken);
        }
        self.0.get(path).map(|imported| &imported.zones[..])
    }
}

/// Returns a warning about zones whose files are older than the version BIND serves.
fn journals(zones: &[bind::BindZone]) -> Option<String> {
    let has_one = |zone: &&bind::BindZone| {
        !zone.is_signed_copy() && zone.journal().is_some_and(|path| path.exists())
    };
    let mut zones = zones.iter().filter(has_one);
    let first = zones.next()?.name();
    let more = match zones.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "zone {first}{more}: the journal is not read; run `rndc sync` to write it to the zone file"
    ))
}

/// Files of a configuration that are watched before they are read.
struct Watched<'w>(Option<&'w Watcher>);

impl Files for Watched<'_> {
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        if let Some(watcher) = self.0 {
            watcher.file(path, Interest::All);
        }
        OnDisk.read(path, max)
    }

    fn matching(&mut self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        if let (Some(watcher), Some(directory)) = (self.0, pattern.parent()) {
            watcher.directory(directory, WatchedFiles::Any);
        }
        OnDisk.matching(pattern)
    }

    fn interfaces(&mut self) -> io::Result<Vec<(IpAddr, u8)>> {
        OnDisk.interfaces()
    }
}

/// Searches all sources in order, listed zones first.
pub(super) fn scan(
    sources: &[FileSource],
    configurations: &mut Configurations,
    watcher: Option<&Watcher>,
    report: &mut dyn FnMut(LoadEvent<'_>),
) -> Scanned {
    let mut scanned = Scanned {
        candidates: Candidates::bounded_by(sources),
        incomplete: false,
    };
    for source in sources {
        scanned.candidates.rank = source.rank;
        let watcher = watcher.filter(|_| source.watch);
        if let Some(watcher) = watcher {
            watcher.listed(&source.zones);
        }
        scanned.candidates.push_list(&source.zones);
        if let Some(path) = &source.named_conf {
            match configurations.read(path, watcher, report) {
                None => scanned.incomplete = true,
                Some(zones) => {
                    for zone in zones {
                        configured(zone, &mut scanned, watcher);
                    }
                }
            }
        }
        if let Some(directory) = &source.directory {
            if let Some(watcher) = watcher {
                // Its parent gets the event when it is replaced as a whole.
                watcher.file(directory, Interest::All);
            }
            let mut walk = DirectoryWalk {
                scanned: &mut scanned,
                written: &source.written,
                watcher,
                report,
            };
            walk.directory(directory, DEPTH_MAX);
        }
    }
    scanned
}

/// Adds a zone of a BIND configuration.
fn configured(zone: &bind::BindZone, scanned: &mut Scanned, watcher: Option<&Watcher>) {
    let file = zone.file.as_deref().map_or(OsStr::new(""), Path::as_os_str);
    if let (Some(watcher), Some(path)) = (watcher, &zone.file) {
        watcher.file(path, Interest::Zone);
        if let Some(journal) = zone.journal().filter(|_| zone.is_signed_copy()) {
            watcher.file(&journal, Interest::All);
        }
    }
    let entry = scanned.candidates.push(zone.name(), file, None);
    entry.role = FileRole::from_zone(zone);
}

/// A walk through the directories of one source.
struct DirectoryWalk<'w> {
    scanned: &'w mut Scanned,
    written: &'w WrittenFiles,
    watcher: Option<&'w Watcher>,
    report: &'w mut dyn FnMut(LoadEvent<'_>),
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) {
        let mut subdirectories = Vec::new();
        if let Some(watcher) = self.watcher {
            watcher.directory(directory, WatchedFiles::Zones);
        }
        if let Err(error) = self.list(directory, &mut subdirectories) {
            self.scanned.incomplete = true;
            let (reason, note) = (reason_of(&error), sandbox::explain(directory, &error));
            self.trouble(&format!(
                "cannot read {}: {reason}{note}",
                directory.display()
            ));
        }
        for subdirectory in subdirectories {
            if depth > 1 {
                self.directory(&subdirectory, depth - 1);
            } else {
                let path = subdirectory.display();
                self.trouble(&format!(
                    "{path}: ignored: more than {DEPTH_MAX} directories deep"
                ));
            }
        }
    }

    fn trouble(&mut self, text: &str) {
        (self.report)(LoadEvent::Problem(text));
    }

    fn list(&mut self, directory: &Path, subdirectories: &mut Vec<PathBuf>) -> io::Result<()> {
        let directories = &mut self.scanned.candidates.directories;
        let number = directories.len() as u32;
        directories.push(directory.to_path_buf());
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (file_name, file_type) = (entry.file_name(), entry.file_type()?);
            if file_name.as_bytes().starts_with(b".") {
                continue;
            }
            if file_type.is_dir() {
                subdirectories.push(entry.path());
                continue;
            }
            match zone_name(&file_name) {
                None => {}
                Some(_) if self.written.has(&entry.path()) => {}
                Some(Ok(name)) => {
                    if let Some(watcher) = self.watcher.filter(|_| file_type.is_symlink())
                        && let Ok(target) = entry.path().canonicalize()
                    {
                        watcher.link_target(&target);
                    }
                    let candidates = &mut self.scanned.candidates;
                    let entry = candidates.push(name.as_name(), &file_name, Some(number));
                    entry.is_found = true;
                }
                Some(Err(error)) => {
                    let path = entry.path();
                    let path = path.display();
                    self.trouble(&format!(
                        "{path}: ignored: the file name is not a zone name: {error}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Returns the zone that a walk through `directory` would find at `path`.
pub(super) fn zone_at(directory: &Path, path: &Path) -> Option<NameBuf> {
    let below = path.strip_prefix(directory).ok()?;
    let mut depth = 0;
    for component in below.iter() {
        depth += 1;
        if component.as_bytes().starts_with(b".") || depth > DEPTH_MAX {
            return None;
        }
    }
    zone_name(path.file_name()?)?.ok()
}

/// Returns the zone that a file name represents; `None` if it is not a zone file.
fn zone_name(file_name: &OsStr) -> Option<Result<NameBuf, nameward_wire::NameError>> {
    let stem = file_name.as_bytes().strip_suffix(b".zone")?;
    // A text that is not UTF-8 cannot have a variant.
    Some(match std::str::from_utf8(stem) {
        Ok(stem) => NameBuf::zone_from_text(stem),
        Err(_) => NameBuf::from_text(stem, Name::ROOT),
    })
}
