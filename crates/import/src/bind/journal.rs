//! The reader of BIND journals: changes to a zone that are not in its file yet.
//!
//! ```text
//! header        format in 16 octets; for the first and the last version: serial, file offset; index entries;
//!               serial of the unsigned zone; flags; 64 octets in total
//! index         8 octets per entry
//! transaction   length of its records, their number, serial before, serial after
//! record        its length, then owner, type, class, TTL, data length and data, uncompressed
//! ```
//! Numbers are 32 bits in network order, those of a record as on the wire. A transaction has the records of a
//! difference as in RFC 1995: the old SOA, records to remove, the new SOA, records to add. BIND writes the header last,
//! so anything after the offset of the last version is not valid yet.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use nameward_wire::{
    Class, Name, NameError, Type,
    rdata::{self, RdataError},
};
use nameward_zone::{RecordList, Serial, WireRecord, change::Difference};

/// The format written by BIND 9.16.12 and later.
const FORM: &[u8; 16] = b";BIND LOG V9.2\n\0";
/// Octets of the header and of a transaction header.
const HEADER: usize = 64;
const TRANSACTION: usize = 16;
/// Maximum size of a journal in octets: BIND keeps up to twice the size of the zone.
const OCTETS_MAX: u32 = 64 << 20;
/// Maximum number of transactions: each creates a version of the zone.
const TRANSACTIONS_MAX: usize = 10_000;
/// The highest TTL (RFC 2181 section 8).
const TTL_MAX: u32 = i32::MAX as u32;

/// The reason why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An I/O error.
    #[error("cannot be read: {}", crate::reason_of(.0))]
    Unreadable(#[from] io::Error),
    /// The format is unknown.
    #[error("unknown format")]
    Form,
    /// The journal is too large.
    #[error("larger than {} MiB or more than {TRANSACTIONS_MAX} changes", OCTETS_MAX >> 20)]
    TooLarge,
    /// The journal is truncated.
    #[error("truncated")]
    Short,
    /// A change does not follow the previous one.
    #[error("a change starts at serial {found} instead of {expected}")]
    Gap {
        /// The serial after the previous change.
        expected: Serial,
        /// The serial before this change.
        found: Serial,
    },
    /// The journal has no change from this version.
    #[error("it ends at serial {end}, but does not contain serial {from} of the zone file")]
    NotFrom {
        /// The requested version.
        from: Serial,
        /// The last version.
        end: Serial,
    },
    /// A change does not lead from its serial to the next.
    #[error("the change from serial {0} is not a valid difference")]
    Transaction(Serial),
    /// A record has an invalid name.
    #[error("invalid name: {0}")]
    Name(#[from] NameError),
    /// A record has a class or type that no zone contains.
    #[error("class {0} type {1} is not allowed in a zone")]
    Foreign(Class, Type),
    /// A record is malformed.
    #[error("invalid {0} record: {1}")]
    Data(Type, RdataError),
}

/// Returns the path of the journal for a file.
pub fn path_of(file: &Path) -> PathBuf {
    let mut journal = file.as_os_str().to_owned();
    journal.push(".jnl");
    journal.into()
}

/// Reads the changes from a version to the last one, oldest first; empty if it is the last one.
pub fn read(mut file: impl Read, from: Serial) -> Result<Vec<Difference>, JournalError> {
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(short)?;
    let mut fields = JournalFields(&header);
    if fields.octets(FORM.len())? != FORM {
        return Err(JournalError::Form);
    }
    let (first, begin) = (Serial(fields.u32()?), fields.u32()?);
    let (last, end) = (Serial(fields.u32()?), fields.u32()?);
    if from == last {
        return Ok(Vec::new());
    }
    if end > OCTETS_MAX {
        return Err(JournalError::TooLarge);
    }
    let octets = read_to(file, begin, end)?;
    let mut reader = JournalReader {
        serial: first,
        from,
        differences: Vec::new(),
    };
    let mut fields = JournalFields(&octets);
    while !fields.0.is_empty() {
        reader.transaction(&mut fields)?;
    }
    match reader.differences.is_empty() {
        _ if reader.serial != last => Err(JournalError::Gap {
            expected: last,
            found: reader.serial,
        }),
        true => Err(JournalError::NotFrom { from, end: last }),
        false => Ok(reader.differences),
    }
}

/// Reads the octets between two offsets after the header.
fn read_to(mut file: impl Read, begin: u32, end: u32) -> Result<Vec<u8>, JournalError> {
    let index = u64::from(begin).checked_sub(HEADER as u64);
    let length = end.checked_sub(begin).map(u64::from);
    let (Some(index), Some(length)) = (index, length) else {
        return Err(JournalError::Short);
    };
    io::copy(&mut file.by_ref().take(index), &mut io::sink())?;
    let mut octets = Vec::new();
    // The buffer grows as data arrives, not by a length that may be wrong.
    let read = file.take(length).read_to_end(&mut octets)?;
    if read as u64 == length {
        Ok(octets)
    } else {
        Err(JournalError::Short)
    }
}

fn short(error: io::Error) -> JournalError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => JournalError::Short,
        _ => JournalError::Unreadable(error),
    }
}

