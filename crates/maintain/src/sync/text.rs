//! Inserts a difference into the text of a zone file: comments, order and layout of everything else stay as they are.
//!
//! A removed record takes its line with it; a record that replaces another with the same owner and type takes its
//! position, with its comment; a new one is inserted after the last of its owner, or at the end. Only entries in the
//! file itself can be changed, not those from `$INCLUDE` and `$GENERATE`. The caller verifies the result by parsing
//! it.

use nameward_wire::rdata::write_text;
use nameward_wire::zonefile::{Options, Record, parse_bytes};
use nameward_wire::{Name, Type};
use nameward_zone::change::Difference;
use nameward_zone::{RecordList, WireRecord};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Why the text of a zone file cannot take a difference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// A record to remove comes from a directive.
    #[error("line {line}: {owner} {rtype} is made by a directive")]
    Directive {
        /// The line of the directive.
        line: usize,
        /// The owner of the record.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// A record to remove is in another file.
    #[error("{owner} {rtype} stands in a file that is included")]
    Included {
        /// The owner of the record.
        owner: String,
        /// Its type.
        rtype: Type,
    },
    /// A record to remove was not found.
    #[error("{owner} {rtype} is not in the file")]
    NotThere {
        /// The owner of the record.
        owner: String,
        /// Its type.
        rtype: Type,
    },
}

/// Where new records are inserted in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewRecordPlace {
    /// After the last record of their owner.
    BesideOwner,
    /// At the end: no later record can inherit their TTL.
    End,
}

/// An entry of a name affected by the difference.
struct FileEntry {
    /// Its first line, from 0.
    line: usize,
    owner: Vec<u8>,
    rtype: Type,
    rdata: Vec<u8>,
    is_included: bool,
}

/// The change to the lines of an entry.
enum LineFate {
    Deleted,
    Replaced(Vec<u8>),
}

/// Inserts a difference into the text of a zone file.
pub fn put_difference(
    text: &[u8],
    options: &Options,
    difference: &Difference,
    place: NewRecordPlace,
) -> Result<Vec<u8>, TextFault> {
    let touched: HashSet<Vec<u8>> = difference
        .removed
        .iter()
        .chain(&difference.added)
        .map(|record| lower(record.owner))
        .collect();
    let entries = entries_of(text, options, &touched);
    let lines = lines_of(text);
    let mut edit = TextEdit {
        text,
        lines: &lines,
        entries: &entries,
        fates: HashMap::new(),
        insertions: BTreeMap::new(),
        at_end: Vec::new(),
    };
    let mut added: Vec<Option<WireRecord<'_>>> = difference.added.iter().map(Some).collect();
    for gone in &difference.removed {
        edit.remove(gone, &mut added)?;
    }
    for record in added.into_iter().flatten() {
        edit.insert(record, place);
    }
    Ok(edit.finish())
}

fn lower(name: Name<'_>) -> Vec<u8> {
    name.as_wire().to_ascii_lowercase()
}

fn entries_of(text: &[u8], options: &Options, touched: &HashSet<Vec<u8>>) -> Vec<FileEntry> {
    let mut entries = Vec::new();
    let mut note = |record: &Record<'_>| {
        let owner = lower(record.owner);
        if touched.contains(&owner) {
            let (line, file) = record.from.line_and_file();
            entries.push(FileEntry {
                line: (line as usize).saturating_sub(1),
                owner,
                rtype: record.rtype,
                rdata: record.rdata.to_vec(),
                is_included: file != 0,
            });
        }
        Ok(())
    };
    // Errors of the text were logged when it was loaded.
    let _ = parse_bytes("zone file", text, options, &mut note);
    entries
}

/// Returns the octets of each line, including its newline.
fn lines_of(text: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split_inclusive(|octet| *octet == b'\n')
        .map(|line| {
            let range = start..start + line.len();
            start = range.end;
            range
        })
        .collect()
}

struct TextEdit<'t> {
    text: &'t [u8],
    lines: &'t [Range<usize>],
    entries: &'t [FileEntry],
    /// By the first line of an entry.
    fates: HashMap<usize, LineFate>,
    /// After the entry that starts at a line.
    insertions: BTreeMap<usize, Vec<u8>>,
    at_end: Vec<u8>,
}

