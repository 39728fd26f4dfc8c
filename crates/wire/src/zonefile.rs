//! Zone files: master file text (RFC 1035 section 5) to records, one at a time, into a [`Sink`].
//!
//! Owns the entries, the directives `$ORIGIN`, `$TTL`, `$INCLUDE` and `$GENERATE`, and what an operator
//! reads when a file is wrong. A record is handed over in borrowed buffers that are reused, so nothing
//! is allocated for each record.
//!
//! Choices where the RFCs leave one:
//! - A record without a TTL gets that of `$TTL` (RFC 2308 section 4); without `$TTL` that of the record
//!   before (RFC 1035 section 5.1); a SOA record without either gets its own minimum, which then is the
//!   default for the rest of the file; then [`Options::default_ttl`]; then it is an error.
//! - A TTL above 2^31-1 is taken as zero with a warning (RFC 2181 section 8), as BIND does.
//! - After `$INCLUDE` the origin is as before (RFC 1035 section 5.1), and so is the last owner.
//! - Files are read in blocks, not through a memory map: a file cut short under a map ends the process
//!   with SIGBUS, and mapped pages count as memory of the process while it loads.

mod diagnostic;
mod directive;
mod entry;
mod generate;
mod parser;
mod place;
mod source;

use std::path::{Path, PathBuf};

use crate::name::{Name, NameBuf};
use crate::rtype::{Class, Type};

pub use diagnostic::{Diagnostic, MAX_ERRORS, Severity};
use parser::Parser;
pub use place::{RecordPlace, RecordPlaces, SourcePlace};

/// One record on its way into a zone: of a zone file, a transfer or a database.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The absolute owner, letter case as written.
    pub owner: Name<'a>,
    /// The owner is that of the record handed over just before. May be false although it is.
    pub same_owner: bool,
    /// Record type.
    pub rtype: Type,
    /// Class.
    pub class: Class,
    /// Time to live in seconds, at most 2^31-1.
    pub ttl: u32,
    /// Record data in uncompressed wire form.
    pub rdata: &'a [u8],
    /// The line on which the entry starts, or the row that it is read from.
    pub from: RecordPlace,
}

impl<'a> Record<'a> {
    /// Makes a record in class IN that comes from nowhere in particular.
    #[inline]
    pub fn new(owner: Name<'a>, rtype: Type, ttl: u32, rdata: &'a [u8]) -> Self {
        Record {
            owner,
            same_owner: false,
            rtype,
            class: Class::IN,
            ttl,
            rdata,
            from: RecordPlace::NONE,
        }
    }

    /// Makes the record with a place.
    #[inline]
    pub fn at(self, from: RecordPlace) -> Self {
        Record { from, ..self }
    }
}

/// Why a sink does not take a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRefusal {
    /// The record is wrong: the message becomes an error at its line, and reading goes on.
    Record(String),
    /// No more records are wanted. The sink says why; nothing is reported here.
    Stop,
}

/// Takes the records of a zone file in their order.
pub trait Sink {
    /// Takes one record.
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal>;

    /// Learns now and then how many octets of a large file are read, and of how many: a sink that grows with the records
    /// sees by that how many more will come. Files that are included are not counted.
    fn progress(&mut self, read: u64, of: u64) {
        let _ = (read, of);
    }
}

impl<F: FnMut(&Record<'_>) -> Result<(), SinkRefusal>> Sink for F {
    fn record(&mut self, record: &Record<'_>) -> Result<(), SinkRefusal> {
        self(record)
    }
}

/// How to read a zone file.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that names without a final dot are relative to, until `$ORIGIN`.
    pub origin: NameBuf,
    /// The TTL of records that no rule of the file gives one.
    pub default_ttl: Option<u32>,
    /// The class of the zone: records of another class are errors.
    pub class: Class,
    /// The directory of relative `$INCLUDE` paths. Without it they start from the directory of the
    /// file that includes, and text that is not in a file cannot include.
    pub include_base: Option<PathBuf>,
    /// How many records one `$GENERATE` may make.
    pub max_generate: u64,
    /// Octets that all `$GENERATE` may make in any case. A large file may make more: so many octets as
    /// [`GENERATED_FACTOR`] says for each of its own.
    pub generated_octets: u64,
}

/// How many octets may be generated for each octet of the file and what it includes.
pub const GENERATED_FACTOR: u64 = 1000;

impl Options {
    /// Class IN, no default TTL.
    pub fn new(origin: NameBuf) -> Self {
        Options {
            origin,
            default_ttl: None,
            class: Class::IN,
            include_base: None,
            // A reverse zone of an IPv4 /8.
            max_generate: 1 << 24,
            generated_octets: 64 << 20,
        }
    }
}

/// The outcome of reading a zone file.
#[derive(Debug)]
pub struct Report {
    /// Errors and warnings in the order of the text; at most [`MAX_ERRORS`] of each, then one that
    /// says what became of the rest.
    pub diagnostics: Vec<Diagnostic>,
    /// The file and all it includes, each once.
    pub files: Vec<PathBuf>,
    /// How many records the sink took.
    pub records: u64,
}

impl Report {
    /// Whether there was an error: the zone must not be served.
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

/// Reads zone-file text; `label` stands for the file name in messages.
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

/// Reads text as [`parse_bytes`] does, but in blocks of `size` bytes at first, as files are read.
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
