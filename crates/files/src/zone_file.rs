//! Reads one zone file: whether it changed, its bytes, and the resulting zone.
//!
//! Small files, of which there may be a hundred thousand, go through one buffer per thread: open, fstat, read, close.
//! Large ones are read in blocks by the parser.

mod signed_copy;

use std::{
    fs::{File, Metadata},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
    num::NonZeroU64,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nameward_base::sandbox;
use nameward_import::{
    bind::{journal, raw},
    open_regular, reason_of,
};
use nameward_wire::{
    Name,
    zonefile::{self, Diagnostic, Options, Report, Severity},
};
use nameward_zone::{Finding, ScriptCheck, Zone, ZoneBuilder};

use super::{FileLimits, discovery::FileRole};

/// Maximum size of a file that is read whole.
const SMALL: u64 = 256 * 1024;
/// Maximum number of bytes of address space reserved for a zone before it is read.
const MOST_RESERVED: u64 = 1 << 30;
/// A file changed this shortly before it was read may change again within the same tick of the file system clock; it
/// is not trusted to be unchanged.
const SETTLED: Duration = Duration::from_millis(50);
/// A file not changed for this long is hardly being written just now.
const OLD: Duration = Duration::from_secs(10);

/// How often a file is read that changes while it is read.
const READS: usize = 3;

/// Identifies the contents of a file: equal fingerprints mean that it was not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(NonZeroU64);

impl Fingerprint {
    fn from_hasher(hasher: &DefaultHasher) -> Self {
        // Not zero, so that `None` needs no additional word.
        Self(NonZeroU64::MIN | hasher.finish())
    }
}

/// The outcome of reading a zone.
#[derive(Default)]
pub(super) struct ZoneRead {
    /// `None`: it has errors.
    pub zone: Option<Zone>,
    /// The file does not exist.
    pub is_missing: bool,
    pub diagnostics: Vec<Diagnostic>,
    /// Position of the SOA: the file, if it is an included one, and the line.
    pub soa_location: (Option<PathBuf>, u32),
    /// Fingerprint of the file and its includes.
    pub fingerprint: Option<Fingerprint>,
    pub includes: Vec<PathBuf>,
}

/// Reads zones one after the other with the same buffers.
pub(super) struct ZoneFileReader {
    buffer: Vec<u8>,
    options: Options,
    builder: ZoneBuilder,
    scripts: ScriptCheck,
}

impl ZoneFileReader {
    pub(super) fn new(scripts: ScriptCheck) -> Self {
        Self {
            buffer: Vec::new(),
            options: Options::new(nameward_wire::NameBuf::root()),
            builder: ZoneBuilder::new(Name::ROOT),
            scripts,
        }
    }

    /// Reads the zone `name` from `path`. A file that changes in the meantime is read again, so that a mix of two
    /// versions is never accepted.
    pub(super) fn read(
        &mut self,
        (name, path): (Name<'_>, &Path),
        limits: FileLimits,
        role: FileRole,
    ) -> ZoneRead {
        match role {
            FileRole::Zone | FileRole::Copy => {
                read_whole(path, || self.read_once((name, path), limits, None))
            }
            FileRole::SignedCopy => {
                let journal = journal::path_of(path);
                let once = || self.read_once((name, path), limits, Some(&journal));
                signed_copy::complete(read_whole(path, once), path, journal)
            }
        }
    }

    fn read_once(
        &mut self,
        (name, path): (Name<'_>, &Path),
        limits: FileLimits,
        journal: Option<&Path>,
    ) -> Once {
        let (mut file, metadata) = match open_regular(path) {
            Ok(opened) => opened,
            Err(error) => return (unreadable(path, &error), None),
        };
        let mut stamp = FileStamp::new();
        stamp.add(&metadata);
        if let Some(journal) = journal {
            // Before it is read: later writes are a different state.
            stamp.add_path(journal);
        }
        self.options.origin = name.zone().into();
        self.options.generated_octets = limits.generated_octets;
        // Packed, lines with one short record take 1.8 to 2.2 times the size of their text; unused space is never
        // touched, but growing copies and doubles.
        let room = (metadata.len().saturating_mul(9) / 4).min(MOST_RESERVED);
        self.builder.restart(name, room as usize);
        self.builder.set_limits(limits.zone);
        self.builder.check_scripts(&self.scripts);
        let report = if metadata.len() <= SMALL {
            match self.fill(&mut file, metadata.len() as usize) {
                Ok(length) => self.parse(path, length),
                Err(error) => return (unreadable(path, &error), None),
            }
        } else if raw::is_raw(&start(&file)) {
            raw::parse(path, file, &mut self.builder)
        } else {
            drop(file);
            self.options.include_base = None;
            zonefile::parse_file(path, &self.options, &mut self.builder)
        };
        (finish(&mut self.builder, report, stamp), Some(metadata))
    }

    /// Reads up to the size the file had; data appended later is seen by the next load.
    fn fill(&mut self, file: &mut File, size: usize) -> io::Result<usize> {
        if self.buffer.len() < size {
            self.buffer.resize(size.next_power_of_two(), 0);
        }
        let mut filled = 0;
        while filled < size {
            match file.read(&mut self.buffer[filled..size]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn parse(&mut self, path: &Path, length: usize) -> Report {
        let text = &self.buffer[..length];
        if raw::is_raw(text) {
            return raw::parse(path, text, &mut self.builder);
        }
        let base = self.options.include_base.as_deref();
        if !base.is_some_and(|base| stands_in(path, base)) {
            let directory = path.parent().unwrap_or(Path::new(""));
            self.options.include_base = Some(directory.to_path_buf());
        }
        zonefile::parse_bytes(path, text, &self.options, &mut self.builder)
    }
}

/// Checks whether the path is that of the directory, a slash and a name: for many files of one directory this
/// compares octets without parsing paths. A false result may be wrong.
fn stands_in(path: &Path, directory: &Path) -> bool {
    let (path, directory) = (
        path.as_os_str().as_bytes(),
        directory.as_os_str().as_bytes(),
    );
    let name = path
        .strip_prefix(directory)
        .and_then(|rest| rest.strip_prefix(b"/"));
    name.is_some_and(|name| !name.is_empty() && !name.contains(&b'/') && !name.starts_with(b"."))
}

/// The result, and the state in which the file was opened.
type Once = (ZoneRead, Option<Metadata>);

/// Reads a file until it does not change while it is read.
fn read_whole(path: &Path, mut once: impl FnMut() -> Once) -> ZoneRead {
    for _ in 0..READS {
        match once() {
            (read, Some(before)) if may_be_torn(path, &before) => drop(read),
            (read, _) => return read,
        }
    }
    unreadable(path, &io::Error::other("the file is being written"))
}

/// Checks whether the file has changed since it was opened. Small files that were not changed for a while are read in
/// one call; they are not checked, since there may be a hundred thousand.
fn may_be_torn(path: &Path, before: &Metadata) -> bool {
    let is_old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age >= OLD);
    if before.len() <= SMALL && before.modified().is_ok_and(is_old) {
        return false;
    }
    let state = |m: &Metadata| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
    match std::fs::metadata(path) {
        Ok(now) => state(&now) != state(before),
        // Deleted: left to the next check.
        Err(_) => false,
    }
}

/// Parses a zone from text that is part of the program; `label` is used as its file name.
pub fn zone_from_text(name: Name<'_>, label: &str, text: &[u8]) -> Result<Zone, Vec<Diagnostic>> {
    zone_from_text_with_warnings(name, label, text, &ScriptCheck::default()).map(|(zone, _)| zone)
}

/// Parses a zone from text, with its warnings; `label` is used as its file name.
pub fn zone_from_text_with_warnings(
    name: Name<'_>,
    label: &str,
    text: &[u8],
    scripts: &ScriptCheck,
) -> Result<(Zone, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut builder = ZoneBuilder::with_capacity(name, text.len());
    builder.check_scripts(scripts);
    let options = Options::new(name.into());
    let report = zonefile::parse_bytes(label, text, &options, &mut builder);
    with_warnings(finish(&mut builder, report, FileStamp::new()))
}

fn with_warnings(read: ZoneRead) -> Result<(Zone, Vec<Diagnostic>), Vec<Diagnostic>> {
    match read.zone {
        Some(zone) => Ok((zone, read.diagnostics)),
        None => Err(read.diagnostics),
    }
}

/// Reads a zone from a file and its includes; returns the zone with warnings, or errors.
pub fn zone_from_file(
    name: Name<'_>,
    path: &Path,
    scripts: &ScriptCheck,
) -> Result<(Zone, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut builder = ZoneBuilder::new(name);
    builder.check_scripts(scripts);
    let options = Options::new(name.into());
    let report = zonefile::parse_file(path, &options, &mut builder);
    with_warnings(finish(&mut builder, report, FileStamp::new()))
}

/// Returns the current fingerprint of the files; `None` if the first of them does not exist.
pub(super) fn fingerprint_now(path: &Path, includes: &[PathBuf]) -> Option<Fingerprint> {
    let mut stamp = FileStamp::new();
    stamp.add(&std::fs::metadata(path).ok()?);
    for include in includes {
        stamp.add_path(include);
    }
    Some(Fingerprint::from_hasher(&stamp.hasher))
}

/// Computes the fingerprint of several files.
struct FileStamp {
    hasher: DefaultHasher,
    newest: SystemTime,
}

impl FileStamp {
    fn new() -> Self {
        Self {
            hasher: DefaultHasher::new(),
            newest: SystemTime::UNIX_EPOCH,
        }
    }

    fn add(&mut self, metadata: &Metadata) {
        let m = metadata;
        let contents = (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        // The change time also advances when a tool restores the modification time.
        (contents, m.ctime(), m.ctime_nsec()).hash(&mut self.hasher);
        if let Ok(modified) = metadata.modified() {
            self.newest = self.newest.max(modified);
        }
    }

    /// Adds a file that may be missing.
    fn add_path(&mut self, path: &Path) {
        match std::fs::metadata(path) {
            Ok(metadata) => self.add(&metadata),
            Err(_) => "missing".hash(&mut self.hasher),
        }
    }

    fn finish(self) -> Option<Fingerprint> {
        let age = SystemTime::now().duration_since(self.newest);
        let settled = age.is_ok_and(|age| age >= SETTLED);
        settled.then(|| Fingerprint::from_hasher(&self.hasher))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> ZoneRead {
    let note = sandbox::explain(path, error);
    let message = format!("cannot be read: {}{note}", reason_of(error));
    ZoneRead {
        is_missing: error.kind() == io::ErrorKind::NotFound,
        ..no_zone(path, message)
    }
}

/// Returns the result for a zone that triggered a bug.
pub(super) fn left_by_a_bug(path: &Path) -> ZoneRead {
    let message = "cannot be read: internal error; please report it and attach the file";
    no_zone(path, message.into())
}

fn no_zone(path: &Path, message: String) -> ZoneRead {
    ZoneRead {
        diagnostics: vec![diagnostic(path, Severity::Error, 0, message)],
        ..ZoneRead::default()
    }
}

/// Returns the first four octets of a file.
fn start(file: &File) -> [u8; 4] {
    let mut start = [0; 4];
    // A file that is too short is text.
    match file.read_exact_at(&mut start, 0) {
        Ok(()) => start,
        Err(_) => [b' '; 4],
    }
}

pub(super) fn diagnostic(
    path: &Path,
    severity: Severity,
    line: u32,
    message: String,
) -> Diagnostic {
    Diagnostic {
        severity,
        file: path.to_string_lossy().into(),
        line,
        column: 0,
        message,
    }
}

/// Finishes the zone and merges the findings of the parser and the checks, in text order.
fn finish(builder: &mut ZoneBuilder, report: Report, mut stamp: FileStamp) -> ZoneRead {
    let broken = report.has_errors();
    let mut includes: Vec<PathBuf> = report.files;
    let (soa_line, soa_file) = builder.soa_location().line_and_file();
    let (mut zone, findings) = builder.end();
    if let Some(zone) = &mut zone {
        zone.set_signing(zone.stored_signatures());
    }
    let mut diagnostics = report.diagnostics;
    // After syntax errors the checks complain about records that were not read.
    diagnostics.extend(
        findings
            .into_iter()
            .filter(|finding| !broken || !finding.location.is_none())
            .map(|finding| placed(finding, &includes)),
    );
    diagnostics
        .sort_by_key(|diagnostic| (diagnostic.severity == Severity::Warning, diagnostic.line));
    let soa_path = match soa_file {
        0 => None,
        file => includes.get(usize::from(file)).cloned(),
    };
    includes.drain(..includes.len().min(1));
    let mut all_there = true;
    for include in &includes {
        match std::fs::metadata(include) {
            Ok(metadata) => stamp.add(&metadata),
            Err(_) => all_there = false,
        }
    }
    ZoneRead {
        zone: zone.filter(|_| !broken),
        is_missing: false,
        diagnostics,
        soa_location: (soa_path, soa_line),
        fingerprint: stamp.finish().filter(|_| all_there),
        includes,
    }
}

fn placed(finding: Finding, files: &[PathBuf]) -> Diagnostic {
    let (line, file) = finding.location.line_and_file();
    let path = path_of(file, files);
    diagnostic(path, finding.severity, line, finding.message)
}

/// Returns the path of a file number assigned by the parser.
fn path_of(file: u16, files: &[PathBuf]) -> &Path {
    let path = files.get(usize::from(file)).or(files.first());
    path.map_or(Path::new(""), PathBuf::as_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;

    const ZONE: &str = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    #[test]
    fn the_parent_of_a_path_is_its_directory() {
        let places = [
            "/a/b/c", "/a/b", "/a/bc", "a/b", "a", "", "/", "/a/b/.", "/a/b/..", "/a//b", "/a/b/",
        ];
        let mut found = 0;
        for path in places.map(Path::new) {
            for directory in places.map(Path::new) {
                if stands_in(path, directory) {
                    assert_eq!(path.parent(), Some(directory), "{path:?}");
                    found += 1;
                }
            }
        }
        // The ones a list has: /a/b/c in /a/b, a/b in a.
        assert_eq!(found, 2);
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_read_again_and_at_last_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("example.zone");
        let name: NameBuf = "example".parse().unwrap();
        for (changes, expected) in [(0, 1), (2, 3), (3, 3)] {
            std::fs::write(&path, ZONE).unwrap();
            let mut reader = ZoneFileReader::new(ScriptCheck::default());
            let mut reads = 0;
            let read = read_whole(&path, || {
                let once = reader.read_once((name.as_name(), &path), FileLimits::default(), None);
                reads += 1;
                if reads <= changes {
                    let more = format!("{ZONE}www{} A 192.0.2.2\n", "x".repeat(reads));
                    std::fs::write(&path, more).unwrap();
                }
                once
            });
            assert_eq!(reads, expected);
            assert_eq!(read.zone.is_some(), changes < READS);
            let message = read.diagnostics.iter().map(ToString::to_string);
            let message: String = message.collect();
            assert_eq!(
                message.contains("the file is being written"),
                changes == READS
            );
        }
    }
}
