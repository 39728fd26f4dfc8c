//! Single-message responses: to an SOA query, and to a NOTIFY.

use super::failure::TransferFailure;
use super::question::{SentRequest, is_zone};
use super::records::{RecordCursor, RecordScratch};
use nameward_wire::message::{Message, MessageSection};
use nameward_wire::{Class, Name, NameBuf, Type};
use nameward_zone::Serial;
use nameward_zone::change::soa_serial;

/// The EXPIRE option code.
const EXPIRE: u16 = 9;

/// The response to an SOA query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoaReply {
    /// The primary's serial, and the remaining lifetime of its copy in seconds, if it sent one (RFC 7314).
    Serial(Serial, Option<u32>),
    /// The response did not fit: the query must be repeated over TCP.
    Truncated,
}

/// Reads the response to an SOA query.
///
/// RFC 1034 section 4.3.5 has the secondary query the primary, so a non-authoritative answer is rejected: it may come
/// from a resolver in between.
pub fn read_soa_reply(request: &SentRequest, octets: &[u8]) -> Result<SoaReply, TransferFailure> {
    let message = Message::parse(octets)?;
    let at = request.check(&message)?;
    if message.rcode() != 0 {
        return Err(TransferFailure::Code(message.rcode()));
    }
    if message.is_truncated() {
        return Ok(SoaReply::Truncated);
    }
    if !message.is_authoritative() {
        return Err(TransferFailure::NotAuthoritative);
    }
    let mut scratch = RecordScratch::default();
    let count = message.promised(MessageSection::Answer);
    let mut cursor = RecordCursor::new(octets, at, count, &mut scratch);
    while let Some(record) = cursor.next(&mut scratch)? {
        if record.rtype == Type::SOA && record.class == Class::IN && is_zone(request, record.owner)
        {
            let serial = soa_serial(record.rdata).ok_or(TransferFailure::NoSoa)?;
            return Ok(SoaReply::Serial(serial, expire_of(&message)));
        }
    }
    Err(TransferFailure::NoSoa)
}

/// Reads the EXPIRE option of a response (RFC 7314), if it has one.
pub(super) fn expire_of(message: &Message<'_>) -> Option<u32> {
    if message.promised(MessageSection::Additional) == 0 {
        return None;
    }
    let mut records = message.records().map_while(Result::ok);
    let opt = records
        .find(|record| record.section == MessageSection::Additional && record.rtype == Type::OPT)?;
    let mut options = opt.raw_data();
    while let Some(([c0, c1, l0, l1], rest)) = options.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*l0, *l1]));
        let (value, behind) = rest.split_at_checked(length)?;
        if u16::from_be_bytes([*c0, *c1]) == EXPIRE {
            return value.try_into().ok().map(u32::from_be_bytes);
        }
        options = behind;
    }
    None
}

/// Reads the response to a query for the NS records of a zone, which must be authoritative.
pub fn read_name_servers(
    request: &SentRequest,
    octets: &[u8],
) -> Result<Vec<NameBuf>, TransferFailure> {
    let message = Message::parse(octets)?;
    let at = request.check(&message)?;
    if message.rcode() != 0 {
        return Err(TransferFailure::Code(message.rcode()));
    }
    if !message.is_authoritative() {
        return Err(TransferFailure::NotAuthoritative);
    }
    let mut scratch = RecordScratch::default();
    let count = message.promised(MessageSection::Answer);
    let mut cursor = RecordCursor::new(octets, at, count, &mut scratch);
    let mut servers = Vec::new();
    while let Some(record) = cursor.next(&mut scratch)? {
        if record.rtype == Type::NS && record.class == Class::IN && is_zone(request, record.owner) {
            servers.extend(Name::from_wire(record.rdata).map(NameBuf::from));
        }
    }
    Ok(servers)
}

/// Reads the response to a NOTIFY. Any response ends the notification (RFC 1996 section 3.6); one with an error is a
/// failure.
pub fn read_notify_reply(request: &SentRequest, octets: &[u8]) -> Result<(), TransferFailure> {
    let message = Message::parse(octets)?;
    request.check(&message)?;
    match message.rcode() {
        0 => Ok(()),
        code => Err(TransferFailure::Code(code)),
    }
}
