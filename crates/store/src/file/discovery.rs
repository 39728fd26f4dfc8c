//! Owns the search for zone files: names of files to names of zones.
//!
//! Directories are walked without following links to directories, so a walk ends; hidden files are
//! those of editors and of mounts being replaced, and are passed over.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    net::IpAddr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nameward_import::{Files, OnDisk, bind, reason_of};
use nameward_wire::{Name, NameBuf};
use nameward_zone::{AccessList, AccessRules};

use super::{
    FileLimits, FileSource, WrittenFiles,
    list::FileList,
    watch::{Interest, WatchedFiles, Watcher},
};

/// Directories in directories, at most.
const DEPTH_MAX: usize = 32;

/// Files that should hold a zone. Names and paths stand in one buffer: there may be a hundred
/// thousand of them, and they are needed for as long as a load takes.
#[derive(Default)]
pub(super) struct Candidates {
    bytes: Vec<u8>,
    directories: Vec<PathBuf>,
    list: Vec<DirectoryEntry>,
    /// The rank of the source that is looked at.
    rank: u16,
    /// The size that zones may grow to, by the rank of their source.
    limits: Vec<(u16, FileLimits)>,
}

struct DirectoryEntry {
    /// Where the zone's name and then the file's name begin.
    start: usize,
    /// Length of the zone's name, in wire form and lower case.
    zone: u8,
    /// Length of the file's name.
    file: u32,
    /// Index of its directory; listed files stand in none.
    directory: Option<u32>,
    /// Rank of its source.
    rank: u16,
    role: FileRole,
    /// It was found in a directory: without the file there is no zone.
    is_found: bool,
}

/// The contents of a zone file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileRole {
    /// The zone itself.
    Zone,
    /// The copy of a zone that another server has: it may be missing.
    Copy,
    /// The zone as BIND signed it, with a journal beside it: it may be missing, and is never served without signatures.
    SignedCopy,
}

impl FileRole {
    /// Returns the role of the file of a zone of BIND's configuration.
    pub(super) fn of(zone: &bind::BindZone) -> Self {
        match (zone.is_signed_copy(), zone.is_copy()) {
            (true, _) => FileRole::SignedCopy,
            (false, true) => FileRole::Copy,
            (false, false) => FileRole::Zone,
        }
    }
}

impl Candidates {
    /// No files yet; those that come are bounded as their sources say.
    pub(super) fn bounded_by(sources: &[FileSource]) -> Self {
        let limits = sources.iter().map(|source| (source.rank, source.limits));
        Self {
            limits: limits.collect(),
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The size that the zone may grow to.
    pub(super) fn limits(&self, index: usize) -> FileLimits {
        let rank = self.rank(index);
        let found = self.limits.iter().find(|(of, _)| *of == rank);
        found.map_or_else(FileLimits::default, |(_, limits)| *limits)
    }

    /// Adds one file.
    pub(super) fn add(&mut self, zone: Name<'_>, path: &Path, rank: u16, role: FileRole) -> usize {
        self.rank = rank;
        self.push(zone, path.as_os_str(), None).role = role;
        self.list.len() - 1
    }

    /// The zone's name, in lower case.
    pub(super) fn name(&self, index: usize) -> Name<'_> {
        let entry = &self.list[index];
        Name::from_valid_wire(&self.bytes[entry.start..entry.start + usize::from(entry.zone)])
    }

    /// Puts the path of the file into a buffer that is used again.
    pub(super) fn path_into(&self, index: usize, path: &mut PathBuf) {
        let (directory, file) = self.place(index);
        path.as_mut_os_string().clear();
        if let Some((_, directory)) = directory {
            path.push(directory);
        }
        path.push(file);
    }

    /// The directory of a file, by its number and its path, and the name of the file; a file of BIND's configuration has its
    /// whole path for a name.
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

    /// Adds the files of a list.
    fn push_list(&mut self, list: &FileList) {
        let first = self.directories.len();
        self.directories.extend_from_slice(list.directories());
        self.list.reserve(list.len());
        for listed in list.iter() {
            let directory = (first + listed.number) as u32;
            self.push(listed.zone, listed.file, Some(directory));
        }
    }

    /// Returns the role of the file.
    pub(super) fn role(&self, index: usize) -> FileRole {
        self.list[index].role
    }

    /// Whether the file was found in a directory, and not listed.
    pub(super) fn is_found(&self, index: usize) -> bool {
        self.list[index].is_found
    }

    /// Records that a file was found in a directory.
    pub(super) fn set_found(&mut self, index: usize) {
        self.list[index].is_found = true;
    }

    /// The rank of the source it is from.
    pub(super) fn rank(&self, index: usize) -> u16 {
        self.list[index].rank
    }
}

/// The zones that a search found.
pub(super) struct Scanned {
    pub candidates: Candidates,
    /// Not everything could be looked at: a zone that is not among the candidates may be there.
    pub incomplete: bool,
}

/// An event of a search.
pub(super) enum Said<'s> {
    /// Something could not be used.
    Trouble(&'s str),
    /// Something is not taken, or not as it was.
    Note(&'s str),
}

/// The configurations of BIND as they were when they were good the last time, by their paths.
#[derive(Default)]
pub(super) struct Configurations(HashMap<PathBuf, Imported>);

/// The zones and lists of one configuration of BIND.
struct Imported {
    zones: Vec<bind::BindZone>,
    blackhole: Option<Arc<AccessList>>,
}

impl Configurations {
    /// All their zones.
    pub(super) fn zones(&self) -> impl Iterator<Item = &bind::BindZone> {
        self.0.values().flat_map(|imported| &imported.zones)
    }

    /// The zones of one of them.
    pub(super) fn of(&self, path: &Path) -> &[bind::BindZone] {
        self.0.get(path).map_or(&[], |imported| &imported.zones)
    }

    /// Who may ask their zones. Where two have a zone, a client has to be in the lists of both.
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

    /// Forgets those that no source has any more.
    pub(super) fn keep(&mut self, sources: &[FileSource]) {
        let is_named = |path: &PathBuf| {
            let mut sources = sources.iter();
            sources.any(|source| source.named_conf.as_ref() == Some(path))
        };
        self.0.retain(|path, _| is_named(path));
    }

    /// Reads one again; whether its zones are known, maybe from before.
    fn read(
        &mut self,
        path: &Path,
        watcher: Option<&Watcher>,
        say: &mut dyn FnMut(Said<'_>),
    ) -> Option<&[bind::BindZone]> {
        let found = bind::read(path, &mut Watched(watcher));
        for diagnostic in &found.diagnostics {
            say(Said::Trouble(&diagnostic.to_string()));
        }
        if found.diagnostics.is_empty() {
            let taken = found.take();
            for note in &taken.notes {
                say(Said::Note(&note.to_string()));
            }
            if let Some(note) = journals(&taken.zones) {
                say(Said::Note(&format!("{}: {note}", path.display())));
            }
            let imported = Imported {
                zones: taken.zones,
                blackhole: taken.blackhole,
            };
            self.0.insert(path.to_path_buf(), imported);
        }
        self.0.get(path).map(|imported| &imported.zones[..])
    }
}

/// Returns a warning about zones whose files are older than what BIND serves.
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
        "the zone {first}{more} has a journal, which is not read: rndc sync writes it to the file"
    ))
}

