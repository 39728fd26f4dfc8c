//! The zone file parser state: files and blocks in order, and recovery after an invalid entry.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nameward_base::sandbox;

use super::diagnostic::{Diagnostic, Diagnostics, Severity};
use super::source::{BlockEnd, BlockReader, MAX_ENTRY};
use super::{Options, Report, Sink};
use crate::name::NameBuf;
use crate::rdata::{self, ShortName};
use crate::text::{Fields, Passed, TextError, Token};

/// The owner for entries that start with a blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastOwner {
    /// No entry has had an owner yet.
    None,
    /// The owner is in [`Parser::owner`].
    Known,
    /// The owner was invalid and has been reported: its records are skipped.
    Wrong,
}

/// Whether an entry was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The entry is complete.
    Done,
    /// The block ends inside the entry: it must be read again with more text.
    NeedsMore,
}

/// A zone file being read, including the files it includes.
pub(super) struct Parser<'p, S: Sink + ?Sized> {
    pub(super) options: &'p Options,
    pub(super) sink: &'p mut S,
    diagnostics: Diagnostics,
    files: Vec<PathBuf>,
    /// The file names in messages, created when needed.
    labels: Vec<Option<Arc<str>>>,
    /// Index of the current file.
    pub(super) file: u16,
    /// Files from the outermost to the current one.
    pub(super) open: Vec<u16>,
    /// Number of includes so far.
    pub(super) includes: u32,
    /// The outermost text is not in a file.
    pub(super) is_text: bool,
    pub(super) records: u64,
    /// Size of the text opened so far, in octets.
    pub(super) text_octets: u64,
    /// Octets created by `$GENERATE` so far.
    pub(super) generated: u64,

    pub(super) origin: NameBuf,
    /// The last owner.
    pub(super) owner: ShortName,
    pub(super) last_owner: LastOwner,
    /// Offset and length of the last owner's text in the block, if the origin is unchanged.
    pub(super) owner_text: Option<(usize, usize)>,
    /// The last owner was written with octets outside ASCII.
    pub(super) owner_is_raw: bool,
    /// The last owner that was warned about: if a block ends between two of its records, the owner is read again.
    pub(super) warned_owner: Option<Box<[u8]>>,
    /// The sink already has the last owner.
    pub(super) owner_delivered: bool,
    /// From `$TTL`, or the minimum of a SOA record without a TTL.
    pub(super) default_ttl: Option<u32>,
    pub(super) last_ttl: Option<u32>,
    pub(super) rdata: Vec<u8>,
    /// Data consisting of one name, from a plain entry.
    pub(super) host: ShortName,
}

impl<'p, S: Sink + ?Sized> Parser<'p, S> {
    pub(super) fn new(options: &'p Options, sink: &'p mut S) -> Self {
        Parser {
            options,
            sink,
            diagnostics: Diagnostics::default(),
            files: Vec::new(),
            labels: Vec::new(),
            file: 0,
            open: Vec::new(),
            includes: 0,
            is_text: false,
            records: 0,
            text_octets: 0,
            generated: 0,
            origin: options.origin,
            owner: ShortName::default(),
            host: ShortName::default(),
            last_owner: LastOwner::None,
            owner_text: None,
            owner_is_raw: false,
            warned_owner: None,
            owner_delivered: false,
            default_ttl: None,
            last_ttl: None,
            rdata: Vec::with_capacity(512),
        }
    }

    pub(super) fn into_report(self) -> Report {
        Report {
            diagnostics: self.diagnostics.into_list(),
            files: self.files,
            records: self.records,
        }
    }

    /// Reads the outermost file.
    pub(super) fn parse_path(&mut self, path: &Path) {
        self.file = self.register(path.to_path_buf());
        self.open.push(self.file);
        match BlockReader::open(path) {
            Ok(source) => {
                self.text_octets = source.size();
                self.parse_source(source);
            }
            Err(error) => {
                let note = sandbox::explain(path, &error);
                self.error_at(0, 0, format!("cannot be read: {error}{note}"));
            }
        }
    }

    /// Reads text that is not in a file.
    pub(super) fn parse_text(&mut self, label: &Path, text: &[u8]) {
        self.file = self.register(label.to_path_buf());
        self.open.push(self.file);
        self.is_text = true;
        self.text_octets = text.len() as u64;
        let start = self.pass_byte_order_mark(text);
        self.parse_block(&text[start..], 1, BlockEnd::EndOfFile);
    }

    /// Like [`Parser::parse_text`], in blocks as files are read.
    pub(super) fn parse_text_in_blocks(&mut self, label: &Path, text: &[u8], size: usize) {
        self.file = self.register(label.to_path_buf());
        self.open.push(self.file);
        self.is_text = true;
        self.text_octets = text.len() as u64;
        self.parse_source(BlockReader::with_block(text, size));
    }

    /// Returns the index of a file in the report.
    pub(super) fn register(&mut self, path: PathBuf) -> u16 {
        if let Some(index) = self.files.iter().position(|known| *known == path) {
            return index as u16;
        }
        self.labels.push(None);
        self.files.push(path);
        (self.files.len() - 1) as u16
    }

    pub(super) fn path(&self, file: u16) -> &Path {
        &self.files[file as usize]
    }