impl TextEdit<'_> {
    /// Removes a record, or replaces it by one of the same owner and type.
    fn remove(
        &mut self,
        gone: WireRecord<'_>,
        added: &mut [Option<WireRecord<'_>>],
    ) -> Result<(), TextFault> {
        let (owner, rtype) = (gone.owner.to_string(), gone.rtype);
        let key = lower(gone.owner);
        let is_it = |entry: &&FileEntry| {
            entry.rtype == rtype && entry.owner == key && same_data(rtype, &entry.rdata, gone.rdata)
        };
        let Some(entry) = self.entries.iter().find(is_it) else {
            return Err(TextFault::NotThere { owner, rtype });
        };
        if entry.is_included {
            return Err(TextFault::Included { owner, rtype });
        }
        let line = entry.line;
        let is_directive = self
            .lines
            .get(line)
            .is_none_or(|l| self.text[l.start] == b'$');
        if is_directive {
            let line = line + 1;
            return Err(TextFault::Directive { line, owner, rtype });
        }
        let is_next = |record: &&mut Option<WireRecord<'_>>| {
            record.is_some_and(|record| record.rtype == rtype && lower(record.owner) == key)
        };
        let next = added.iter_mut().find(is_next).and_then(Option::take);
        let fate = match next {
            None => LineFate::Deleted,
            Some(next) => LineFate::Replaced(self.replaced(line, gone, next)),
        };
        self.fates.insert(line, fate);
        Ok(())
    }

    /// Returns the text of an entry with other data.
    fn replaced(&self, line: usize, gone: WireRecord<'_>, next: WireRecord<'_>) -> Vec<u8> {
        let range = self.entry_range(line);
        let entry = &self.text[range];
        let words = words_of(entry);
        let mnemonic = gone.rtype.to_string();
        let is_type =
            |word: &Range<usize>| entry[word.clone()].eq_ignore_ascii_case(mnemonic.as_bytes());
        // Owner, TTL and class may precede the type.
        let type_at = words
            .iter()
            .take(4)
            .skip_while(|w| w.start == 0)
            .position(is_type);
        let skipped = words.iter().take_while(|w| w.start == 0).count();
        let data = type_at.map(|at| &words[at + skipped + 1..]);
        let (Some(data), true) = (data.filter(|data| !data.is_empty()), gone.ttl == next.ttl)
        else {
            return written(next);
        };
        if let (Type::SOA, [_, _, serial, ..]) = (gone.rtype, data)
            && differ_by_serial(gone.rdata, next.rdata)
            && let Some(number) = nameward_zone::change::soa_serial(next.rdata)
        {
            let number = number.to_string();
            return [
                &entry[..serial.start],
                number.as_bytes(),
                &entry[serial.end..],
            ]
            .concat();
        }
        let (first, last) = (data[0].start, data[data.len() - 1].end);
        // Data over several lines have no single position for a comment.
        if entry[..last].contains(&b'\n') || entry[..last].contains(&b'(') {
            return written(next);
        }
        [&entry[..first], data_text(next).as_bytes(), &entry[last..]].concat()
    }

    fn insert(&mut self, record: WireRecord<'_>, place: NewRecordPlace) {
        let key = lower(record.owner);
        let is_beside = |entry: &&FileEntry| {
            let first = self.lines.get(entry.line).map(|line| self.text[line.start]);
            entry.owner == key && !entry.is_included && first.is_some_and(|octet| octet != b'$')
        };
        let beside = self
            .entries
            .iter()
            .filter(is_beside)
            .map(|entry| entry.line);
        let text = written(record);
        match beside
            .max()
            .filter(|_| place == NewRecordPlace::BesideOwner)
        {
            Some(line) => self.insertions.entry(line).or_default().extend(text),
            None => self.at_end.extend(text),
        }
    }

    /// Returns the octets of the entry that starts at a line, up to the end of its last line.
    fn entry_range(&self, line: usize) -> Range<usize> {
        let start = self.lines[line].start;
        let (mut quoted, mut escaped, mut comment, mut depth) = (false, false, false, 0usize);
        for (at, octet) in self.text[start..].iter().enumerate() {
            match octet {
                b'\n' if depth == 0 => return start..start + at + 1,
                b'\n' => comment = false,
                _ if comment || std::mem::take(&mut escaped) => {}
                b'\\' => escaped = true,
                b'"' => quoted = !quoted,
                b';' if !quoted => comment = true,
                b'(' if !quoted => depth += 1,
                b')' if !quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        start..self.text.len()
    }

    fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + self.at_end.len());
        let by_line: HashMap<usize, &FileEntry> = self
            .entries
            .iter()
            .filter(|entry| !entry.is_included)
            .map(|entry| (entry.line, entry))
            .collect();
        // The owner of a deleted line that later lines inherit.
        let mut missing_owner: Option<&[u8]> = None;
        let mut line = 0;
        while line < self.lines.len() {
            let begins_with_blank = matches!(self.text[self.lines[line].start], b' ' | b'\t');
            let Some(entry) = by_line.get(&line) else {
                out.extend_from_slice(&self.text[self.lines[line].clone()]);
                line += 1;
                continue;
            };
            let range = self.entry_range(line);
            let behind = self.lines.partition_point(|l| l.start < range.end);
            let fate = self.fates.get(&line);
            if !begins_with_blank {
                missing_owner = None;
            }
            match fate {
                Some(LineFate::Deleted) if !begins_with_blank => {
                    missing_owner = Some(&entry.owner);
                }
                Some(LineFate::Deleted) => {}
                kept => {
                    let text = match kept {
                        Some(LineFate::Replaced(text)) => &text[..],
                        _ => &self.text[range],
                    };
                    let takes_over = matches!(text.first(), Some(b' ' | b'\t'));
                    if let Some(owner) = missing_owner.take().filter(|_| takes_over) {
                        let name = Name::from_wire(owner).unwrap_or(Name::ROOT);
                        out.extend_from_slice(name.to_string().as_bytes());
                    }
                    out.extend_from_slice(text);
                }
            }
            if let Some(new) = self.insertions.get(&line) {
                end_line(&mut out);
                out.extend_from_slice(new);
            }
            line = behind.max(line + 1);
        }
        if !self.at_end.is_empty() {
            end_line(&mut out);
            out.extend_from_slice(&self.at_end);
        }
        out
    }
}

