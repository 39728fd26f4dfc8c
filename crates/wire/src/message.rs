//! DNS messages: requests as a server needs them ([`Query`]), arbitrary messages with all sections ([`Message`]), and
//! two writers: [`MessageWriter`] for any message, [`BulkWriter`] for zone transfers.
//!
//! [`Query::parse`] reads the header, the question and the OPT record (RFC 6891), and skips all other records with
//! bounds checks. It never allocates, and its cost is linear in the packet size: names of other records are skipped,
//! not expanded, so compression cannot multiply work.

mod bulk;
mod client_subnet;
pub mod extended_error;
mod opt;
mod reader;
mod writer;

pub use bulk::{BulkWriter, WrittenOwner};
pub use client_subnet::{ClientSubnet, SubnetOption};
pub use opt::{OptRecord, PADDING_BLOCK, pad_reply};
pub use reader::{Message, MessageError, MessageQuestion, MessageRecords, RecordView};
pub use writer::{
    MAX_POINTER, Mark, MessageFull, MessageSection, MessageWriter, OwnerForm, WrittenName,
};

use crate::name::Name;
use crate::rtype::{Class, Opcode, Type};

/// Octets of the message header.
pub const HEADER: usize = 12;
/// Octets of an OPT record without options.
pub const OPT_FIXED: usize = 11;

const QR: u8 = 0x80;
const AA: u8 = 0x04;
const TC: u8 = 0x02;
const RD: u8 = 0x01;

/// A request, as far as a server needs it.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    packet: &'a [u8],
    /// The requested operation.
    pub opcode: Opcode,
    /// The name in the question, case as sent.
    pub qname: Name<'a>,
    /// The type in the question.
    pub qtype: Type,
    /// The class in the question.
    pub qclass: Class,
    /// Offset of the end of the question section.
    pub question_end: usize,
    /// The OPT record, if present.
    pub edns: Option<Edns<'a>>,
    /// A TSIG record is present somewhere after the question (RFC 8945), not yet verified.
    pub is_signed: bool,
    /// The request has neither a TSIG record nor an EXPIRE, PADDING, COOKIE, edns-tcp-keepalive or client subnet
    /// option.
    pub is_plain: bool,
    /// Octets to leave free in the reply for its TSIG record.
    pub reserved: u16,
}

/// The OPT record of a request.
#[derive(Debug, Clone, Copy)]
pub struct Edns<'a> {
    /// The client's UDP payload size, as sent.
    pub payload: u16,
    /// The EDNS version.
    pub version: u8,
    /// The DO bit (RFC 3225).
    pub dnssec_ok: bool,
    /// The CO bit: the client supports compact denial, whatever the response code (RFC 9824 section 5.1).
    pub compact_ok: bool,
    /// Whether the NSID option was requested (RFC 5001).
    pub nsid: bool,
    /// Whether the EXPIRE option was requested (RFC 7314).
    pub expire: bool,
    /// Whether the request is padded (RFC 7830).
    pub padding: bool,
    /// The COOKIE option (RFC 7873), not verified: 8 octets, or 16 to 40.
    pub cookie: Option<&'a [u8]>,
    /// The COOKIE option of the reply. Set by the server, not by the parser.
    pub reply_cookie: Option<ReplyCookie>,
    /// The edns-tcp-keepalive option (RFC 7828).
    pub keepalive: KeepaliveOption,
    /// The edns-tcp-keepalive option of the reply, in units of 100 milliseconds. Set by the server, not by the parser.
    pub reply_keepalive: Option<u16>,
    /// The client subnet option (RFC 7871).
    pub subnet: SubnetOption<'a>,
}

/// The edns-tcp-keepalive option of a request (RFC 7828). Over UDP it has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveOption {
    /// The option is not there.
    Absent,
    /// The option is there, without a value as clients must send it.
    Empty,
    /// The option is there with a value, which only servers send.
    WithValue,
}

/// The COOKIE option of a reply (RFC 7873, RFC 9018).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyCookie {
    /// The client cookie and the server cookie.
    pub octets: [u8; 24],
    /// The request had a valid server cookie.
    pub is_verified: bool,
}

/// The reason why a packet is not a request that can be answered normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than a header: there is nothing to reply to.
    TooShort,
    /// A response (QR=1): answering it could create a loop (RFC 8906 section 3.1 only requires replies to requests).
    Response,
    /// The header is complete, but the rest is malformed: reply FORMERR with only a header.
    FormErr,
    /// Like [`Malformed::FormErr`], but the question was readable up to this offset.
    FormErrAfterQuestion(usize),
    /// An opcode other than QUERY, NOTIFY and UPDATE without a readable question: reply NOTIMP with only a header.
    NotImplemented,
}

