//! The differences of an IXFR (RFC 1995 section 4): sequences of removed and added records, each after its SOA.
//!
//! ```text
//! SOA of the newest version          already read
//! SOA of the version before          removed records follow
//! SOA of the version after           added records follow; the next sequence starts at this serial
//! ...
//! SOA of the newest version          the end
//! ```

use super::failure::TransferFailure;
use super::records::ScannedRecord;
use nameward_wire::Type;
use nameward_zone::change::{Difference, soa_serial};
use nameward_zone::{Serial, WireRecord};

/// Differences being read.
pub(super) struct DifferenceChain {
    newest: Serial,
    /// The serial that the current sequence leads from, and to once that is known.
    from: Serial,
    to: Option<Serial>,
    current: Difference,
    done: Vec<Difference>,
    /// Octets of the complete differences.
    done_octets: u64,
}

impl DifferenceChain {
    /// Starts with the SOA of our version.
    pub(super) fn begin(
        newest: Serial,
        have: Serial,
        soa: &ScannedRecord<'_>,
    ) -> Result<Self, TransferFailure> {
        let mut chain = DifferenceChain {
            newest,
            from: have,
            to: None,
            current: Difference::default(),
            done: Vec::new(),
            done_octets: 0,
        };
        chain.begin_sequence(have, soa)?;
        Ok(chain)
    }

    /// Returns the octets of memory that the differences take so far.
    pub(super) fn memory(&self) -> u64 {
        let lists = [&self.current.removed, &self.current.added];
        let current: usize = lists.iter().map(|list| list.as_bytes().len()).sum();
        // A sequence costs its entry in the list, however small it is.
        self.done_octets + (current + size_of::<Difference>()) as u64
    }

    fn begin_sequence(
        &mut self,
        expected: Serial,
        soa: &ScannedRecord<'_>,
    ) -> Result<(), TransferFailure> {
        let found = serial_of(soa)?;
        if found != expected {
            return Err(TransferFailure::BrokenChain { expected, found });
        }
        (self.from, self.to) = (found, None);
        self.current.removed.push(listed(soa));
        Ok(())
    }

    /// Processes a record; returns the differences if it was the last one.
    pub(super) fn take(
        &mut self,
        record: &ScannedRecord<'_>,
    ) -> Result<Option<Vec<Difference>>, TransferFailure> {
        if record.rtype != Type::SOA {
            match self.to {
                None => self.current.removed.push(listed(record)),
                Some(_) => self.current.added.push(listed(record)),
            }
            return Ok(None);
        }
        let Some(to) = self.to else {
            let (from, to) = (self.from, serial_of(record)?);
            if !to.is_after(from) {
                return Err(TransferFailure::Backward { from, to });
            }
            self.to = Some(to);
            self.current.added.push(listed(record));
            return Ok(None);
        };
        self.done_octets = self.memory();
        self.done.push(std::mem::take(&mut self.current));
        if to == self.newest {
            let last = serial_of(record)?;
            return if last == to {
                Ok(Some(std::mem::take(&mut self.done)))
            } else {
                Err(TransferFailure::LastSoaDiffers { first: to, last })
            };
        }
        self.begin_sequence(to, record)?;
        Ok(None)
    }
}

fn serial_of(soa: &ScannedRecord<'_>) -> Result<Serial, TransferFailure> {
    soa_serial(soa.rdata).ok_or(TransferFailure::NoSoa)
}

pub(super) fn listed<'s>(record: &ScannedRecord<'s>) -> WireRecord<'s> {
    WireRecord {
        owner: record.owner,
        rtype: record.rtype,
        ttl: record.ttl,
        rdata: record.rdata,
    }
}