/// Files of a configuration that are watched from before they are read.
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

/// Looks at all sources, in their order, listed zones first.
pub(super) fn scan(
    sources: &[FileSource],
    configurations: &mut Configurations,
    watcher: Option<&Watcher>,
    say: &mut dyn FnMut(Said<'_>),
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
            match configurations.read(path, watcher, say) {
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
                // Its parent has the event when it is replaced as a whole.
                watcher.file(directory, Interest::All);
            }
            let mut walk = DirectoryWalk {
                scanned: &mut scanned,
                written: &source.written,
                watcher,
                say,
            };
            walk.directory(directory, DEPTH_MAX);
        }
    }
    scanned
}

/// A zone of BIND's configuration.
fn configured(zone: &bind::BindZone, scanned: &mut Scanned, watcher: Option<&Watcher>) {
    let file = zone.file.as_deref().map_or(OsStr::new(""), Path::as_os_str);
    if let (Some(watcher), Some(path)) = (watcher, &zone.file) {
        watcher.file(path, Interest::Zone);
        if let Some(journal) = zone.journal().filter(|_| zone.is_signed_copy()) {
            watcher.file(&journal, Interest::All);
        }
    }
    let entry = scanned.candidates.push(zone.name(), file, None);
    entry.role = FileRole::of(zone);
}

/// A walk through the directories of one source.
struct DirectoryWalk<'w> {
    scanned: &'w mut Scanned,
    written: &'w WrittenFiles,
    watcher: Option<&'w Watcher>,
    say: &'w mut dyn FnMut(Said<'_>),
}

impl DirectoryWalk<'_> {
    fn directory(&mut self, directory: &Path, depth: usize) {
        let mut subdirectories = Vec::new();
        if let Some(watcher) = self.watcher {
            watcher.directory(directory, WatchedFiles::Zones);
        }
        if let Err(error) = self.list(directory, &mut subdirectories) {
            self.scanned.incomplete = true;
            let reason = reason_of(&error);
            self.trouble(&format!("cannot read {}: {reason}", directory.display()));
        }
        for subdirectory in subdirectories {
            if depth > 1 {
                self.directory(&subdirectory, depth - 1);
            } else {
                let path = subdirectory.display();
                self.trouble(&format!(
                    "{path}: more than {DEPTH_MAX} directories deep: ignored"
                ));
            }
        }
    }

    fn trouble(&mut self, text: &str) {
        (self.say)(Said::Trouble(text));
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
                    self.trouble(&format!("{path}: no zone has this name: {error}"));
                }
            }
        }
        Ok(())
    }
}

/// The zone that a walk through `directory` would find at `path`.
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

/// The zone that a file name stands for; `None` when it is no zone file.
fn zone_name(file_name: &OsStr) -> Option<Result<NameBuf, nameward_wire::NameError>> {
    let stem = file_name.as_bytes().strip_suffix(b".zone")?;
    Some(NameBuf::from_text(stem, Name::ROOT))
}