struct JournalReader {
    /// The version after the transactions read so far.
    serial: Serial,
    /// The version from which changes are requested.
    from: Serial,
    differences: Vec<Difference>,
}

impl JournalReader {
    fn transaction(&mut self, fields: &mut JournalFields<'_>) -> Result<(), JournalError> {
        let mut header = JournalFields(fields.octets(TRANSACTION)?);
        let (size, count) = (header.u32()?, header.u32()?);
        let (before, after) = (Serial(header.u32()?), Serial(header.u32()?));
        let records = fields.octets(size as usize)?;
        if before != self.serial {
            return Err(JournalError::Gap {
                expected: self.serial,
                found: before,
            });
        }
        self.serial = after;
        if self.differences.is_empty() && before != self.from {
            return Ok(());
        }
        if self.differences.len() == TRANSACTIONS_MAX {
            return Err(JournalError::TooLarge);
        }
        let (difference, found) = read_difference(records)?;
        if difference.serials() != Some((before, after)) || found != count {
            return Err(JournalError::Transaction(before));
        }
        self.differences.push(difference);
        Ok(())
    }
}

/// Reads the records of a transaction; also returns their number.
fn read_difference(records: &[u8]) -> Result<(Difference, u32), JournalError> {
    let mut difference = Difference::default();
    let (mut count, mut versions) = (0, 0);
    let mut records = JournalFields(records);
    while !records.0.is_empty() {
        let length = records.u32()? as usize;
        let mut record = JournalFields(records.octets(length)?);
        let owner = record.name()?;
        let (rtype, class) = (Type(record.u16()?), Class(record.u16()?));
        let ttl = record.u32()?.min(TTL_MAX);
        let data = usize::from(record.u16()?);
        let data = record.octets(data)?;
        if class != Class::IN || rtype.is_meta() {
            return Err(JournalError::Foreign(class, rtype));
        }
        rdata::validate(rtype, data).map_err(|error| JournalError::Data(rtype, error))?;
        if !record.0.is_empty() {
            return Err(JournalError::Short);
        }
        versions += u32::from(rtype == Type::SOA);
        let list: &mut RecordList = match versions {
            1 => &mut difference.removed,
            _ => &mut difference.added,
        };
        list.push(WireRecord {
            owner,
            rtype,
            ttl,
            rdata: data,
        });
        count += 1;
    }
    Ok((difference, count))
}

/// Reads numbers and strings from the front.
struct JournalFields<'b>(&'b [u8]);

impl<'b> JournalFields<'b> {
    fn octets(&mut self, length: usize) -> Result<&'b [u8], JournalError> {
        let (octets, rest) = self.0.split_at_checked(length).ok_or(JournalError::Short)?;
        self.0 = rest;
        Ok(octets)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JournalError> {
        let (octets, rest) = self.0.split_first_chunk().ok_or(JournalError::Short)?;
        self.0 = rest;
        Ok(*octets)
    }

    fn u16(&mut self) -> Result<u16, JournalError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, JournalError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads an uncompressed name.
    fn name(&mut self) -> Result<Name<'b>, JournalError> {
        let (name, rest) = Name::split_from(self.0)?;
        self.0 = rest;
        Ok(name)
    }
}

#[cfg(test)]
mod tests;
