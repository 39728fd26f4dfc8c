//! The records in the answer section of one message, expanded into buffers that are reused for every record.
//!
//! One transfer may have three million records: nothing is allocated for each, and an owner that is a pointer to the
//! previous owner, as most are, is not expanded again.

use super::failure::TransferFailure;
use nameward_wire::message::MessageError;
use nameward_wire::{Class, Name, NameBuf, Type, rdata};

/// The buffers that records are expanded into.
pub(super) struct RecordScratch {
    owner: NameBuf,
    /// The position of the owner in the message, or the target of its pointer.
    owner_place: usize,
    rdata: Vec<u8>,
}

impl Default for RecordScratch {
    fn default() -> Self {
        RecordScratch {
            owner: NameBuf::root(),
            owner_place: NOWHERE,
            rdata: Vec::new(),
        }
    }
}

/// Not a position in a message.
const NOWHERE: usize = usize::MAX;
/// Octets of a record between owner and data.
const FIXED: usize = 10;

/// An expanded record.
pub(super) struct ScannedRecord<'s> {
    pub(super) owner: Name<'s>,
    /// The owner is known to be that of the previous record.
    pub(super) same_owner: bool,
    pub(super) rtype: Type,
    pub(super) class: Class,
    pub(super) ttl: u32,
    pub(super) rdata: &'s [u8],
}

impl ScannedRecord<'_> {
    /// Returns the uncompressed size of the record in wire format.
    pub(super) fn octets(&self) -> u64 {
        (self.owner.as_wire().len() + FIXED + self.rdata.len()) as u64
    }
}

/// A position in a message.
pub(super) struct RecordCursor<'m> {
    octets: &'m [u8],
    at: usize,
    left: u16,
}

impl<'m> RecordCursor<'m> {
    /// Starts at the first of `count` records. The owner from an earlier message cannot be pointed at.
    pub(super) fn new(
        octets: &'m [u8],
        at: usize,
        count: u16,
        scratch: &mut RecordScratch,
    ) -> Self {
        scratch.owner_place = NOWHERE;
        RecordCursor {
            octets,
            at,
            left: count,
        }
    }

    /// Expands the next record; `None` after the last.
    pub(super) fn next<'s>(
        &mut self,
        scratch: &'s mut RecordScratch,
    ) -> Result<Option<ScannedRecord<'s>>, TransferFailure> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let same_owner = self.read_owner(scratch)?;
        let rest = self.octets.get(self.at..).ok_or(MessageError::Short)?;
        let fixed: &[u8; FIXED] = rest.first_chunk().ok_or(MessageError::Short)?;
        let [t0, t1, c0, c1, ttl @ .., l0, l1] = *fixed;
        let rtype = Type(u16::from_be_bytes([t0, t1]));
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let data_at = self.at + FIXED;
        self.at = data_at + len;
        if self.at > self.octets.len() {
            return Err(MessageError::Short.into());
        }
        scratch.rdata.clear();
        rdata::from_message(rtype, self.octets, data_at, len, &mut scratch.rdata)
            .map_err(|error| TransferFailure::Rdata(rtype, error))?;
        // RFC 2181 section 8: a TTL with the most significant bit set is 0.
        let ttl = i32::try_from(u32::from_be_bytes(ttl)).unwrap_or(0) as u32;
        Ok(Some(ScannedRecord {
            owner: scratch.owner.as_name(),
            same_owner,
            rtype,
            class: Class(u16::from_be_bytes([c0, c1])),
            ttl,
            rdata: &scratch.rdata,
        }))
    }

    /// Reads the owner; true if it is that of the previous record in this message.
    fn read_owner(&mut self, scratch: &mut RecordScratch) -> Result<bool, TransferFailure> {
        let place = match self.octets.get(self.at..self.at + 2) {
            Some(&[high @ 0xc0..=0xff, low]) => usize::from(high & 0x3f) << 8 | usize::from(low),
            _ => self.at,
        };
        // That position was read before, so it is earlier in the message.
        if place == scratch.owner_place {
            self.at += 2;
            return Ok(true);
        }
        let (owner, behind) =
            NameBuf::from_message(self.octets, self.at).map_err(MessageError::Name)?;
        scratch.owner.assign(owner.as_name());
        scratch.owner_place = place;
        self.at = behind;
        Ok(false)
    }

    /// Skips records of other sections, which have no meaning in a transfer (RFC 5936 sections 2.2.3 to 2.2.5). They
    /// must exactly fill the message.
    pub(super) fn skip_to_end(mut self, count: u32) -> Result<(), TransferFailure> {
        for _ in 0..count {
            let (_, behind) =
                NameBuf::from_message(self.octets, self.at).map_err(MessageError::Name)?;
            let rest = self.octets.get(behind..).ok_or(MessageError::Short)?;
            let fixed: &[u8; FIXED] = rest.first_chunk().ok_or(MessageError::Short)?;
            self.at = behind + FIXED + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        }
        match self.at.cmp(&self.octets.len()) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(MessageError::Trailing.into()),
            std::cmp::Ordering::Greater => Err(MessageError::Short.into()),
        }
    }
}