fn end_line(out: &mut Vec<u8>) {
    if out.last().is_some_and(|octet| *octet != b'\n') {
        out.push(b'\n');
    }
}

/// Returns the words of an entry without comments and parentheses. An owner starts at 0.
fn words_of(entry: &[u8]) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < entry.len() {
        match entry[at] {
            b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' => at += 1,
            b';' => {
                let rest = entry[at..].iter().position(|octet| *octet == b'\n');
                at = rest.map_or(entry.len(), |length| at + length);
            }
            _ => {
                let start = at;
                let mut quoted = false;
                while at < entry.len() {
                    match entry[at] {
                        b'\\' => at += 1,
                        b'"' => quoted = !quoted,
                        b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' if !quoted => break,
                        _ => {}
                    }
                    at += 1;
                }
                words.push(start..at.min(entry.len()));
                at = at.min(entry.len());
            }
        }
    }
    words
}

fn same_data(rtype: Type, a: &[u8], b: &[u8]) -> bool {
    use nameward_wire::rdata::canonicalise;
    let canonical = |rdata: &[u8]| {
        let mut rdata = rdata.to_vec();
        canonicalise(rtype, &mut rdata);
        rdata
    };
    a == b || canonical(a) == canonical(b)
}

/// Checks whether two SOAs only differ in the serial.
fn differ_by_serial(a: &[u8], b: &[u8]) -> bool {
    let (Some(at), true) = (a.len().checked_sub(20), a.len() == b.len()) else {
        return false;
    };
    a[..at] == b[..at] && a[at + 4..] == b[at + 4..]
}

fn data_text(record: WireRecord<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(record.rtype, record.rdata, &mut text);
    text
}

/// Formats a record as a complete line, which means the same at any position.
fn written(record: WireRecord<'_>) -> Vec<u8> {
    let WireRecord {
        owner, rtype, ttl, ..
    } = record;
    format!("{owner}\t{ttl}\tIN\t{rtype}\t{}\n", data_text(record)).into_bytes()
}

/// Writes a whole zone, one record per line.
pub fn whole_text(parts: &[RecordList]) -> Vec<u8> {
    let mut text = b"; written by nameward zone sync\n".to_vec();
    for record in parts.iter().flatten() {
        text.extend(written(record));
    }
    text
}

#[cfg(test)]
mod tests;