impl<'a> Query<'a> {
    /// Parses a packet.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER] = packet.first_chunk().ok_or(Malformed::TooShort)?;
        if header[2] & QR != 0 {
            return Err(Malformed::Response);
        }
        let opcode = Opcode(header[2] >> 3 & 0x0f);
        let parsed = Self::parse_body(packet, header, opcode);
        if parsed.is_err() && !matches!(opcode, Opcode::QUERY | Opcode::NOTIFY | Opcode::UPDATE) {
            // The format of other opcodes after the header is unknown.
            return Err(Malformed::NotImplemented);
        }
        parsed
    }

    #[inline]
    fn parse_body(
        packet: &'a [u8],
        header: &[u8; HEADER],
        opcode: Opcode,
    ) -> Result<Self, Malformed> {
        // RFC 9619: a QUERY has exactly one question. NOTIFY and UPDATE have one as well.
        if u16::from_be_bytes([header[4], header[5]]) != 1 {
            return Err(Malformed::FormErr);
        }
        let (qname, rest) = Name::split_from(&packet[HEADER..]).map_err(|_| Malformed::FormErr)?;
        let Some(&[t0, t1, c0, c1]) = rest.first_chunk() else {
            return Err(Malformed::FormErr);
        };
        let question_end = HEADER + qname.as_wire().len() + 4;
        let mut query = Query {
            packet,
            opcode,
            qname,
            qtype: Type(u16::from_be_bytes([t0, t1])),
            qclass: Class(u16::from_be_bytes([c0, c1])),
            question_end,
            edns: None,
            is_signed: false,
            is_plain: true,
            reserved: 0,
        };
        query
            .read_records(header)
            .ok_or(Malformed::FormErrAfterQuestion(question_end))?;
        Ok(query)
    }

    /// Walks the records after the question and extracts the OPT record.
    fn read_records(&mut self, header: &[u8; HEADER]) -> Option<()> {
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]) as u32;
        let (before, additional) = (count(6) + count(8), count(10));
        let mut at = self.question_end;
        for i in 0..before + additional {
            let owner_len = skip_name(self.packet, at)?;
            let fixed: &[u8; 10] = self.packet.get(at + owner_len..)?.first_chunk()?;
            let rtype = Type(u16::from_be_bytes([fixed[0], fixed[1]]));
            let start = at + owner_len + 10;
            let end = start + u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
            let rdata = self.packet.get(start..end)?;
            if rtype == Type::OPT {
                // RFC 6891 section 6.1.1: at most one OPT, in the additional section, owner root.
                if i < before || owner_len != 1 || self.packet[at] != 0 || self.edns.is_some() {
                    return None;
                }
                let edns = Edns::parse(fixed, rdata)?;
                self.is_plain &= !edns.expire
                    && !edns.padding
                    && edns.cookie.is_none()
                    && edns.keepalive == KeepaliveOption::Absent
                    && edns.subnet == SubnetOption::Absent;
                self.edns = Some(edns);
            } else if rtype == Type::TSIG {
                // Its position is checked when it is verified.
                self.is_signed = true;
                self.is_plain = false;
            }
            at = end;
        }
        Some(())
    }

    /// Parses a request without a question, which only requests a server cookie (RFC 7873 section 5.4).
    pub fn parse_cookie_only(packet: &'a [u8]) -> Option<Edns<'a>> {
        let header: &[u8; HEADER] = packet.first_chunk()?;
        let is_query = header[2] & (QR | 0x78) == 0;
        if !is_query || header[4..] != [0, 0, 0, 0, 0, 0, 0, 1] || packet.get(HEADER) != Some(&0) {
            return None;
        }
        let fixed: &[u8; 10] = packet.get(HEADER + 1..)?.first_chunk()?;
        let start = HEADER + OPT_FIXED;
        let end = start + u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
        if Type(u16::from_be_bytes([fixed[0], fixed[1]])) != Type::OPT {
            return None;
        }
        let edns = Edns::parse(fixed, packet.get(start..end)?)?;
        (edns.cookie.is_some() && edns.version == 0).then_some(edns)
    }

    /// Returns the message as received.
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Returns the RD (recursion desired) bit.
    pub fn rd(&self) -> bool {
        self.packet[2] & RD != 0
    }
}

/// A request that outlives its packet: header, question and the OPT settings. Nothing else of the packet is kept,
/// however long it was.
#[derive(Debug, Clone)]
pub struct QueryBuf {
    octets: Box<[u8]>,
    edns: Option<Edns<'static>>,
    is_signed: bool,
    reserved: u16,
}

impl QueryBuf {
    /// Returns the request, as far as an answer depends on it. Of the COOKIE option only that of the reply is kept.
    pub fn as_query(&self) -> Query<'_> {
        let octets = &self.octets[..];
        let name_end = octets.len() - 4;
        let number = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        Query {
            packet: octets,
            opcode: Opcode(octets[2] >> 3 & 0x0f),
            qname: Name::from_valid_wire(&octets[HEADER..name_end]),
            qtype: Type(number(name_end)),
            qclass: Class(number(name_end + 2)),
            question_end: octets.len(),
            edns: self.edns,
            is_signed: self.is_signed,
            is_plain: !self.is_signed && !self.edns.is_some_and(|edns| edns.expire),
            reserved: self.reserved,
        }
    }
}

