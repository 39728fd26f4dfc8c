//! Owns the reading of BIND's journals: the changes of a zone that its file does not have yet.
//!
//! ```text
//! header        the form in 16 octets; of the first version and of the last: serial, place in the file; entries of the index;
//!               serial of the unsigned zone; flags; 64 octets in all
//! index         8 octets an entry
//! transaction   octets of its records, how many, serial before, serial after
//! record        its length, then owner, type, class, TTL, length of data and data, not compressed
//! ```
//! Numbers have 32 bits in network order, those of a record as on the wire. A transaction has the records of a difference as in
//! RFC 1995: the old SOA, records that go, the new SOA, records that come. BIND writes the header last, so whatever stands
//! behind the place of the last version is not there yet.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use nameward_wire::{
    Class, Name, NameError, Type,
    rdata::{self, RdataError},
};
use nameward_zone::{RecordList, Serial, WireRecord, change::Difference};

/// The form that BIND 9.16.12 and later write.
const FORM: &[u8; 16] = b";BIND LOG V9.2\n\0";
/// Octets of the header and of that of a transaction.
const HEADER: usize = 64;
const TRANSACTION: usize = 16;
/// Octets of a journal that is read, at most: BIND keeps twice the size of the zone.
const OCTETS_MAX: u32 = 64 << 20;
/// Transactions that are read, at most: each makes a version of the zone.
const TRANSACTIONS_MAX: usize = 10_000;
/// The largest TTL (RFC 2181 section 8).
const TTL_MAX: u32 = i32::MAX as u32;

/// The reason why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system does not read it.
    #[error("cannot be read: {}", crate::reason_of(.0))]
    Unreadable(#[from] io::Error),
    /// It is of another form.
    #[error("the form is not known")]
    Form,
    /// It is too large.
    #[error("it is larger than {} MiB or has more than {TRANSACTIONS_MAX} changes", OCTETS_MAX >> 20)]
    TooLarge,
    /// It ends before it should.
    #[error("it ends too soon")]
    Short,
    /// A change does not follow the one before.
    #[error("a change leads from serial {found}, and not from {expected}")]
    Gap {
        /// The serial that the change before leads to.
        expected: Serial,
        /// The serial that this one leads from.
        found: Serial,
    },
    /// It has no change of this version.
    #[error("it leads to serial {end}, but not from serial {from}, which the file has")]
    NotFrom {
        /// The version that was looked for.
        from: Serial,
        /// The last version.
        end: Serial,
    },
    /// A change is not one from its serial to the next.
    #[error("the change from serial {0} has other records than a difference")]
    Transaction(Serial),
    /// A record has no name.
    #[error("no name: {0}")]
    Name(#[from] NameError),
    /// A record is of a class or type that no zone has.
    #[error("no zone has records of class {0} and type {1}")]
    Foreign(Class, Type),
    /// A record is malformed.
    #[error("a record of type {0}: {1}")]
    Data(Type, RdataError),
}

/// Returns the path of the journal of a file.
pub fn path_of(file: &Path) -> PathBuf {
    let mut journal = file.as_os_str().to_owned();
    journal.push(".jnl");
    journal.into()
}

/// Reads the changes that lead from a version to the last one, oldest first; none if that is the last one.
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

/// Reads the octets between two places behind the header.
fn read_to(mut file: impl Read, begin: u32, end: u32) -> Result<Vec<u8>, JournalError> {
    let index = u64::from(begin).checked_sub(HEADER as u64);
    let length = end.checked_sub(begin).map(u64::from);
    let (Some(index), Some(length)) = (index, length) else {
        return Err(JournalError::Short);
    };
    io::copy(&mut file.by_ref().take(index), &mut io::sink())?;
    let mut octets = Vec::new();
    // The buffer grows as octets come, not as a number says that may be wrong.
    let read = file.take(length).read_to_end(&mut octets)?;
    match read as u64 == length {
        true => Ok(octets),
        false => Err(JournalError::Short),
    }
}

fn short(error: io::Error) -> JournalError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => JournalError::Short,
        _ => JournalError::Unreadable(error),
    }
}

struct JournalReader {
    /// The version that the transactions so far lead to.
    serial: Serial,
    /// The version whose changes are looked for.
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

/// Reads the records of a transaction; returns also how many there are.
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

/// Takes numbers and strings from the front.
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

    /// Takes a name that is not compressed.
    fn name(&mut self) -> Result<Name<'b>, JournalError> {
        let (name, rest) = Name::split_from(self.0)?;
        self.0 = rest;
        Ok(name)
    }
}

#[cfg(test)]
mod tests;
