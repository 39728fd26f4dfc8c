//! Record lists in uncompressed wire form: owner, type, class, TTL, length, data.
//!
//! A list takes no more memory than its records have octets, is written to and read from a journal as is, and can be
//! copied into a transfer message. A list that comes from outside is checked once, record by record.

use nameward_wire::{Class, Name, Type};
use std::fmt;

/// Octets of a record besides owner and data: type, class, TTL, length.
const FIXED: usize = 10;

/// A list of records in wire form.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RecordList {
    bytes: Vec<u8>,
    count: usize,
}

/// One record of a list.
#[allow(missing_docs)] // fields whose names say it
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WireRecord<'a> {
    pub owner: Name<'a>,
    pub rtype: Type,
    /// The TTL in seconds.
    pub ttl: u32,
    /// Uncompressed wire data.
    pub rdata: &'a [u8],
}

/// The octets do not form a list of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no record starts at octet {at} of {len}")]
pub struct ListError {
    /// Offset of the first record that cannot be read.
    pub at: usize,
    /// Length of the whole list, in octets.
    pub len: usize,
}

impl RecordList {
    /// Reads a list written by [`RecordList::as_bytes`]. The record data is not inspected.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ListError> {
        let (mut at, mut count) = (0, 0);
        while at < bytes.len() {
            let (_, rest) = split_record(&bytes[at..]).ok_or(ListError {
                at,
                len: bytes.len(),
            })?;
            at = bytes.len() - rest.len();
            count += 1;
        }
        Ok(RecordList { bytes, count })
    }

    /// Returns the records in wire form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a record; its data has at most 65,535 octets.
    pub fn push(&mut self, record: WireRecord<'_>) {
        let len = u16::try_from(record.rdata.len()).expect("record data of at most 65,535 octets");
        self.bytes.extend_from_slice(record.owner.as_wire());
        self.bytes.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.bytes.extend_from_slice(&Class::IN.0.to_be_bytes());
        self.bytes.extend_from_slice(&record.ttl.to_be_bytes());
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(record.rdata);
        self.count += 1;
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Checks whether the list has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the records in the order in which they were appended.
    pub fn iter(&self) -> WireRecords<'_> {
        WireRecords { bytes: &self.bytes }
    }

    /// Returns the records from an offset in [`RecordList::as_bytes`], which must be the start of a record.
    pub fn iter_from(&self, octet: usize) -> WireRecords<'_> {
        WireRecords {
            bytes: self.bytes.get(octet..).unwrap_or_default(),
        }
    }

    /// Returns the first record of a type.
    pub fn first_of(&self, rtype: Type) -> Option<WireRecord<'_>> {
        self.iter().find(|record| record.rtype == rtype)
    }
}

impl<'a> FromIterator<WireRecord<'a>> for RecordList {
    fn from_iter<I: IntoIterator<Item = WireRecord<'a>>>(records: I) -> Self {
        let mut list = RecordList::default();
        records.into_iter().for_each(|record| list.push(record));
        list
    }
}

impl<'a> IntoIterator for &'a RecordList {
    type Item = WireRecord<'a>;
    type IntoIter = WireRecords<'a>;

    fn into_iter(self) -> WireRecords<'a> {
        self.iter()
    }
}

/// Iterates over the records of a list.
#[derive(Clone)]
pub struct WireRecords<'a> {
    bytes: &'a [u8],
}

impl WireRecords<'_> {
    /// Returns the octets of the remaining records.
    pub fn octets_left(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> Iterator for WireRecords<'a> {
    type Item = WireRecord<'a>;

    fn next(&mut self) -> Option<WireRecord<'a>> {
        let (record, rest) = split_record(self.bytes)?;
        self.bytes = rest;
        Some(record)
    }
}

/// Splits off the first record; `None` if there is none or it is truncated.
fn split_record(bytes: &[u8]) -> Option<(WireRecord<'_>, &[u8])> {
    let (owner, rest) = Name::split_from(bytes).ok()?;
    let (fixed, rest) = rest.split_first_chunk::<FIXED>()?;
    let [t0, t1, _, _, ttl @ .., l0, l1] = *fixed;
    let (rdata, rest) = rest.split_at_checked(u16::from_be_bytes([l0, l1]).into())?;
    let record = WireRecord {
        owner,
        rtype: Type(u16::from_be_bytes([t0, t1])),
        ttl: u32::from_be_bytes(ttl),
        rdata,
    };
    Some((record, rest))
}

impl fmt::Debug for RecordList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for WireRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (owner, ttl, rtype) = (self.owner, self.ttl, self.rtype);
        write!(f, "{owner} {ttl} {rtype} {:02x?}", self.rdata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nameward_wire::NameBuf;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_octets_are_a_list_or_an_error(bytes in proptest::collection::vec(0..20u8, 0..120)) {
            if let Ok(list) = RecordList::from_bytes(bytes) {
                prop_assert_eq!(list.iter().count(), list.len());
            }
        }

        #[test]
        fn a_list_is_read_back_and_no_part_of_a_record_is(count in 1..5usize, cut in 1..20usize, rdata in proptest::collection::vec(any::<u8>(), 0..40)) {
            let owner: NameBuf = "Www.example.".parse().unwrap();
            let record = WireRecord { owner: owner.as_name(), rtype: Type::TXT, ttl: 60, rdata: &rdata };
            let list: RecordList = std::iter::repeat_n(record, count).collect();
            let back = RecordList::from_bytes(list.as_bytes().to_vec()).unwrap();
            prop_assert_eq!(&back, &list);
            prop_assert!(back.iter().all(|r| r == record));
            let short = list.as_bytes().len() - cut;
            prop_assert!(RecordList::from_bytes(list.as_bytes()[..short].to_vec()).is_err());
        }
    }
}
