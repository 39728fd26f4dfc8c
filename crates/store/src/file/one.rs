//! Owns the reading of one zone file: whether it changed, its bytes, the zone made of them.
//!
//! Small files, of which there may be a hundred thousand, go through one buffer that the thread
//! keeps: open, fstat, read, close. Large ones are read in blocks by the parser.

use std::{
    fs::{File, Metadata, OpenOptions},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
    num::NonZeroU64,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nameward_wire::{
    Name,
    zonefile::{self, Diagnostic, Options, Report, Severity},
};
use nameward_zone::{Finding, Zone, ZoneBuilder};

use super::{raw, scan::plain};

/// Files up to this size are read whole.
const SMALL: u64 = 256 * 1024;
/// Bytes of address space set aside for a zone before it is read, at most.
const MOST_RESERVED: u64 = 1 << 30;
/// A file changed this short a time before it was read may change again within the same tick of
/// the clock that stamps files; it is not trusted to be unchanged.
const SETTLED: Duration = Duration::from_millis(50);

/// Which contents a file had: equal fingerprints mean that it was not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(NonZeroU64);

impl Fingerprint {
    fn of(hasher: &DefaultHasher) -> Self {
        // Not zero, so that there is room for "none" without another word.
        Self(NonZeroU64::MIN | hasher.finish())
    }
}

/// What reading a zone brought.
pub(super) struct ZoneRead {
    /// `None`: it has errors.
    pub zone: Option<Zone>,
    /// There is no such file.
    pub is_missing: bool,
    pub diagnostics: Vec<Diagnostic>,
    /// Of the file and all it includes.
    pub fingerprint: Option<Fingerprint>,
    pub includes: Vec<PathBuf>,
}

/// Reads zones one after the other with the same buffers.
pub(super) struct Reader {
    buffer: Vec<u8>,
    options: Options,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            options: Options::new(nameward_wire::NameBuf::root()),
        }
    }

    /// Reads the zone `name` from `path`.
    pub(super) fn read(&mut self, name: Name<'_>, path: &Path) -> ZoneRead {
        let (mut file, metadata) = match open(path) {
            Ok(opened) => opened,
            Err(error) => return unreadable(path, &error),
        };
        let mut stamp = Stamp::new();
        stamp.add(&metadata);
        self.options.origin = name.into();
        // Packed, lines of one short record take 1.8 to 2.2 times the room of their text; what is
        // not used is never touched, but growing copies and doubles.
        let room = (metadata.len().saturating_mul(9) / 4).min(MOST_RESERVED);
        let mut builder = ZoneBuilder::with_capacity(name, room as usize);
        let report = if metadata.len() <= SMALL {
            match self.fill(&mut file, metadata.len() as usize) {
                Ok(length) => self.parse(path, length, &mut builder),
                Err(error) => return unreadable(path, &error),
            }
        } else if raw::is_raw(&start(&file)) {
            raw::parse(path, file, &mut builder)
        } else {
            drop(file);
            self.options.include_base = None;
            zonefile::parse_file(path, &self.options, &mut builder)
        };
        finish(builder, report, stamp)
    }

    /// Reads up to the size the file had; what is appended later is seen by the next load.
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

    fn parse(&mut self, path: &Path, length: usize, builder: &mut ZoneBuilder) -> Report {
        let text = &self.buffer[..length];
        if raw::is_raw(text) {
            return raw::parse(path, text, builder);
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        if self.options.include_base.as_deref() != Some(directory) {
            self.options.include_base = Some(directory.to_path_buf());
        }
        let label = path.to_string_lossy();
        zonefile::parse_bytes(&label, text, &self.options, builder)
    }
}

/// Makes a zone of text that is in no file.
pub(super) fn from_text(
    name: Name<'_>,
    label: &Path,
    text: &[u8],
) -> Result<Zone, Vec<Diagnostic>> {
    let mut builder = ZoneBuilder::with_capacity(name, text.len());
    let options = Options::new(name.into());
    let label = label.to_string_lossy();
    let report = zonefile::parse_bytes(&label, text, &options, &mut builder);
    let read = finish(builder, report, Stamp::new());
    read.zone.ok_or(read.diagnostics)
}

/// The fingerprint the files have now; `None` when one of them is gone.
pub(super) fn fingerprint_now(path: &Path, includes: &[PathBuf]) -> Option<Fingerprint> {
    let mut stamp = Stamp::new();
    stamp.add(&std::fs::metadata(path).ok()?);
    for include in includes {
        stamp.add(&std::fs::metadata(include).ok()?);
    }
    Some(Fingerprint::of(&stamp.hasher))
}

/// Collects the fingerprint of several files.
struct Stamp {
    hasher: DefaultHasher,
    newest: SystemTime,
}

impl Stamp {
    fn new() -> Self {
        Self {
            hasher: DefaultHasher::new(),
            newest: SystemTime::UNIX_EPOCH,
        }
    }

    fn add(&mut self, metadata: &Metadata) {
        let m = metadata;
        let contents = (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        // The change time also moves where a tool restores the modification time.
        (contents, m.ctime(), m.ctime_nsec()).hash(&mut self.hasher);
        if let Ok(modified) = metadata.modified() {
            self.newest = self.newest.max(modified);
        }
    }

    fn finish(self) -> Option<Fingerprint> {
        let age = SystemTime::now().duration_since(self.newest);
        let settled = age.is_ok_and(|age| age >= SETTLED);
        settled.then(|| Fingerprint::of(&self.hasher))
    }
}

/// Opens a regular file. Without O_NONBLOCK, opening a FIFO would wait for its writer.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else if metadata.is_dir() {
        Err(io::Error::other("it is a directory"))
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> ZoneRead {
    let message = format!("cannot be read: {}", plain(error));
    ZoneRead {
        zone: None,
        is_missing: error.kind() == io::ErrorKind::NotFound,
        diagnostics: vec![diagnostic(path, Severity::Error, 0, message)],
        fingerprint: None,
        includes: Vec::new(),
    }
}

/// How the file begins.
fn start(file: &File) -> [u8; 4] {
    let mut start = [0; 4];
    // A file that is too short is text.
    match file.read_exact_at(&mut start, 0) {
        Ok(()) => start,
        Err(_) => [b' '; 4],
    }
}

fn diagnostic(path: &Path, severity: Severity, line: u32, message: String) -> Diagnostic {
    Diagnostic {
        severity,
        file: path.to_string_lossy().into(),
        line,
        column: 0,
        message,
    }
}

/// Ends the zone and joins what the parser and the checks found, in the order of the text.
fn finish(builder: ZoneBuilder, report: Report, mut stamp: Stamp) -> ZoneRead {
    let broken = report.has_errors();
    let mut includes: Vec<PathBuf> = report.files;
    let (zone, findings) = builder.finish();
    let mut diagnostics = report.diagnostics;
    // After syntax errors the checks complain about records that were not read.
    diagnostics.extend(
        findings
            .into_iter()
            .filter(|finding| !broken || finding.line != 0)
            .map(|finding| placed(finding, &includes)),
    );
    diagnostics
        .sort_by_key(|diagnostic| (diagnostic.severity == Severity::Warning, diagnostic.line));
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
        fingerprint: stamp.finish().filter(|_| all_there),
        includes,
    }
}

fn placed(finding: Finding, files: &[PathBuf]) -> Diagnostic {
    let path = files.get(usize::from(finding.file)).or(files.first());
    let path = path.map_or(Path::new(""), PathBuf::as_path);
    diagnostic(path, finding.severity, finding.line, finding.message)
}
