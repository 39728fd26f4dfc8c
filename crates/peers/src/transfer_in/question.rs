//! Messages that this server sends to others: queries for SOA, AXFR and IXFR, and NOTIFY.

use super::failure::TransferFailure;
use nameward_wire::message::{HEADER, Message, MessageError};
use nameward_wire::{Class, Name, NameBuf, Opcode, Type};
use nameward_zone::{Serial, Zone};

/// An OPT record with an empty EXPIRE option (RFC 7314 section 2), which requests the remaining lifetime of the
/// primary's own copy. UDP responses may have 1232 octets.
const EXPIRE_OPT: [u8; 15] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 4, 0, 9, 0, 0];

/// Size of the data of a SOA record with the root as both of its names, in octets.
const BARE_SOA: usize = 22;

/// A query about a zone that was sent and that responses must match.
#[derive(Debug, Clone, Copy)]
pub struct SentRequest {
    /// The message ID.
    pub id: u16,
    /// QUERY or NOTIFY.
    pub opcode: Opcode,
    /// The zone.
    pub zone: NameBuf,
    /// SOA, AXFR or IXFR.
    pub qtype: Type,
}

impl SentRequest {
    /// Creates a query to a primary about a zone; which of our versions it is about is not for the primary to know.
    pub fn query(id: u16, zone: NameBuf, qtype: Type) -> Self {
        SentRequest {
            id,
            opcode: Opcode::QUERY,
            zone: zone.as_name().zone().into(),
            qtype,
        }
    }

    /// Creates the NOTIFY for a changed zone (RFC 1996).
    pub fn notify(id: u16, zone: NameBuf) -> Self {
        SentRequest {
            id,
            opcode: Opcode::NOTIFY,
            zone: zone.as_name().zone().into(),
            qtype: Type::SOA,
        }
    }

    /// Returns the message. `have` is our serial, for an IXFR (RFC 1995 section 3).
    pub fn message(&self, have: Option<Serial>) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER + 2 * 255);
        message.extend_from_slice(&self.id.to_be_bytes());
        // RFC 1996 section 4.5: a NOTIFY is authoritative.
        let aa = if self.opcode == Opcode::NOTIFY {
            0x04
        } else {
            0
        };
        message.extend_from_slice(&[self.opcode.0 << 3 | aa, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        message.extend_from_slice(self.zone.as_name().as_wire());
        message.extend_from_slice(&self.qtype.0.to_be_bytes());
        message.extend_from_slice(&Class::IN.0.to_be_bytes());
        if let Some(have) = have {
            // Only the serial of this SOA matters to the primary.
            message[9] = 1;
            let mut rdata = [0; BARE_SOA];
            rdata[2..6].copy_from_slice(&have.0.to_be_bytes());
            push_soa(&mut message, 0, &rdata);
        }
        message
    }

    /// Returns the message with the EXPIRE option.
    pub fn message_with_expire(&self, have: Option<Serial>) -> Vec<u8> {
        let mut message = self.message(have);
        message[11] = 1;
        message.extend_from_slice(&EXPIRE_OPT);
        message
    }

    /// Checks the header and the question of a response, and returns where its records start.
    ///
    /// RFC 5936 section 2.2.1: the ID and the question are those of the request. A message of a transfer may omit the
    /// question, and some primaries omit it in the first one as well.
    pub(super) fn check(&self, message: &Message<'_>) -> Result<usize, TransferFailure> {
        if message.id() != self.id {
            return Err(TransferFailure::WrongId);
        }
        if !message.is_response() || message.opcode() != self.opcode {
            return Err(TransferFailure::NotReply);
        }
        let octets = message.octets();
        match u16::from_be_bytes([octets[4], octets[5]]) {
            0 => return Ok(HEADER),
            1 => {}
            _ => return Err(TransferFailure::WrongQuestion),
        }
        let (name, at) = NameBuf::from_message(octets, HEADER).map_err(MessageError::Name)?;
        let fixed = octets.get(at..at + 4).ok_or(MessageError::Short)?;
        let expected = [self.qtype.0.to_be_bytes(), Class::IN.0.to_be_bytes()].concat();
        if name.as_name() == self.zone.as_name() && fixed == expected {
            Ok(at + 4)
        } else {
            Err(TransferFailure::WrongQuestion)
        }
    }
}

/// Returns a NOTIFY with the SOA of a version as a hint (RFC 1996 section 3.7), or without one.
pub fn notify_message(request: &SentRequest, version: Option<&Zone>) -> Vec<u8> {
    let mut message = request.message(None);
    let soa = version.and_then(Zone::soa);
    let record = soa.and_then(|soa| Some((soa.ttl(), soa.records().next()?)));
    if let Some((ttl, record)) = record {
        message[7] = 1;
        push_soa(&mut message, ttl, record.rdata);
    }
    message
}

/// Appends an SOA whose owner is the name in the question.
fn push_soa(message: &mut Vec<u8>, ttl: u32, rdata: &[u8]) {
    // A pointer to the question; the root is shorter and has no labels to point at.
    match message[HEADER] {
        0 => message.push(0),
        _ => message.extend_from_slice(&[0xc0, HEADER as u8]),
    }
    message.extend_from_slice(&Type::SOA.0.to_be_bytes());
    message.extend_from_slice(&Class::IN.0.to_be_bytes());
    message.extend_from_slice(&ttl.to_be_bytes());
    message.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    message.extend_from_slice(rdata);
}

/// Checks whether a name is that of the queried zone.
pub(super) fn is_zone(request: &SentRequest, name: Name<'_>) -> bool {
    name == request.zone.as_name()
}