impl From<&Query<'_>> for QueryBuf {
    fn from(query: &Query<'_>) -> Self {
        QueryBuf {
            octets: query.packet[..query.question_end].into(),
            edns: query.edns.map(|edns| Edns {
                payload: edns.payload,
                version: edns.version,
                dnssec_ok: edns.dnssec_ok,
                compact_ok: edns.compact_ok,
                nsid: edns.nsid,
                expire: edns.expire,
                padding: edns.padding,
                cookie: None,
                reply_cookie: edns.reply_cookie,
                keepalive: edns.keepalive,
                reply_keepalive: edns.reply_keepalive,
                subnet: match edns.subnet {
                    SubnetOption::Believed(subnet) => SubnetOption::Believed(subnet),
                    SubnetOption::Absent | SubnetOption::Received(_) => SubnetOption::Absent,
                },
            }),
            is_signed: query.is_signed,
            reserved: query.reserved,
        }
    }
}

impl<'a> Edns<'a> {
    /// Returns the network of the client that the sender queries for, if the sender is believed.
    #[inline]
    pub fn client_subnet(&self) -> Option<ClientSubnet> {
        match self.subnet {
            SubnetOption::Believed(subnet) => Some(subnet),
            SubnetOption::Absent | SubnetOption::Received(_) => None,
        }
    }

    fn parse(fixed: &[u8; 10], options: &'a [u8]) -> Option<Self> {
        let mut edns = Edns {
            payload: u16::from_be_bytes([fixed[2], fixed[3]]),
            version: fixed[5],
            dnssec_ok: fixed[6] & 0x80 != 0,
            compact_ok: fixed[6] & 0x40 != 0,
            nsid: false,
            expire: false,
            padding: false,
            cookie: None,
            reply_cookie: None,
            keepalive: KeepaliveOption::Absent,
            reply_keepalive: None,
            subnet: SubnetOption::Absent,
        };
        let mut rest = options;
        while !rest.is_empty() {
            let (head, tail) = rest.split_first_chunk::<4>()?;
            let (value, tail) =
                tail.split_at_checked(u16::from_be_bytes([head[2], head[3]]) as usize)?;
            match u16::from_be_bytes([head[0], head[1]]) {
                3 => edns.nsid = true,
                8 if edns.subnet == SubnetOption::Absent => {
                    edns.subnet = SubnetOption::Received(value);
                }
                9 => edns.expire = true,
                12 => edns.padding = true,
                // RFC 7873 section 5.2.2: other lengths are malformed.
                10 if !matches!(value.len(), 8 | 16..=40) => return None,
                10 if edns.cookie.is_none() => edns.cookie = Some(value),
                11 if value.is_empty() && edns.keepalive == KeepaliveOption::Absent => {
                    edns.keepalive = KeepaliveOption::Empty;
                }
                11 if !value.is_empty() => edns.keepalive = KeepaliveOption::WithValue,
                // RFC 6891 section 6.1.2: unknown options are ignored.
                _ => {}
            }
            rest = tail;
        }
        Some(edns)
    }
}

/// Returns the octets that the name at `at` takes in the packet; a compression pointer ends it.
fn skip_name(packet: &[u8], at: usize) -> Option<usize> {
    let mut read = at;
    loop {
        match *packet.get(read)? {
            0 => return Some(read + 1 - at),
            len @ 1..=63 => read += 1 + len as usize,
            0xc0..=0xff => {
                let low = *packet.get(read + 1)?;
                let target = ((packet[read] & 0x3f) as usize) << 8 | low as usize;
                return (target < at).then_some(read + 2 - at);
            }
            _ => return None,
        }
        if read - at >= crate::name::MAX_NAME {
            return None;
        }
    }
}

/// The flags of a reply that are not copied from the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplyFlags {
    /// The AA (authoritative answer) bit.
    pub aa: bool,
    /// The TC (truncated) bit.
    pub tc: bool,
    /// The low four bits of the response code.
    pub rcode: u8,
}

/// Writes the header of a reply: ID, opcode and RD from the request (RFC 1035 section 4.1.1), CD clear as an
/// authoritative server should (RFC 4035 section 3.1.6), and the given counts.
#[inline]
pub fn write_reply_header(request: &[u8], reply: &mut [u8], flags: ReplyFlags, counts: [u16; 4]) {
    let Some(reply) = reply.first_chunk_mut::<HEADER>() else {
        return;
    };
    let Some(request) = request.first_chunk::<HEADER>() else {
        return;
    };
    reply[0] = request[0];
    reply[1] = request[1];
    reply[2] = QR
        | request[2] & (0x78 | RD)
        | if flags.aa { AA } else { 0 }
        | if flags.tc { TC } else { 0 };
    reply[3] = flags.rcode & 0x0f;
    for (i, count) in counts.iter().enumerate() {
        reply[4 + 2 * i..6 + 2 * i].copy_from_slice(&count.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
