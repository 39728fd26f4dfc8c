//! A request as a server needs it: header, question, and what its OPT record says. Nothing is copied from the packet.

use super::edns::OptionSpan;
use super::{Edns, HEADER, OPT_FIXED, QR, RD, ReplyOptions, skip_name};
use crate::name::Name;
use crate::rtype::{Class, Opcode, Type};
use smallvec::SmallVec;

/// A request, as far as a server needs it.
///
/// It is small and filled in place ([`Query::read`]), since a batch of them is parsed before the first is answered.
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
    pub edns: Option<Edns>,
    /// A TSIG record is present somewhere after the question (RFC 8945), not yet verified.
    pub is_signed: bool,
    /// The request has neither a TSIG record nor an EXPIRE, PADDING, COOKIE, edns-tcp-keepalive or client subnet
    /// option.
    pub is_plain: bool,
    /// Octets to leave free in the reply for its TSIG record.
    pub reserved: u16,
    /// Options for the OPT record of the reply. Set by the server, not by the parser.
    pub reply_options: &'a ReplyOptions,
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
    /// A query for the root that was never received, to be replaced by [`Query::read`].
    pub const EMPTY: Query<'static> = Query {
        packet: &[0; HEADER],
        opcode: Opcode::QUERY,
        qname: Name::ROOT,
        qtype: Type(0),
        qclass: Class::IN,
        question_end: HEADER,
        edns: None,
        is_signed: false,
        is_plain: true,
        reserved: 0,
        reply_options: &ReplyOptions::NONE,
    };

    /// Parses a packet.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let mut query = Query::EMPTY;
        query.read(packet)?;
        Ok(query)
    }

    /// Parses a packet in place of [`Query::EMPTY`]. After an error the contents are unspecified.
    #[inline]
    pub fn read(&mut self, packet: &'a [u8]) -> Result<(), Malformed> {
        let header: &[u8; HEADER] = packet.first_chunk().ok_or(Malformed::TooShort)?;
        if header[2] & QR != 0 {
            return Err(Malformed::Response);
        }
        self.packet = packet;
        self.opcode = Opcode(header[2] >> 3 & 0x0f);
        let is_known = matches!(self.opcode, Opcode::QUERY | Opcode::NOTIFY | Opcode::UPDATE);
        let result = self.read_body(header);
        if result.is_err() && !is_known {
            // The format of other opcodes after the header is unknown.
            return Err(Malformed::NotImplemented);
        }
        result
    }

    #[inline]
    fn read_body(&mut self, header: &[u8; HEADER]) -> Result<(), Malformed> {
        // RFC 9619: a QUERY has exactly one question. NOTIFY and UPDATE have one as well.
        if u16::from_be_bytes([header[4], header[5]]) != 1 {
            return Err(Malformed::FormErr);
        }
        let question = &self.packet[HEADER..];
        let (qname, rest) = Name::split_from(question).map_err(|_| Malformed::FormErr)?;
        let Some(&[t0, t1, c0, c1]) = rest.first_chunk() else {
            return Err(Malformed::FormErr);
        };
        self.qname = qname;
        self.qtype = Type(u16::from_be_bytes([t0, t1]));
        self.qclass = Class(u16::from_be_bytes([c0, c1]));
        self.question_end = HEADER + qname.as_wire().len() + 4;
        self.read_records(header)
            .ok_or(Malformed::FormErrAfterQuestion(self.question_end))
    }

    /// Walks the records after the question and extracts the OPT record.
    #[inline]
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
            if end > self.packet.len() {
                return None;
            }
            if rtype == Type::OPT {
                // RFC 6891 section 6.1.1: at most one OPT, in the additional section, owner root.
                if i < before || owner_len != 1 || self.packet[at] != 0 || self.edns.is_some() {
                    return None;
                }
                let edns = self.edns.insert(Edns::new(fixed));
                if start < end {
                    edns.read_options(self.packet, start..end)?;
                    self.is_plain &= edns.is_plain();
                }
            } else if rtype == Type::TSIG {
                // Its position is checked when it is verified.
                self.is_signed = true;
                self.is_plain = false;
            }
            at = end;
        }
        Some(())
    }

    /// Parses a request without a question, which only requests a server cookie (RFC 7873 section 5.4); returns its COOKIE
    /// option.
    pub fn parse_cookie_only(packet: &'a [u8]) -> Option<&'a [u8]> {
        let header: &[u8; HEADER] = packet.first_chunk()?;
        let is_query = header[2] & (QR | 0x78) == 0;
        if !is_query || header[4..] != [0, 0, 0, 0, 0, 0, 0, 1] || packet.get(HEADER) != Some(&0) {
            return None;
        }
        let fixed: &[u8; 10] = packet.get(HEADER + 1..)?.first_chunk()?;
        let start = HEADER + OPT_FIXED;
        let end = start + u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
        if Type(u16::from_be_bytes([fixed[0], fixed[1]])) != Type::OPT || end > packet.len() {
            return None;
        }
        let mut edns = Edns::new(fixed);
        edns.read_options(packet, start..end)?;
        edns.cookie.value_in(packet).filter(|_| edns.version == 0)
    }

    /// Checks whether the request has a COOKIE option (RFC 7873).
    #[inline]
    pub fn has_cookie(&self) -> bool {
        let edns = self.edns.as_ref();
        edns.is_some_and(|edns| edns.cookie != OptionSpan::ABSENT)
    }

    /// Returns the COOKIE option (RFC 7873), not verified: 8 octets, or 16 to 40.
    pub fn cookie(&self) -> Option<&'a [u8]> {
        self.edns.as_ref()?.cookie.value_in(self.packet)
    }

    /// Returns the client subnet option (RFC 7871), not parsed.
    pub fn client_subnet(&self) -> Option<&'a [u8]> {
        self.edns.as_ref()?.subnet.value_in(self.packet)
    }

    /// Returns the request with these options for its reply.
    pub fn with_reply_options<'b>(self, reply_options: &'b ReplyOptions) -> Query<'b>
    where
        'a: 'b,
    {
        Query {
            reply_options,
            ..self
        }
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

/// A request that outlives its packet: header, question, the OPT settings, and the options of the reply. Nothing else of
/// the packet is kept, however long it was.
#[derive(Debug, Clone)]
pub struct QueryBuf {
    /// Up to the end of the question. Most names are short.
    octets: SmallVec<[u8; 64]>,
    edns: Option<Edns>,
    is_signed: bool,
    reserved: u16,
    reply_options: ReplyOptions,
}

impl QueryBuf {
    /// Returns the request, as far as an answer depends on it. Of the COOKIE and client subnet options only those of the
    /// reply are kept.
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
            reply_options: &self.reply_options,
        }
    }
}

impl From<&Query<'_>> for QueryBuf {
    fn from(query: &Query<'_>) -> Self {
        QueryBuf {
            octets: SmallVec::from_slice(&query.packet[..query.question_end]),
            edns: query.edns.map(|edns| Edns {
                cookie: OptionSpan::ABSENT,
                subnet: OptionSpan::ABSENT,
                ..edns
            }),
            is_signed: query.is_signed,
            reserved: query.reserved,
            reply_options: *query.reply_options,
        }
    }
}
