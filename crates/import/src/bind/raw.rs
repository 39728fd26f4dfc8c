//! The reader of zone files in BIND's raw format, which BIND writes for secondaries and signed copies by default.
//!
//! ```text
//! header   format (2), version, time of the dump; from version 1: flags, serial, last transfer   32 bits each
//! RRset    total length (32), class, type, covered type (16 each), TTL, record count (32 each),
//!          owner length (16), owner, then for each record its length (16) and data
//! ```
//! Names are in uncompressed wire form; numbers are in network order.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    path::Path,
};

use nameward_wire::{
    Class, Name, NameError, Type,
    rdata::{self, RdataError},
    zonefile::{Diagnostic, Record, RecordLocation, Report, Severity, Sink, SinkRefusal},
};

/// The first octets of such a file.
const FORM: [u8; 4] = [0, 0, 0, 2];

/// Maximum size of one RRset in octets.
const RRSET_MAX: u64 = 64 << 20;
/// The highest TTL (RFC 2181 section 8).
const TTL_MAX: u32 = i32::MAX as u32;

/// Checks whether a file that starts like this is in raw format. Text has no zero octets.
pub fn is_raw(start: &[u8]) -> bool {
    start.starts_with(&FORM)
}

/// Reads the file from its start and passes its records to the sink.
pub fn parse(path: &Path, file: impl Read, sink: &mut dyn Sink) -> Report {
    let mut reader = RawReader {
        file: io::BufReader::new(file),
        at: 0,
        records: 0,
    };
    let mut diagnostics = Vec::new();
    if let Err(message) = reader.run(sink) {
        diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: path.to_string_lossy().into(),
            line: 0,
            column: 0,
            message: format!("{message} in the RRset at octet {}", reader.at),
        });
    }
    Report {
        diagnostics,
        files: vec![path.to_path_buf()],
        records: reader.records,
    }
}