    /// Reads a file block by block.
    pub(super) fn parse_source<R: Read>(&mut self, mut source: BlockReader<R>) {
        let (mut consumed, mut line) = (0, 1);
        let mut read = 0;
        let (mut first, mut stuck, mut in_long_line) = (true, false, false);
        loop {
            if let Err(error) = source.advance(consumed) {
                return self.error_at(line, 0, format!("cannot be read: {error}"));
            }
            let end = source.block_end(stuck);
            let block = source.block();
            let mut start = 0;
            if first {
                start = self.pass_byte_order_mark(block);
                first = false;
            } else if in_long_line {
                match memchr::memchr(b'\n', block) {
                    Some(found) => (start, line, in_long_line) = (found + 1, line + 1, false),
                    None => start = block.len(),
                }
            }
            (consumed, line) = self.parse_block(&block[start..], line, end);
            consumed += start;
            read += consumed as u64;
            if self.open.len() == 1 && read < source.size() {
                self.sink.progress(read, source.size());
            }
            if end == BlockEnd::EndOfFile || self.diagnostics.is_full() {
                return;
            }
            stuck = consumed == 0;
            // Only an invalid entry without an end is consumed without its newline.
            in_long_line |= consumed > start && block[consumed - 1] != b'\n';
        }
    }

    /// Skips a byte order mark. Editors on other systems put one before UTF-8 text; in an owner it would be invisible.
    fn pass_byte_order_mark(&mut self, text: &[u8]) -> usize {
        if !text.starts_with(b"\xef\xbb\xbf") {
            return 0;
        }
        let message = "byte order mark skipped".to_string();
        self.push(Severity::Warning, 1, 1, message);
        3
    }

    /// Reads the entries of a block. Returns the start of the first incomplete one.
    fn parse_block(&mut self, block: &[u8], line: u32, end: BlockEnd) -> (usize, u32) {
        let mut fields = Fields::from_line(block, line);
        self.owner_text = None;
        while !fields.is_at_end() && !self.diagnostics.is_full() {
            let start = (fields.offset(), fields.line());
            match self.entry(&mut fields, end) {
                Ok(Step::Done) => fields.pass_entry_end(),
                Ok(Step::NeedsMore) if end == BlockEnd::EntryTooLong && start.0 == 0 => {
                    self.report_long_entry(&mut fields, start);
                }
                Ok(Step::NeedsMore) => return start,
                Err(error) => {
                    fields.rewind(start.0, start.1);
                    let passed = fields.pass_wrong_entry();
                    // A directive that has created records must not be read again.
                    if passed != Ok(Passed::Newline) && end != BlockEnd::EndOfFile {
                        if end == BlockEnd::More || start.0 > 0 {
                            return start;
                        }
                        self.report_long_entry(&mut fields, start);
                        continue;
                    }
                    self.report(passed.err().unwrap_or(error));
                }
            }
        }
        (fields.offset(), fields.line())
    }

    /// Reports that the first entry of a full block has no end: most likely an unclosed parenthesis.
    fn report_long_entry(&mut self, fields: &mut Fields<'_>, start: (usize, u32)) {
        fields.rewind(start.0, start.1);
        match fields.pass_wrong_entry() {
            Err(unclosed) => self.report(unclosed),
            Ok(_) => self.error_at(
                start.1,
                0,
                format!("expected a line of at most {MAX_ENTRY} octets"),
            ),
        }
    }

    #[cold]
    pub(super) fn warn(&mut self, word: &Token<'_>, notes: rdata::Notes) {
        if notes.txt_split {
            let message = "character string longer than 255 octets: split".to_string();
            self.push(Severity::Warning, word.line, word.column, message);
        }
        if notes.no_alpn {
            // RFC 9460 sections 2.4.3 and 7.1.2.
            let message =
                "no-default-alpn without alpn: clients will ignore the record".to_string();
            self.push(Severity::Warning, word.line, word.column, message);
        }
    }

    /// Warns if the owner of a record has octets outside ASCII, once per owner.
    ///
    /// RFC 5890 section 2.3.2.1: an internationalized name is represented in the DNS as ASCII. Clients query that form,
    /// so a name written in UTF-8 would never be found.
    #[cold]
    pub(super) fn judge_owner(&mut self, line: u32) {
        let raw = self.owner_is_raw.then(|| self.owner.as_wire());
        if self.warned_owner.as_deref() == raw {
            return;
        }
        self.warned_owner = raw.map(Box::from);
        if self.warned_owner.is_none() {
            return;
        }
        let message = "the owner has non-ASCII octets: expected the A-label form (xn--...) of an internationalized \
                       name";
        self.push(Severity::Warning, line, 1, message.to_string());
    }

    #[cold]
    pub(super) fn report(&mut self, error: TextError) {
        self.error_at(error.line, error.column, error.message);
    }

    #[cold]
    pub(super) fn error_at(&mut self, line: u32, column: u32, message: String) {
        self.push(Severity::Error, line, column, message);
    }

    pub(super) fn push(&mut self, severity: Severity, line: u32, column: u32, message: String) {
        let file = self.file as usize;
        let label =
            self.labels[file].get_or_insert_with(|| self.files[file].to_string_lossy().into());
        self.diagnostics.push(Diagnostic {
            severity,
            file: Arc::clone(label),
            line,
            column,
            message,
        });
    }

    /// Stops parsing: the sink accepts no further records.
    #[cold]
    pub(super) fn stop(&mut self) {
        self.diagnostics.stop();
    }

    /// Checks whether parsing stopped, because of the error limit or because the sink accepts no further records.
    pub(super) fn has_stopped(&self) -> bool {
        self.diagnostics.is_full()
    }
}

/// Checks whether the entry that `fields` has read is complete.
#[inline]
pub(super) fn step(fields: &Fields<'_>, end: BlockEnd) -> Step {
    if end != BlockEnd::EndOfFile && fields.is_at_end() {
        Step::NeedsMore
    } else {
        Step::Done
    }
}
