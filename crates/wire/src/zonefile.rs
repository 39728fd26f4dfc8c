//! The zone file parser: master file text (RFC 1035 section 5) to records, one at a time, into a [`Sink`].
//!
//! Handles entries, the directives `$ORIGIN`, `$TTL`, `$INCLUDE` and `$GENERATE`, and the diagnostics for invalid
//! files. A record is passed on in borrowed buffers that are reused, so there is no allocation per record.
//!
//! Choices where the RFCs leave one:
//! - A record without a TTL gets that of `$TTL` (RFC 2308 section 4); without `$TTL`, that of the previous record (RFC
//!   1035 section 5.1); a SOA record without either gets its own minimum, which then is the default for the rest of the
//!   file; then [`Options::default_ttl`]; otherwise it is an error.
//! - A TTL above 2^31-1 is treated as zero with a warning (RFC 2181 section 8), as in BIND.
//! - After `$INCLUDE` the origin is restored (RFC 1035 section 5.1), and so is the last owner.
//! - Files are read in blocks, not through a memory map: truncating a mapped file kills the process with SIGBUS, and
//!   mapped pages count towards the memory of the process while it loads.

mod diagnostic;
mod directive;
mod entry;
mod generate;
mod location;
mod parser;
mod source;

use std::path::{Path, PathBuf};

use crate::name::{Name, NameBuf};
use crate::rtype::{Class, Type};

pub use diagnostic::{Diagnostic, MAX_ERRORS, Severity};
pub use location::{RecordLocation, RecordLocations, SourceLocation};
use parser::Parser;

/// One record on its way into a zone, from a zone file, a transfer or a database.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The absolute owner, case as written.
    pub owner: Name<'a>,
    /// The owner is that of the previous record. False does not imply a different owner.
    pub same_owner: bool,
    /// The record type.
    pub rtype: Type,
    /// The record class.
    pub class: Class,
    /// Time to live in seconds, at most 2^31-1.
    pub ttl: u32,
    /// Record data in uncompressed wire form.
    pub rdata: &'a [u8],
    /// The line on which the entry starts, or the row it was read from.
    pub from: RecordLocation,
}

impl<'a> Record<'a> {
    /// Creates a record in class IN without a source location.
    #[inline]
    pub fn new(owner: Name<'a>, rtype: Type, ttl: u32, rdata: &'a [u8]) -> Self {
        Record {
            owner,
            same_owner: false,
            rtype,
            class: Class::IN,
            ttl,
            rdata,
            from: RecordLocation::NONE,
        }
    }

    /// Returns the record with a source location.
    #[inline]
    pub fn at(self, from: RecordLocation) -> Self {
        Record { from, ..self }
    }
}

/// The reason why a sink rejects a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRefusal {
    /// The record is invalid: the message becomes an error at its line, and parsing continues.
    Record(String),
    /// No further records are accepted. The sink reports the reason; nothing is reported here.
    Stop,
}

/// Receives the records of a zone file in order.
pub trait Sink {
    /// Adds one record.
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal>;

    /// Reports periodically how many octets of a large file have been read, and of how many: a sink that grows with the
    /// records can estimate how many more will follow. Included files are not counted.
    fn progress(&mut self, read: u64, of: u64) {
        let _ = (read, of);
    }
}

impl<F: FnMut(&Record<'_>) -> Result<(), SinkRefusal>> Sink for F {
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        self(record)
    }
}

/// Settings for reading a zone file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that relative names are completed with, until `$ORIGIN`.
    pub origin: NameBuf,
    /// The TTL of records for which the file does not determine one.
    pub default_ttl: Option<u32>,
    /// The class of the zone: records of another class are errors.
    pub class: Class,
    /// The base directory for relative `$INCLUDE` paths. By default it is the directory of the including file, and text
    /// that is not in a file cannot include others.
    pub include_base: Option<PathBuf>,
    /// Maximum number of records that one `$GENERATE` may create.
    pub max_generate: u64,
    /// Octets that all `$GENERATE` directives may always create together. A large file may create more:
    /// [`GENERATED_FACTOR`] octets for each of its own.
    pub generated_octets: u64,
}

/// Octets that may be generated for each octet of the file and the files it includes.
pub const GENERATED_FACTOR: u64 = 1000;

impl Options {
    /// Returns the settings for class IN without a default TTL.
    pub fn new(zone: NameBuf) -> Self {
        Options {
            origin: zone.as_name().zone().into(),
            default_ttl: None,
            class: Class::IN,
            include_base: None,
            // A reverse zone for an IPv4 /8.
            max_generate: 1 << 24,
            generated_octets: 64 << 20,
        }
    }
}

/// The outcome of reading a zone file.
#[derive(Debug)]
pub struct Report {
    /// Errors and warnings in text order; at most [`MAX_ERRORS`] of each, followed by one that summarises the rest.
    pub diagnostics: Vec<Diagnostic>,
    /// The file and all files it includes, each listed once.
    pub files: Vec<PathBuf>,
    /// The number of records the sink accepted.
    pub records: u64,
}

impl Report {
    /// Checks whether there was an error: the zone must not be served.
    pub fn has_errors(&self) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// Reads the zone file `path`.
pub fn parse_file<S: Sink + ?Sized>(path: &Path, options: &Options, sink: &mut S) -> Report {
    let mut parser = Parser::new(options, sink);
    parser.parse_path(path);
    parser.into_report()
}

/// Reads zone file text; `label` is used as the file name in messages.
pub fn parse_bytes<S: Sink + ?Sized>(
    label: impl AsRef<Path>,
    bytes: &[u8],
    options: &Options,
    sink: &mut S,
) -> Report {
    let mut parser = Parser::new(options, sink);
    parser.parse_text(label.as_ref(), bytes);
    parser.into_report()
}

/// Reads text like [`parse_bytes`], but in blocks of initially `size` bytes, as files are read.
pub(crate) fn parse_in_blocks<S: Sink + ?Sized>(
    bytes: &[u8],
    size: usize,
    options: &Options,
    sink: &mut S,
) -> Report {
    let mut parser = Parser::new(options, sink);
    parser.parse_text_in_blocks(Path::new("zone"), bytes, size);
    parser.into_report()
}