/// The reason why a file in BIND's raw format cannot be read.
#[derive(Debug, thiserror::Error)]
enum RawError {
    #[error("cannot be read: {}", crate::reason_of(.0))]
    Unreadable(#[from] io::Error),
    #[error("expected raw format version 0 or 1")]
    Version,
    #[error("file truncated")]
    ShortFile,
    #[error("expected a length, found {0}")]
    RrsetLength(u64),
    #[error("RRset truncated")]
    ShortRrset,
    #[error("{0} trailing octets in the RRset")]
    LongRrset(usize),
    #[error("invalid name: {0}")]
    Name(#[from] NameError),
    #[error("expected class IN, found {0}")]
    OtherClass(Class),
    #[error("type {0} is not allowed in a zone")]
    MetaType(Type),
    #[error("{0}: {1}")]
    Data(String, RdataError),
    #[error("{0}")]
    Refused(String),
}

struct RawReader<R> {
    file: R,
    /// Offset of the current RRset.
    at: u64,
    records: u64,
}

impl<R: Read> RawReader<R> {
    fn run(&mut self, sink: &mut dyn Sink) -> Result<(), RawError> {
        let mut buffer = Vec::new();
        self.fill(&mut buffer, 12)?;
        let version = buffer.get(4..8).unwrap_or_default();
        self.at = match version {
            [0, 0, 0, 0] => 12,
            [0, 0, 0, 1] => {
                self.fill(&mut buffer, 12)?;
                24
            }
            _ => return Err(RawError::Version),
        };
        loop {
            let mut length = [0; 4];
            match self.file.read(&mut length[..1])? {
                0 => return Ok(()),
                _ => self.file.read_exact(&mut length[1..])?,
            }
            let length = u64::from(u32::from_be_bytes(length));
            if !(4..=RRSET_MAX).contains(&length) {
                return Err(RawError::RrsetLength(length));
            }
            self.fill(&mut buffer, length - 4)?;
            if self.rrset(&buffer, sink)?.is_break() {
                return Ok(());
            }
            self.at += length;
        }
    }

    /// Reads this many octets. The buffer grows as data arrives, not by a length that may be wrong.
    fn fill(&mut self, buffer: &mut Vec<u8>, length: u64) -> Result<(), RawError> {
        buffer.clear();
        let part = &mut self.file;
        let read = part.take(length).read_to_end(buffer)?;
        if read as u64 == length {
            Ok(())
        } else {
            Err(RawError::ShortFile)
        }
    }

    /// Passes on the records of one RRset. Breaks if the sink accepts no further records; the sink reports the reason.
    fn rrset(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<ControlFlow<()>, RawError> {
        let short = || RawError::ShortRrset;
        let mut fields = RawFields(bytes);
        let class = Class(fields.u16().ok_or_else(short)?);
        let rtype = Type(fields.u16().ok_or_else(short)?);
        fields.u16().ok_or_else(short)?;
        let ttl = fields.u32().ok_or_else(short)?.min(TTL_MAX);
        let count = fields.u32().ok_or_else(short)?;
        let owner = fields.counted().ok_or_else(short)?;
        let owner = Name::from_wire(owner)?;
        if class != Class::IN {
            return Err(RawError::OtherClass(class));
        }
        if rtype.is_meta() {
            return Err(RawError::MetaType(rtype));
        }
        for number in 0..count {
            let data = fields.counted().ok_or_else(short)?;
            let wrong = |error| RawError::Data(format!("{owner} {rtype}"), error);
            rdata::validate(rtype, data).map_err(wrong)?;
            let taken = sink.record(&Record {
                owner,
                same_owner: number > 0,
                rtype,
                class,
                ttl,
                rdata: data,
                from: RecordLocation::NONE,
            });
            match taken {
                Ok(()) => self.records += 1,
                Err(SinkRefusal::Record(message)) => return Err(RawError::Refused(message)),
                Err(SinkRefusal::Stop) => return Ok(ControlFlow::Break(())),
            }
        }
        match fields.0.len() {
            0 => Ok(ControlFlow::Continue(())),
            more => Err(RawError::LongRrset(more)),
        }
    }
}

/// Reads numbers and strings from the front.
struct RawFields<'b>(&'b [u8]);

impl<'b> RawFields<'b> {
    fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*bytes))
    }

    fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Reads octets preceded by their length.
    fn counted(&mut self) -> Option<&'b [u8]> {
        let length = usize::from(self.u16()?);
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &[u8] = b"\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\0\x2c\0\x01\0\x01\0\0\0\0\0\x3c\0\0\0\x02\0\x0c\x02ns\x07example\0\
        \0\x04\xc0\0\x02\x01\0\x04\xc0\0\x02\x02";

    fn read(bytes: &[u8]) -> (Vec<String>, Option<String>) {
        let mut records = Vec::new();
        let mut take = |record: &Record<'_>| {
            let (owner, ttl, rtype) = (record.owner, record.ttl, record.rtype);
            records.push(format!("{owner} {ttl} {rtype} {:?}", record.rdata));
            Ok(())
        };
        let report = parse(Path::new("raw"), bytes, &mut take);
        let error = report.diagnostics.first().map(ToString::to_string);
        (records, error)
    }

    #[test]
    fn records_are_read_with_their_owners_and_ttls() {
        let expected = [
            "ns.example. 60 A [192, 0, 2, 1]",
            "ns.example. 60 A [192, 0, 2, 2]",
        ];
        assert_eq!(read(ZONE), (expected.map(String::from).to_vec(), None));
    }

    #[test]
    fn a_truncated_or_damaged_file_never_panics() {
        for length in 0..ZONE.len() {
            let (_, error) = read(&ZONE[..length]);
            // A file may end after the header.
            assert_eq!(error.is_none(), length == 24, "{length}: {error:?}");
        }
        let mut damaged = ZONE.to_vec();
        for at in 24..ZONE.len() {
            for byte in [0, 1, 0x3f, 0x7f, 0xc0, 0xff] {
                damaged[at] = byte;
                read(&damaged);
            }
            damaged[at] = ZONE[at];
        }
        let (_, error) = read(b"\0\0\0\x02\0\0\0\x09\0\0\0\0");
        assert!(error.unwrap().contains("raw format version 0 or 1"));
    }
}
