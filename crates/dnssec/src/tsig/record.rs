//! The TSIG record: reading and writing it at the end of a message (RFC 8945 section 4.2).

use super::{TsigFailure, TsigKey};
use nameward_wire::message::{HEADER, Message, MessageSection};
use nameward_wire::{Class, Name, NameBuf, Type};

/// A TSIG record as received.
#[derive(Debug, Clone)]
pub struct TsigRecord<'m> {
    /// Start of the record, which is the end of the signed message.
    pub start: usize,
    /// The key name, case as sent.
    pub key_name: NameBuf,
    /// The algorithm name, case as sent.
    pub algorithm: NameBuf,
    /// Seconds since 1970.
    pub time_signed: u64,
    /// Allowed clock difference in seconds.
    pub fudge: u16,
    /// The MAC, possibly truncated.
    pub mac: &'m [u8],
    /// The message ID before a forwarder changed it.
    pub original_id: u16,
    /// The error that the signer reports.
    pub error: u16,
    /// The signer's time, if it reports BADTIME.
    pub other: &'m [u8],
}

impl<'m> TsigRecord<'m> {
    /// Finds the TSIG record of a message.
    ///
    /// RFC 8945 section 5.1: it is the last record in the additional section, and there is only one.
    pub fn find(octets: &'m [u8]) -> Result<Option<Self>, TsigFailure> {
        let message = Message::parse(octets).map_err(|_| TsigFailure::Malformed)?;
        let mut found = None;
        for record in message.records() {
            let record = record.map_err(|_| TsigFailure::Malformed)?;
            if found.is_some() {
                return Err(TsigFailure::Malformed);
            }
            if record.rtype == Type::TSIG {
                if record.section != MessageSection::Additional {
                    return Err(TsigFailure::Malformed);
                }
                let tsig = (record.class == Class::ANY && record.ttl == 0)
                    .then(|| Self::read(record.owner, record.start, record.raw_data()))
                    .flatten();
                found = Some(tsig.ok_or(TsigFailure::Malformed)?);
            }
        }
        Ok(found)
    }

    fn read(key_name: NameBuf, start: usize, data: &'m [u8]) -> Option<Self> {
        // RFC 8945 section 4.2: the algorithm name is not compressed.
        let (algorithm, rest) = Name::split_from(data).ok()?;
        let (time, rest) = rest.split_first_chunk::<6>()?;
        let (fudge, rest) = rest.split_first_chunk::<2>()?;
        let (mac, rest) = split_counted(rest)?;
        let (original_id, rest) = rest.split_first_chunk::<2>()?;
        let (error, rest) = rest.split_first_chunk::<2>()?;
        let (other, rest) = split_counted(rest)?;
        if !rest.is_empty() {
            return None;
        }
        Some(TsigRecord {
            start,
            key_name,
            algorithm: NameBuf::from(algorithm),
            time_signed: read_time(time),
            fudge: u16::from_be_bytes(*fudge),
            mac,
            original_id: u16::from_be_bytes(*original_id),
            error: u16::from_be_bytes(*error),
            other,
        })
    }

    /// Returns the fields that a digest covers.
    pub(super) fn fields(&self) -> TsigFields<'m> {
        TsigFields {
            time_signed: self.time_signed,
            fudge: self.fudge,
            original_id: self.original_id,
            error: self.error,
            other: self.other,
        }
    }
}

/// Splits off octets preceded by their length.
fn split_counted(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = rest.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

fn read_time(time: &[u8; 6]) -> u64 {
    time.iter()
        .fold(0, |sum, octet| sum << 8 | u64::from(*octet))
}

/// The fields of a record to be written, except those of the key.
#[derive(Clone, Copy)]
pub(super) struct TsigFields<'f> {
    pub(super) time_signed: u64,
    pub(super) fudge: u16,
    pub(super) original_id: u16,
    pub(super) error: u16,
    pub(super) other: &'f [u8],
}

impl TsigFields<'_> {
    /// Returns the time in the 48 bits of the record.
    pub(super) fn time_octets(&self) -> [u8; 6] {
        let [_, _, time @ ..] = self.time_signed.to_be_bytes();
        time
    }

    /// Passes the digest variables to `update`, in order (RFC 8945 section 4.3.3).
    pub(super) fn digest_variables(
        &self,
        key_name: Name<'_>,
        algorithm: Name<'_>,
        mut update: impl FnMut(&[u8]),
    ) {
        update(key_name.as_wire());
        update(&Class::ANY.0.to_be_bytes());
        update(&0u32.to_be_bytes());
        update(algorithm.as_wire());
        self.digest_timers(&mut update);
        update(&self.error.to_be_bytes());
        update(&(self.other.len() as u16).to_be_bytes());
        update(self.other);
    }

    /// Passes only the timers to `update`, for all messages in a stream except the first (RFC 8945 section 5.3.1).
    pub(super) fn digest_timers(&self, mut update: impl FnMut(&[u8])) {
        update(&self.time_octets());
        update(&self.fudge.to_be_bytes());
    }

    /// Appends the record; the caller updates the record count.
    pub(super) fn encode(
        &self,
        (key_name, algorithm): (Name<'_>, Name<'_>),
        mac: &[u8],
        message: &mut Vec<u8>,
    ) {
        message.extend_from_slice(key_name.as_wire());
        message.extend_from_slice(&Type::TSIG.0.to_be_bytes());
        message.extend_from_slice(&Class::ANY.0.to_be_bytes());
        message.extend_from_slice(&0u32.to_be_bytes());
        let len = algorithm.as_wire().len() + 16 + mac.len() + self.other.len();
        message.extend_from_slice(&(len as u16).to_be_bytes());
        message.extend_from_slice(algorithm.as_wire());
        message.extend_from_slice(&self.time_octets());
        message.extend_from_slice(&self.fudge.to_be_bytes());
        message.extend_from_slice(&(mac.len() as u16).to_be_bytes());
        message.extend_from_slice(mac);
        message.extend_from_slice(&self.original_id.to_be_bytes());
        message.extend_from_slice(&self.error.to_be_bytes());
        message.extend_from_slice(&(self.other.len() as u16).to_be_bytes());
        message.extend_from_slice(self.other);
    }
}

/// Changes the number of records in the additional section.
pub(super) fn add_to_additional_count(message: &mut [u8], by: i16) {
    if let Some(header) = message.first_chunk_mut::<HEADER>() {
        let count = u16::from_be_bytes([header[10], header[11]]).wrapping_add_signed(by);
        header[10..12].copy_from_slice(&count.to_be_bytes());
    }
}

impl TsigKey {
    /// Returns the octets that a record with this key adds to a message.
    pub fn record_len(&self) -> usize {
        let names = self.name().as_wire().len() + self.algorithm().wire_name().as_wire().len();
        names + 10 + 16 + self.algorithm().mac_len()
    }
}

/// Returns the header as the signer had it: the original ID, without counting the TSIG record.
pub(super) fn signed_header(message: &[u8], original_id: u16) -> Option<[u8; HEADER]> {
    let mut header = *message.first_chunk::<HEADER>()?;
    header[..2].copy_from_slice(&original_id.to_be_bytes());
    add_to_additional_count(&mut header, -1);
    Some(header)
}
